/* env: what differs between browser and Node on the client's side. */
/** @import { FromWorker, Place, SourceDescriptor, Store, ToWorker } from '../protocol.js' */
/** A worker. keepAlive: whether it holds the process open; leave: one that has said goodbye ends by itself.
 * @template Sent, Heard @typedef {{ post: (message: Sent, transfer?: any[]) => void, terminate: () => unknown,
 *   leave?: () => Promise<unknown>, onMessage: (handler: (message: Heard) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** @typedef {(where?: string) => Store} OpenStore */
/** describe: what a string given as a source means; place: where files lie, given the option `baseUrl`;
 * obstacle: why this scope cannot start an engine, '' if it can; memory: of the device, in bytes, as far as it tells.
 * @typedef {{ createWorker: (place: Place) => Port<ToWorker, FromWorker>, openStore: (where?: string) => Store | Promise<Store>,
 *   place: (baseUrl?: string) => Place, parallelism: () => number, obstacle: () => string,
 *   memory: () => number | undefined,
 *   tuning?: Partial<import('../protocol.js').Tuning>,
 *   describe: (text: string) => SourceDescriptor }} Environment */

/** Filled by the package's entry. */
export const environment = /** @type {Environment} */ ({});
