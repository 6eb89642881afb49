/* env-node: the client's side in Node. */
/** @import { Environment } from './env.js' */
import { fileURLToPath } from 'node:url';
import { resolve } from 'node:path';
import { nodePort } from './port-node.js';

/** @param {{ startWorker: () => import('node:worker_threads').Worker }} scripts
 * @returns {Pick<Environment, 'createWorker' | 'describe'>} */
export function nodeEnvironment({ startWorker }) {
  return {
    createWorker: () => nodePort(startWorker()),
    describe(text) {
      if (/^(https?|data|blob):/i.test(text)) return { kind: 'url', url: text };
      return { kind: 'path', path: /^file:/i.test(text) ? fileURLToPath(text) : resolve(text) };
    },
  };
}
