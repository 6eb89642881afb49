/* env: what differs between browser and Node on the client's side. */
/** @import { Place } from './files.js' */
/** @import { FromWorker, SourceDescriptor, ToWorker } from '../link/protocol.js' */
/** A worker. keepAlive: whether it holds the process open; leave: one that has said goodbye ends by itself.
 * @template Sent, Heard @typedef {{ post: (message: Sent, transfer?: any[]) => void, terminate: () => unknown,
 *   leave?: () => Promise<unknown>, onMessage: (handler: (message: Heard) => void) => void,
 *   onFailure: (handler: (reason: unknown) => void) => void,
 *   keepAlive: (on: boolean) => void }} Port */
/** lost: somebody else took it, who believed its owner dead. @typedef {{ lost: boolean, free: () => void }} Lock */
/** A place for models: files of bytes by names that the package makes (hexadecimal digits, `-`, and `.gguf` or
 * `.state`, which begins with `c-`).
 * size: 0 for what is not there; read: gives the count, and puts nothing
 * into it once it is not wanted any more; write: may leave a gap, which reads as anything;
 * it fails when there is no room, or when another has the file; flush: what was written survives; lock: the right to
 * store what begins with a name, nothing while another tab or process has it; tidy: takes away the lock of one that
 * died.
 * @typedef {{ list: () => Promise<string[]>, size: (name: string) => Promise<number>,
 *   read: (name: string, at: number, into: Uint8Array, wanted?: () => boolean) => Promise<number>,
 *   write: (name: string, at: number, bytes: Uint8Array) => Promise<void>,
 *   remove: (name: string) => Promise<void>,
 *   lock?: (name: string) => Promise<Lock | undefined>, tidy?: (name: string) => void,
 *   flush?: (name: string) => Promise<void>, close?: (name: string) => Promise<void>,
 *   estimate?: () => Promise<{ usage?: number, quota?: number, persisted?: boolean }>,
 *   persist?: () => Promise<boolean> }} Store */
/** @typedef {(where?: string) => Store} OpenStore */
/** describe: what a string given as a source means; place: where files lie, given the option `assets`;
 * memory: of the device, in bytes, as far as it tells.
 * @typedef {{ createWorker: (place: Place) => Port<ToWorker, FromWorker>, openStore: OpenStore,
 *   place: (assets?: string) => Place, parallelism: () => number, memory: () => number | undefined,
 *   tuning?: Partial<import('../download/http.js').Tuning>,
 *   describe: (text: string) => SourceDescriptor }} Environment */

/** Filled by the package's entry. */
export const environment = /** @type {Environment} */ ({});
