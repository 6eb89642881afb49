/* protocol: every message between client and engine worker, and between that and helper threads. */
import { GemmaError } from './errors.js';

/** Client to worker. */
export const TO_WORKER = {
  open: 'open',       // { id, source, options }: first message, once
  call: 'call',       // { id, method, args }
  abort: 'abort',     // { id }: of a call that has not been answered
  ack: 'ack',         // { id, count }: pieces that the consumer has taken
  answer: 'answer',   // { question, value, error? }
  dispose: 'dispose',
};

/** Worker to client. */
export const FROM_WORKER = {
  progress: 'progress', // { id, value }
  pieces: 'pieces',     // { id, pieces: string[] }
  ask: 'ask',           // { question, method, args }: of the client's store, please; method `pull`: the
                        // next bytes of a source that the client holds (args: its part); null is the end
  done: 'done',         // { id, value }
  failed: 'failed',     // { id, error }
  fatal: 'fatal',       // { error }: the engine is lost
  disposed: 'disposed',
  thread: 'thread',     // { port }: start a helper thread, please, and hand it this (browsers)
};

/** Engine worker to helper thread, which answers `prepare` with true when it is ready. */
export const THREAD = {
  prepare: 'prepare', // { module, memory }
  enter: 'enter',     // { pool, index, stack }
};

/** What the worker calls of a store (env.js). */
export const STORE_METHODS = ['list', 'size', 'read', 'write', 'remove', 'flush', 'close', 'estimate'];
/** Pieces that a consumer may be behind. */
export const CREDIT = 64;
/** Bytes in an answer to pull, at most. */
export const CHUNK = 1 << 20;

/** A model source that can be posted.
 * @typedef {{ kind: 'url' } & import('./http.js').UrlSource | { kind: 'blob', blob: Blob }
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
