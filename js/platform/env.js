/* env: the differences between browsers and Node outside the worker. */
/** @import { FromWorker, Place, SourceDescriptor, Store, ToWorker } from '../protocol.js' */
/** A worker, as the client sees it. keepAlive: sets whether the worker keeps the process alive; leave: resolves when a
 * worker that was asked to end has ended; silentBeats: tolerated number of heartbeats without a message.
 * @template Sent, Heard @typedef {{ post: (message: Sent, transfer?: any[]) => void, terminate: () => unknown,
 *   leave?: () => Promise<unknown>, onMessage: (handler: (message: Heard) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void, silentBeats?: number }} Port */
/** @typedef {(where?: string) => Store} OpenStore */
/** Functions that differ between browsers and Node. describe: interprets a string as a source; place: locates the
 * package's files, given the option `baseUrl`; obstacle: returns the reason why this global scope cannot start an
 * engine, '' if it can; memory: returns the device's memory in bytes, undefined if unknown.
 * @typedef {{ createWorker: (place: Place) => Port<ToWorker, FromWorker>,
 *   openStore: (where?: string) => Store | Promise<Store>,
 *   place: (baseUrl?: string) => Place, parallelism: () => number, obstacle: () => string,
 *   memory: () => number | undefined,
 *   tuning?: Partial<import('../protocol.js').Tuning>,
 *   describe: (text: string) => SourceDescriptor }} Environment */

/** The current environment. The package's entry file (index.js, index.node.js) sets its properties. */
export const environment = /** @type {Environment} */ ({});
