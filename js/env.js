/* env: what differs between browser and Node on the client's side. */
/** A worker. keepAlive: whether it holds the process open.
 * @typedef {{ post: (message: any, transfer?: any[]) => void, terminate: () => unknown,
 *   onMessage: (handler: (message: any) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** describe: what a string given as a source means. @typedef {{ createWorker: () => Port,
 *   describe: (text: string) => import('./protocol.js').SourceDescriptor }} Environment */

/** Filled by the package's entry. */
export const environment = /** @type {Environment} */ ({});
