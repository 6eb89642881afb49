/* env: what differs between browser and Node on the client's side; filled by the package's entry. */
import { GemmaError } from './errors.js';

/** A worker. keepAlive: whether it holds the process open.
 * @typedef {{ post: (message: any, transfer?: any[]) => void, terminate: () => unknown,
 *   onMessage: (handler: (message: any) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** describe: what a string given as a source means. @typedef {{ createWorker: () => Port,
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
