/* thread.node: entry of a helper thread in Node. */
import { parentPort } from 'node:worker_threads';
import { receive } from './engine/helper.js';

parentPort?.on('message', (message) => receive(message, (answer) => parentPort?.postMessage(answer)));
