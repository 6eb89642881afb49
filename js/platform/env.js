/* env: the differences between browser and Node on the client's side. */
/** @import { FromWorker, Place, SourceDescriptor, Store, ToWorker } from '../protocol.js' */
/** A worker. keepAlive: sets whether it keeps the process alive; leave: resolves when a worker that was told to end has
 * ended.
 * @template Sent, Heard @typedef {{ post: (message: Sent, transfer?: any[]) => void, terminate: () => unknown,
 *   leave?: () => Promise<unknown>, onMessage: (handler: (message: Heard) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** @typedef {(where?: string) => Store} OpenStore */
/** describe: interprets a string as a source; place: locates the package's files, given the option `baseUrl`;
 * obstacle: returns why this scope cannot start an engine, '' if it can; memory: returns the bytes of the device's memory,
 * undefined if unknown.
 * @typedef {{ createWorker: (place: Place) => Port<ToWorker, FromWorker>, openStore: (where?: string) => Store | Promise<Store>,
 *   place: (baseUrl?: string) => Place, parallelism: () => number, obstacle: () => string,
 *   memory: () => number | undefined,
 *   tuning?: Partial<import('../protocol.js').Tuning>,
 *   describe: (text: string) => SourceDescriptor }} Environment */

/** The environment. The package's entry sets its members. */
export const environment = /** @type {Environment} */ ({});
