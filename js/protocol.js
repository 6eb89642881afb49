/*
 * protocol: every message between the client, its engine worker and helper threads, and the types of the values in
 * them. All other files import these types from here; this file imports no other layer but errors.
 */
import { ModelError } from './errors.js';

// Where bytes come from and where they are kept

/** Addresses of the package's files. page: base of relative addresses; baseUrl: the folder of all files (option
 * `baseUrl`); files: addresses by name, if the entry knows them.
 * @typedef {{ page?: string, baseUrl?: string, files?: Record<string, string> }} Place */
/** Sizes, limits and delays of downloads. segment: bytes of one range; parallel: connections at once; alone: bytes per
 * millisecond above which one connection reads long ranges, which are `share` of a cached file (at least `least`, at
 * most `most` bytes); spare: the factor by which a range may outlast its answer; journal: bytes between two journal
 * writes; stallMs: tolerated silence; glanceMs: the same if a whole copy is cached; toldMs: interval of progress
 * reports while a server is silent.
 * @typedef {{ segment: number, parallel: number, alone: number, share: number, least: number, most: number,
 *   spare: number, journal: number, attempts: number, backoffMs: number, longestMs: number,
 *   stallMs: number, glanceMs: number, toldMs: number }} Tuning */
/** key: of the cached copy; `url` may be a part of the address only.
 * @typedef {{ url: string, key?: string, headers?: [string, string][], tuning?: Partial<Tuning> }} UrlSource */
/** A model source that can be posted. pull: the client holds the bytes and sends them on demand.
 * @typedef {{ kind: 'url' } & UrlSource | { kind: 'blob', blob: Blob } | { kind: 'path', path: string }
 *   | { kind: 'pull', total?: number }} SourceDescriptor */
/** lost: another tab took the lock because its owner seemed dead.
 * @typedef {{ lost: boolean, free: () => void }} Lock */
/** A place for models: files of bytes by names that the package makes (hexadecimal digits, `-`, and `.gguf` or
 * `.state`, which begins with `c-`).
 * size: 0 for a missing file; read: returns the count, and leaves `into` alone once `wanted` says no; write: may leave
 * a gap with any content, and fails without room or while another tab has the file; flush: written bytes survive a
 * crash; lock: the right to store names with this prefix, nothing while another tab or process has it; tidy: removes
 * the lock of a dead owner.
 * @typedef {{ list: () => Promise<string[]>, size: (name: string) => Promise<number>,
 *   read: (name: string, at: number, into: Uint8Array, wanted?: () => boolean) => Promise<number>,
 *   write: (name: string, at: number, bytes: Uint8Array) => Promise<void>,
 *   remove: (name: string) => Promise<void>,
 *   lock?: (name: string) => Promise<Lock | undefined>, tidy?: (name: string) => void,
 *   flush?: (name: string) => Promise<void>, close?: (name: string) => Promise<void>,
 *   estimate?: () => Promise<{ usage?: number, quota?: number, persisted?: boolean }>,
 *   persist?: () => Promise<boolean> }} Store */

// A model that is loaded

/** headerOnly: stop after the header, so that only calls without weights work. cache: a folder, the default place, or
 * the client's own store.
 * @typedef {{ variant?: string, threads?: number, contextLength?: number, sha256?: string | readonly string[],
 *   headerOnly?: boolean, cache?: { folder?: string, remote?: boolean },
 *   quantizeFloats?: string, kvType?: string, chatCacheBytes?: number, place?: Place }} OpenOptions */
/** A message for people that does not stop a load. code: `not-cached`, `retry`, `offline`, `changed` or `mended`.
 * @typedef {{ code: string, message: string }} Notice */
/** fetch: from the network; load: from elsewhere; ready: once, last. total: once known. fromCache: the bytes of
 * `loaded` that were not fetched. notice: in the report of the moment when it came up.
 * @typedef {{ phase: 'fetch' | 'load' | 'ready', loaded: number, total: number | undefined,
 *   bytesPerSecond: number, fromCache: number, notice?: Notice }} Progress */
/** @typedef {{ architecture: string, name: string, quantisation: string, parameters: number,
 *   contextLength: number, trainedContextLength: number, vocabSize: number,
 *   memory: { weights: number, kv: number, scratch: number, total: number, heap: number }, largestContext: number,
 *   layers: number, heads: number, width: number,
 *   embedding: { dimensions: number, pooling: 'mean', dense: boolean } | null,
 *   threads: number, variant: string, variantReason: string,
 *   isolated: boolean, reason: string, fileBytes: number,
 *   chatTemplate: boolean, bosToken: number | null, endTokens: number[],
 *   cache: 'cached' | 'stored' | 'none', notices: Notice[] }} ModelInfo */
/** @typedef {{ info: ModelInfo, version: number, alignment: number,
 *   metadata: { key: string, type: string, value?: unknown, of?: string, count?: number }[],
 *   tensors: { name: string, type: string, shape: number[], offset: number, bytes: number }[]
 * }} Inspection */

// Prompts and answers

/** result or error: where `execute` gave one. @typedef {{ id: string, name: string, arguments: any, result?: any,
 *   error?: unknown }} ToolCall */
/** A message of a conversation. @typedef {{ role: string, content: any, name?: string, id?: string,
 *   toolCalls?: readonly ToolCall[] }} Spoken */
/** A tool without its `execute`. @typedef {{ name: string, description?: string, parameters?: any }} ToolSpec */
/** What the KV cache holds of a conversation: its text with sentinels, and its ids; of: fingerprint of engine and
 * model; cut: bytes at the end of the ids of a character that is not complete, and not in the text. Only an answer that
 * continues this one uses such ids.
 * @typedef {{ of: string, text: string, ids: number[], cut?: number }} Prefix */
/** begin: the beginning of the answer. @typedef {{ text: string } | { ids: number[] }
 *   | { messages: Spoken[], prefix?: Prefix, begin?: string, tools?: ToolSpec[] }} PostedPrompt */
/** @typedef {'compact' | 'pretty' | 'any'} Whitespace */
/** Bounds for what a schema leaves unbounded: characters of strings, items of arrays, members of objects.
 * @typedef {{ maxLength?: number, maxItems?: number, maxProperties?: number }} Bounds */
/** A constraint of answers.
 * @typedef {'json' | ({ json: true, whitespace?: Whitespace } & Bounds)
 *   | ({ schema: any, whitespace?: Whitespace } & Bounds)
 *   | { regex: string | RegExp, flags?: string } | { grammar: string }
 *   | { choices: readonly string[] }} PostedFormat */
/** A call in an answer that may be unfinished.
 * @typedef {{ name: string, arguments: any, done: boolean }} PartialCall */
/** @typedef {'stop' | 'length' | 'stop-sequence' | 'aborted' | 'context' | 'tool-calls'} FinishReason */
/** @typedef {{ id: number, logprob: number,
 *   top: { id: number, logprob: number, text: string }[] }} TokenLogprob */
/** One step of decoding: a drawn token, or a span that a format left no choice about (`forced`). text: what can be
 * shown since the step before, which may be empty; logprobs: if requested.
 * @typedef {{ text: string, ids: number[], forced: boolean, logprobs?: TokenLogprob[] }} Step */
/** @template [V=any] @typedef {{ text: string, tokens: number[], finishReason: FinishReason, stopSequence?: string,
 *   usage: { promptTokens: number, reusedTokens: number, completionTokens: number },
 *   timings: { firstTokenMs: number, prefillMs: number, decodeMs: number,
 *     prefillTokensPerSecond: number, decodeTokensPerSecond: number },
 *   seed: number, logprobs?: TokenLogprob[], value?: V, issues?: { message: string }[],
 *   toolCalls?: ToolCall[] }
 *   & ({ finishReason: 'tool-calls', toolCalls: ToolCall[] } | { finishReason: Exclude<FinishReason, 'tool-calls'> })
 * } GenerateResult
 *   value: of a complete answer in a format: what its JSON says, or its text;
 *   issues: why a schema library refused it */
/** sampler: names and values of the engine's options; grammar: the compiled constraint (lower() of js/grammar);
 * forced: append tokens without a choice without drawing them; owner: the chat whose state was restored.
 * @typedef {{ maxTokens: number, bias: [number, number][], stop: string[], sampler: [string, number][], seed: number,
 *   logprobs: number | null, format: PostedFormat | null, forced?: boolean, progress: boolean,
 *   tools: { list: ToolSpec[], choice: 'auto' | 'required' | { name: string } } | null,
 *   prompt: PostedPrompt, grammar?: Uint8Array, owner?: string }} GenerateArgs */
/** prefix: what the next turn of a conversation can build on; why: the reason if there is none.
 * @typedef {GenerateResult & { prefix?: Prefix, why?: string }} GenerateAnswer */

// Other calls

/** prefixes: one for each text, or one for all; dimensions: length of the vectors, cut from the end.
 * @typedef {{ texts: string[], prefixes: string[], pooling?: 'mean' | 'last', dimensions?: number, normalize: boolean,
 *   truncate: boolean, progress: boolean }} EmbedArgs */
/** positions: null for all, below 0 counts from the end; lens: tokens for each position.
 * @typedef {{ prompt: PostedPrompt, layers: readonly number[], heads: readonly number[],
 *   positions: readonly number[] | null, lens: number,
 *   norms: boolean }} InsideArgs */
/** lens: for each position the most likely tokens; norms: three for each position (before the layer, behind its
 * attention, at its end); attention: for each head [positions][tokens].
 * @typedef {{ layer: number, kind: 'local' | 'global', lens?: { id: number, text: string, probability: number }[][],
 *   norms?: Float32Array, attention?: Record<number, Float32Array> }} InsideLayer */
/** @typedef {{ tokens: { id: number, text: string }[], positions: number[], layers: InsideLayer[] }} Inside */
/** refusedAt: offset in the text of the first refused token, or the text's length if it ends too early.
 * @typedef {{ accepted: boolean, refusedAt?: number }} Verdict */
/** times: milliseconds of every mask, the first of each text included; first: from the format to the first mask.
 * @typedef {{ compiled: boolean, reason?: string, verdicts: Verdict[], times: number[], first: number }} Matches */

/** Arguments and results of the calls to an open model.
 * @typedef {{ args: { text: string, bos?: boolean, special?: boolean }, value: number[] }} Tokenize
 * @typedef {{ args: { ids: number[], special?: boolean }, value: string }} Detokenize
 * @typedef {{ args: { prompt: PostedPrompt }, value: number }} Count
 * @typedef {{ args: { format: PostedFormat, texts: string[], draft?: number, masks?: boolean, formats?: boolean },
 *   value: Matches }} Match
 * @typedef {{ args: {}, value: number }} HeapBytes
 * @typedef {{ args: {}, value: Omit<Inspection, 'info'> }} Inspect
 * @typedef {{ args: GenerateArgs, value: GenerateAnswer }} Generate
 * @typedef {{ args: { ids: number[], all?: boolean }, value: Float32Array }} Logits
 * @typedef {{ args: { text: string, window?: number },
 *   value: { perplexity: number, nll: number, tokens: number } }} Perplexity
 * @typedef {{ args: { head: Uint8Array, ids: number[], of?: string, owner?: string }, value: Uint8Array }} Save
 * @typedef {{ args: { bytes: Uint8Array, owner?: string }, value: { tokens: number, reason?: string } }} Restore
 * @typedef {{ args: { what: 'put' | 'get' | 'list' | 'remove', name?: string, bytes?: Uint8Array },
 *   value: any }} Stored
 * @typedef {{ tokenize: Tokenize, detokenize: Detokenize, count: Count, heapBytes: HeapBytes, inspect: Inspect,
 *   match: Match, generate: Generate, logits: Logits, perplexity: Perplexity, save: Save, restore: Restore,
 *   stored: Stored, embed: { args: EmbedArgs, value: Float32Array },
 *   inside: { args: InsideArgs, value: Inside } }} Calls */

/** @typedef {{ info: ModelInfo, call: <M extends keyof Calls>(method: M, args: Calls[M]['args'], signal?: AbortSignal,
 *   onEvent?: (event: Event) => void) => Promise<Calls[M]['value']> }} Callable */

// Messages

/** @typedef {{ [M in keyof Calls]: { kind: 'call', id: number, method: M, args: Calls[M]['args'] }
 *   }[keyof Calls]} Call */

/** What the worker asks of the client: the next bytes of a part that the client holds (null is the end), and calls of
 * the client's own store; read: at most `most` bytes at `at`.
 * @typedef {{ pull: { args: [part: number], value: Uint8Array | null },
 *   read: { args: [name: string, at: number, most: number], value: Uint8Array } }
 *   & { [M in 'list' | 'size' | 'write' | 'remove' | 'flush' | 'close' | 'estimate']: {
 *     args: Parameters<NonNullable<Store[M]>>, value: Awaited<ReturnType<NonNullable<Store[M]>>> } }} Questions */
/** @typedef {{ [M in keyof Questions]: { kind: 'ask', question: number, method: M, args: Questions[M]['args'] }
 *   }[keyof Questions]} Question */
/** error: with the name that the store gave it.
 * @typedef {PackedError & { name: string, message: string }} AskedError */

/** Client to worker. open: the first message, once; abort: of a call without an answer yet; ack: steps that the
 * consumer has taken; beat: a heartbeat, answered by another.
 * @typedef {{ kind: 'open', id: number, source: SourceDescriptor[], options: OpenOptions }} Open
 * @typedef {{ kind: 'answer', question: number, value?: Questions[keyof Questions]['value'],
 *   error?: AskedError }} Answer
 * @typedef {Open | Call | { kind: 'abort', id: number } | { kind: 'ack', id: number, count: number }
 *   | Answer | { kind: 'beat' } | { kind: 'dispose' }} ToWorker */

/** Worker to client. progress: of a load, or of a prompt; beat: also unasked, during work that hears no messages;
 * fatal: the engine is lost; thread: start a helper thread with this port (browsers); locked: a file to free when the
 * worker has ended (Node).
 * @typedef {{ done: number, total: number }} PrefillProgress
 * @typedef {{ kind: 'progress', id: number, value: Progress | PrefillProgress }
 *   | { kind: 'steps', id: number, steps: Step[], calls?: PartialCall[] }} Event
 * @typedef {Event | Question | { kind: 'done', id: number, value: ModelInfo | Calls[keyof Calls]['value'] }
 *   | { kind: 'failed' | 'fatal', id: number, error: PackedError } | { kind: 'beat' } | { kind: 'disposed' }
 *   | { kind: 'thread', port: MessagePort } | { kind: 'locked', path: string, owner: string }} FromWorker */

/** Engine worker to helper thread, which answers `prepare` with true when it is ready.
 * @typedef {{ kind: 'prepare', module: WebAssembly.Module, memory: WebAssembly.Memory }
 *   | { kind: 'enter', pool: number, index: number, stack: number }} ToThread */

/** Bytes in one answer: Chromium posts no more. */
export const MAX_RESULT_BYTES = 2 ** 31 - 2 ** 21;
/** Threads of the engine at most (GW_MAX_THREADS of src/base/base.h). */
export const MAX_THREADS = 64;
/** Steps that a consumer may be behind. */
export const CREDIT = 64;

/** @typedef {ReturnType<typeof packError>} PackedError */
/** @param {unknown} error */
export function packError(error) {
  const ours = error instanceof ModelError ? error : new ModelError('worker-failed', String(error));
  const { code, what, expected, got, cause = '' } = ours;
  return { code, what, expected, got, cause: String(cause) };
}

/** @param {PackedError} packed */
export function unpackError({ code, what, expected, got, cause }) {
  return new ModelError(code, what, { expected, got, cause: cause ? new Error(cause) : undefined });
}
