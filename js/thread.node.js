/* thread.node: entry of a helper thread in Node. */
import { parentPort } from 'node:worker_threads';
import { helper } from './helper.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
port.on('message', helper((message) => port.postMessage(message)));
