/* gemma-wasm: the entry for Node; the same names as index.js. */
import { Worker } from 'node:worker_threads';
import { openStore } from './download/store-node.js';
import { nodeEnvironment } from './platform/env-node.js';
import { environment } from './platform/env.js';

Object.assign(environment, nodeEnvironment({
  startWorker: () => new Worker(new URL('./worker.node.js', import.meta.url), { execArgv: [] }),
}), { openStore });

export * from './public.js';
