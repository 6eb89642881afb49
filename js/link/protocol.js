/* protocol: every message between client and engine worker, and between that and helper threads. */
import { GemmaError } from '../errors.js';

/** @import { OpenOptions } from '../engine/host.js' */

/** Client to worker. open: the first message, once; abort: of a call that has not been answered; ack: pieces
 * that the consumer has taken.
 * @typedef {{ kind: 'open', id: number, source: SourceDescriptor[], options: OpenOptions }
 *   | { kind: 'call', id: number, method: string, args: any } | { kind: 'abort', id: number }
 *   | { kind: 'ack', id: number, count: number }
 *   | { kind: 'answer', question: number, value?: any, error?: any } | { kind: 'dispose' }} ToWorker */

/** Worker to client. ask: something of the client's store, please; or, by the method `pull`, the next bytes
 * of a source that the client holds (args: its part; null is the end); fatal: the engine is lost; thread: start
 * a helper thread, please, and hand it this (browsers).
 * @typedef {{ kind: 'progress', id: number, value: any } | { kind: 'pieces', id: number, pieces: string[] }
 *   | { kind: 'ask', question: number, method: string, args: any[] } | { kind: 'done', id: number, value: any }
 *   | { kind: 'failed' | 'fatal', id: number, error: ReturnType<typeof packError> } | { kind: 'disposed' }
 *   | { kind: 'thread', port: MessagePort }} FromWorker */

/** Engine worker to helper thread, which answers `prepare` with true when it is ready.
 * @typedef {{ kind: 'prepare', module: WebAssembly.Module, memory: WebAssembly.Memory }
 *   | { kind: 'enter', pool: number, index: number, stack: number }} ToThread */

/** What the worker calls of a store (env.js). */
export const STORE_METHODS = ['list', 'size', 'read', 'write', 'remove', 'flush', 'close', 'estimate'];
/** Pieces that a consumer may be behind. */
export const CREDIT = 64;

/** A model source that can be posted.
 * @typedef {{ kind: 'url' } & import('../download/http.js').UrlSource | { kind: 'blob', blob: Blob }
 *   | { kind: 'path', path: string } | { kind: 'pull', total?: number }} SourceDescriptor */

/** @param {unknown} error */
export function packError(error) {
  const ours = error instanceof GemmaError ? error : new GemmaError('worker-failed', String(error));
  const { code, what, expected, got, cause = '' } = ours;
  return { code, what, expected, got, cause: String(cause) };
}

/** @param {ReturnType<typeof packError>} packed */
export function unpackError({ code, what, expected, got, cause }) {
  return new GemmaError(code, what, { expected, got, cause: cause ? new Error(cause) : undefined });
}
