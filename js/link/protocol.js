/* protocol: every message between client and engine worker, and between that and helper threads. */
import { GemmaError } from '../errors.js';

/** @import { Store } from '../platform/env.js' */
/** @import { UrlSource } from '../download/http.js' */
/** @import { OpenOptions } from '../engine/loading.js' */
/** @import { EmbedArgs } from '../engine/embed.js' */
/** @import { ModelInfo } from '../engine/info.js' */
/** @import { InsideArgs, Inside } from '../engine/inside.js' */
/** @import { GenerateArgs, GenerateAnswer } from '../engine/jobs.js' */
/** @import { Step } from '../generation.js' */
/** @import { Progress } from '../engine/meter.js' */
/** @import { Prompt } from '../engine/vocabulary.js' */
/** @import { Inspection } from '../model.js' */
/** @import { Call as Called } from '../tools/reading.js' */

/** A model source that can be posted; pull: bytes that the client holds.
 * @typedef {{ kind: 'url' } & UrlSource | { kind: 'blob', blob: Blob } | { kind: 'path', path: string }
 *   | { kind: 'pull', total?: number }} SourceDescriptor */

/** What can be called, once a model is open: what each takes, and gives.
 * @typedef {{ args: { text: string, bos?: boolean, special?: boolean }, value: number[] }} Tokenize
 * @typedef {{ args: { ids: number[], special?: boolean }, value: string }} Detokenize
 * @typedef {{ args: { prompt: Prompt }, value: number }} Count
 * @typedef {{ args: { format: import('../grammar/index.js').Format, texts: string[], draft?: number, masks?: boolean,
 *   formats?: boolean },
 *   value: import('../engine/matching.js').Matches }} Match
 * @typedef {{ args: {}, value: number }} HeapBytes
 * @typedef {{ args: {}, value: Omit<Inspection, 'info'> }} Inspect
 * @typedef {{ args: GenerateArgs, value: GenerateAnswer }} Generate
 * @typedef {{ args: { ids: number[], all?: boolean }, value: Float32Array }} Logits
 * @typedef {{ args: { text: string, window?: number },
 *   value: { perplexity: number, nll: number, tokens: number } }} Perplexity
 * @typedef {{ args: { head: Uint8Array, ids: number[], of?: string }, value: Uint8Array }} Save
 * @typedef {{ args: { bytes: Uint8Array }, value: { tokens: number, reason?: string } }} Restore
 * @typedef {{ args: { what: 'put' | 'get' | 'list' | 'remove', name?: string, bytes?: Uint8Array },
 *   value: any }} Stored
 * @typedef {{ tokenize: Tokenize, detokenize: Detokenize, count: Count, heapBytes: HeapBytes, inspect: Inspect,
 *   match: Match, generate: Generate, logits: Logits, perplexity: Perplexity, save: Save, restore: Restore,
 *   stored: Stored, embed: { args: EmbedArgs, value: Float32Array },
 *   inside: { args: InsideArgs, value: Inside } }} Calls */
/** @typedef {{ [M in keyof Calls]: { kind: 'call', id: number, method: M, args: Calls[M]['args'] }
 *   }[keyof Calls]} Call */

/** What the worker may ask of the client: the next bytes of a part that it holds (null is the end), and what it calls
 * of a store of one's own (platform/env.js); read: bytes at a place, at most so many.
 * @typedef {{ pull: { args: [part: number], value: Uint8Array | null },
 *   read: { args: [name: string, at: number, most: number], value: Uint8Array } }
 *   & { [M in 'list' | 'size' | 'write' | 'remove' | 'flush' | 'close' | 'estimate']: {
 *     args: Parameters<NonNullable<Store[M]>>, value: Awaited<ReturnType<NonNullable<Store[M]>>> } }} Questions */
/** @typedef {{ [M in keyof Questions]: { kind: 'ask', question: number, method: M, args: Questions[M]['args'] }
 *   }[keyof Questions]} Question */
/** error: as the store's owner named it, and packed.
 * @typedef {PackedError & { name: string, message: string }} AskedError */

/** Client to worker. open: the first message, once; abort: of a call that has not been answered; ack: steps
 * that the consumer has taken; beat: is answered by one, as soon as messages are heard.
 * @typedef {{ kind: 'open', id: number, source: SourceDescriptor[], options: OpenOptions }} Open
 * @typedef {{ kind: 'answer', question: number, value?: Questions[keyof Questions]['value'],
 *   error?: AskedError }} Answer
 * @typedef {Open | Call | { kind: 'abort', id: number } | { kind: 'ack', id: number, count: number }
 *   | Answer | { kind: 'beat' } | { kind: 'dispose' }} ToWorker */

/** Worker to client. progress: of a load, or of a prompt; beat: also unasked, in the middle of work that hears no
 * messages; fatal: the engine is lost; thread: start
 * a helper thread, please, and hand it this (browsers); locked: a file to free when the worker has ended (Node).
 * @typedef {{ done: number, total: number }} PrefillProgress
 * @typedef {{ kind: 'progress', id: number, value: Progress | PrefillProgress }
 *   | { kind: 'steps', id: number, steps: Step[], calls?: Called[] }} Event
 * @typedef {Event | Question | { kind: 'done', id: number, value: ModelInfo | Calls[keyof Calls]['value'] }
 *   | { kind: 'failed' | 'fatal', id: number, error: PackedError } | { kind: 'beat' } | { kind: 'disposed' }
 *   | { kind: 'thread', port: MessagePort } | { kind: 'locked', path: string, owner: string }} FromWorker */

/** Engine worker to helper thread, which answers `prepare` with true when it is ready.
 * @typedef {{ kind: 'prepare', module: WebAssembly.Module, memory: WebAssembly.Memory }
 *   | { kind: 'enter', pool: number, index: number, stack: number }} ToThread */

/** Bytes in one answer: Chromium posts no more. */
export const MAX_RESULT_BYTES = 2 ** 31 - 2 ** 21;
/** Steps that a consumer may be behind. */
export const CREDIT = 64;

/** @typedef {ReturnType<typeof packError>} PackedError */
/** @param {unknown} error */
export function packError(error) {
  const ours = error instanceof GemmaError ? error : new GemmaError('worker-failed', String(error));
  const { code, what, expected, got, cause = '' } = ours;
  return { code, what, expected, got, cause: String(cause) };
}

/** @param {PackedError} packed */
export function unpackError({ code, what, expected, got, cause }) {
  return new GemmaError(code, what, { expected, got, cause: cause ? new Error(cause) : undefined });
}
