/* env: the slot for what differs between browser and Node on the client's side; the package's entry
 * fills it. */
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
/** describe: what a string given as a source means.
 * @typedef {{ createWorker: () => Port,
 *   describe: (text: string) => import('./protocol.js').SourceDescriptor }} Environment */

/** @type {Environment | null} */
let current = null;

/** @param {Environment} environment */
export function setEnvironment(environment) {
  current = environment;
}

export function environment() {
  if (!current) throw new GemmaError('bad-state', 'import the package by its entry, not model.js');
  return current;
}
