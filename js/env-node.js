/* env-node: the client's side in Node. */
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { resolve } from 'node:path';
import { nodePort } from './port-node.js';
import { openStore } from './store-node.js';

/** @type {import('./env.js').Environment} */
export const nodeEnvironment = {
  openStore,
  createWorker: () => nodePort(new Worker(new URL('./worker.node.js', import.meta.url), { execArgv: [] })),
  describe(text) {
    if (/^(https?|data|blob):/i.test(text)) return { kind: 'url', url: text };
    return { kind: 'path', path: /^file:/i.test(text) ? fileURLToPath(text) : resolve(text) };
  },
};
