/* env: the slot for what differs between browser and Node on the client's side. The package's
 * entry (index.js, index.node.js) fills it; model.js asks it. */
import { GemmaError } from './errors.js';

/**
 * A worker, as both platforms can show it.
 * @typedef {object} Port
 * @property {(message: any, transfer?: any[]) => void} post
 * @property {(handler: (message: any) => void) => void} onMessage
 * @property {(handler: (reason: unknown) => void) => void} onFailure uncaught error or early end
 * @property {() => unknown} terminate
 * @property {(on: boolean) => void} keepAlive whether it holds the process (Node) open
 */

/**
 * @typedef {object} Environment
 * @property {() => Port} createWorker starts worker.js or worker.node.js
 * @property {(text: string) => import('./protocol.js').SourceDescriptor} describe
 *   what a string given as a source means here
 */

/** @type {Environment | null} */
let current = null;

/** @param {Environment} environment */
export function setEnvironment(environment) {
  current = environment;
}

/** @returns {Environment} */
export function environment() {
  if (!current) throw new GemmaError('bad-state', 'import the package by its entry, not model.js');
  return current;
}
