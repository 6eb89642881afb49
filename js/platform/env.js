/* env: what differs between browser and Node on the client's side. */
/** @import { FromWorker, SourceDescriptor, ToWorker } from '../link/protocol.js' */
/** A worker. keepAlive: whether it holds the process open.
 * @template Sent, Heard @typedef {{ post: (message: Sent, transfer?: any[]) => void, terminate: () => unknown,
 *   onMessage: (handler: (message: Heard) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** A place for models: files of bytes by names that the package makes (hexadecimal digits, `-` and `.gguf`).
 * size: 0 for what is not there; read: gives the count; write: may leave a gap, which reads as anything;
 * it fails when there is no room, or when another has the file; flush: what was written survives.
 * @typedef {{ list: () => Promise<string[]>, size: (name: string) => Promise<number>,
 *   read: (name: string, at: number, into: Uint8Array) => Promise<number>,
 *   write: (name: string, at: number, bytes: Uint8Array) => Promise<void>,
 *   remove: (name: string) => Promise<void>,
 *   flush?: (name: string) => Promise<void>, close?: (name: string) => Promise<void>,
 *   estimate?: () => Promise<{ usage?: number, quota?: number, persisted?: boolean }>,
 *   persist?: () => Promise<boolean> }} Store */
/** @typedef {(where?: string) => Store} OpenStore */
/** describe: what a string given as a source means.
 * @typedef {{ createWorker: () => Port<ToWorker, FromWorker>, openStore: OpenStore,
 *   tuning?: Partial<import('../download/http.js').Tuning>,
 *   describe: (text: string) => SourceDescriptor }} Environment */

/** Filled by the package's entry. */
export const environment = /** @type {Environment} */ ({});
