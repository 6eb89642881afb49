/* model: loadModel() and the object it gives: a proxy of the engine's worker that checks what it is
 * given. docs/api.md explains the options. */
/// <reference lib="esnext.disposable" preserve="true" />
/** @import { ChatMessage, ChatOptions } from './chat.js' */
/** @import { Hooks } from './generation.js' */
/** @import { ModelInfo } from './engine/info.js' */
/** @import { Progress } from './engine/meter.js' */
/** @import { Calls } from './link/protocol.js' */
/** @import { Prompt as PostedPrompt } from './engine/vocabulary.js' */
import { ModelCache, modelCache } from './download/cache.js';
import { Chat, checkMessages } from './chat.js';
import { answersOf } from './link/answers.js';
import { Connection } from './link/connection.js';
import { environment } from './platform/env.js';
import { GemmaError, noTemplate, wrapped } from './errors.js';
import { Generation } from './generation.js';
import {
  GENERATE_OPTIONS, LOAD_OPTIONS, boolean, checkOptions, checkValue, headerPairs, integer, postable, rule,
  show, signal, string,
} from './options.js';
import { describeSource } from './download/describe.js';
import { Feeders } from './download/feeder.js';

/** In one list: more than any context, or file of text, is worth. */
const MOST_IDS = 1 << 24;

/** @typedef {{ maxTokens?: number, temperature?: number, topK?: number, topP?: number, minP?: number,
 *   typicalP?: number, repetitionPenalty?: number, frequencyPenalty?: number,
 *   presencePenalty?: number, penaltyWindow?: number, seed?: number, stop?: string | string[],
 *   logitBias?: Record<number, number> | Map<number, number>, logprobs?: number,
 *   signal?: AbortSignal,
 *   onPrefillProgress?: (progress: { done: number, total: number }) => void }} GenerateOptions */
/** @typedef {{ onProgress?: (progress: Progress) => void, signal?: AbortSignal, threads?: number,
 *   contextLength?: number, variant?: 'auto' | 'relaxed' | 'simd128', floatMatrices?: 'auto' | 'keep' | 'q8_0',
 *   kvType?: 'auto' | 'f32' | 'i16' | 'q8_0', cache?: boolean | ModelCache,
 *   sha256?: string | string[], token?: string, headers?: HeadersInit }} LoadOptions */
/** @typedef {ArrayBuffer | ArrayBufferView} Bytes */
/** In Node a string may also be a path or a file: URL.
 * @typedef {string | URL | Blob | Bytes | ReadableStream | AsyncIterable<Bytes> | Iterable<Bytes>
 *   | { repo: string, file: string, revision?: string }} SinglePart */
/** @typedef {SinglePart | SinglePart[]} ModelSource */
/** @typedef {string | ArrayLike<number> | ChatMessage[]} Prompt */

/** @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<Model>} */
export async function loadModel(source, options = {}) {
  return new Model(...await open(source, options, false));
}

/** @typedef {{ info: ModelInfo, version: number, alignment: number,
 *   metadata: { key: string, type: string, value?: unknown, of?: string, count?: number }[],
 *   tensors: { name: string, type: string, shape: number[], offset: number, bytes: number }[]
 * }} Inspection */

/** @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<Inspection>} */
export async function inspectModel(source, options = {}) {
  const header = await openHeader(source, options);
  try {
    return { info: header.info, ...await header.inspect() };
  } finally {
    await header.dispose();
  }
}

/** A model without weights. @param {ModelSource} source @param {LoadOptions} [options] */
export async function openHeader(source, options = {}) {
  return new HeaderModel(...await open(source, options, true));
}

/** @param {ModelSource} source @param {LoadOptions} options @param {boolean} headerOnly
 * @returns {Promise<[Connection, ModelInfo]>} */
async function open(source, options, headerOnly) {
  checkOptions(options, LOAD_OPTIONS);
  const { signal, onProgress, headers, token, cache, ...wanted } = options;
  if (signal?.aborted) throw abortError(signal);
  const parts = wrapped('unsupported-source', 'the model source cannot be read',
    () => describeSource(source, environment.describe));
  const sent = headerPairs(headers) ?? [];
  if (token) sent.push(['authorization', `Bearer ${token}`]);
  for (const { descriptor } of parts) {
    if (descriptor.kind === 'url') Object.assign(descriptor, { headers: sent, tuning: environment.tuning });
  }
  const kept = cache instanceof ModelCache ? cache : modelCache;
  const connection = new Connection(
    wrapped('worker-failed', 'the worker cannot be started', environment.createWorker));
  const onAbort = () => connection.kill(abortError(/** @type {AbortSignal} */ (signal)));
  signal?.addEventListener('abort', onAbort);
  const feeders = new Feeders(parts), descriptors = parts.map(({ descriptor }) => descriptor);
  try {
    const options = { ...wanted, headerOnly, cache: cache === false ? undefined : kept.descriptor };
    return [connection, await connection.open(descriptors, options, answersOf(feeders, kept.own), (event) => {
      if (event.kind === 'progress') onProgress?.(/** @type {Progress} */ (event.value));
    })];
  } catch (error) {
    connection.kill(new GemmaError('disposed', 'the model was not loaded'));
    throw error;
  } finally {
    feeders.close();
    signal?.removeEventListener('abort', onAbort);
  }
}

/** @param {AbortSignal} signal */
function abortError(signal) {
  return new GemmaError('aborted', 'the call was aborted', { cause: signal.reason });
}

export class HeaderModel {
  /** @protected */
  connection;

  /** @param {Connection} connection @param {ModelInfo} info */
  constructor(connection, info) {
    this.connection = connection;
    /** @readonly */
    this.info = Object.freeze(info);
  }

  /** With `special`, text can name control tokens: never for text of strangers.
   * @param {string} text @param {{ bos?: boolean, special?: boolean }} [options]
   * @returns {Promise<number[]>} */
  async tokenize(text, options = {}) {
    checkValue('text', text, string);
    checkOptions(options, { bos: boolean, special: boolean });
    return this.call('tokenize', { text, ...options });
  }

  /** Without control tokens, unless `special`.
   * @param {ArrayLike<number>} ids @param {{ special?: boolean }} [options]
   * @returns {Promise<string>} */
  async detokenize(ids, options = {}) {
    checkOptions(options, { special: boolean });
    return this.call('detokenize', { ids: this.checkIds(ids, 0), ...options });
  }

  /** Tokens that generate(prompt) would evaluate. @param {Prompt} prompt @returns {Promise<number>} */
  async countTokens(prompt) {
    return this.call('count', { prompt: this.describePrompt(prompt) });
  }

  /** Everything in the header. @returns {Promise<Omit<Inspection, 'info'>>} */
  async inspect() {
    return this.call('inspect', {});
  }

  /** Bytes of the engine's heap. @returns {Promise<number>} */
  async heapBytes() {
    return this.call('heapBytes', {});
  }

  /** Frees the worker, its threads and the heap. */
  async dispose() {
    await this.connection.close(new GemmaError('disposed', 'the model was disposed of'));
  }

  /** Where the symbol is not known yet nobody can call it. */
  async [Symbol.asyncDispose]() {
    await this.dispose();
  }

  /** @internal @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args
   * @param {AbortSignal} [signal] @returns {Promise<Calls[M]['value']>} */
  async call(method, args, signal) {
    if (signal?.aborted) throw abortError(signal);
    return this.connection.call(method, args, signal).answer;
  }

  /** @protected @param {any} ids @param {number} least @param {string} [name] @param {string} [expected]
   * @returns {number[]} */
  checkIds(ids, least, name = 'ids', expected = 'an array of token ids, not empty') {
    const isList = typeof ids === 'object' && Number.isInteger(ids?.length);
    const { length = 0 } = isList ? ids : {}, top = this.info.vocabSize - 1;
    checkValue(name, ids, rule(expected, () => isList && length >= least));
    checkValue(`the length of ${name}`, length, rule(`${MOST_IDS} at most`, () => length <= MOST_IDS));
    /** @type {number[]} */
    const list = [];
    // One by one: an object may claim any length.
    for (let i = 0; i < length; i++) {
      const id = ids[i];
      if (!(Number.isInteger(id) && id >= 0 && id <= top)) {
        throw new GemmaError('bad-token', 'token id', { expected: `0 to ${top}`, got: show(id) });
      }
      list.push(id);
    }
    return list;
  }

  /** @protected @param {any} prompt @returns {PostedPrompt} */
  describePrompt(prompt) {
    if (typeof prompt === 'string') return { text: prompt };
    if (Array.isArray(prompt) && typeof prompt[0] === 'object') {
      if (!this.info.chatTemplate) throw noTemplate();
      return { messages: checkMessages(prompt) };
    }
    return { ids: this.checkIds(prompt, 1, 'prompt', 'a string, token ids, or messages [{ role, content }]') };
  }
}

export class Model extends HeaderModel {
  /** A string is raw text and gets one BOS; ids are taken as they are.
   * @param {Prompt} prompt @param {GenerateOptions} [options] */
  generate(prompt, options = {}) {
    checkOptions(options, GENERATE_OPTIONS);
    const described = this.describePrompt(prompt);
    return this.#generation(() => described, options, {});
  }

  /** The options are defaults for each answer. @param {ChatOptions} [options] */
  chat(options = {}) {
    if (!this.info.chatTemplate) throw noTemplate();
    return new Chat((...answer) => this.#generation(...answer), options);
  }

  /** After the last id, or with `all` after every id.
   * @param {ArrayLike<number>} ids @param {{ all?: boolean, signal?: AbortSignal }} [options]
   * @returns {Promise<Float32Array>} */
  async logits(ids, options = {}) {
    checkOptions(options, { all: boolean, signal });
    return this.call('logits', { ids: this.checkIds(ids, 1), all: options.all }, options.signal);
  }

  /** `nll` is the mean of -ln p over the `tokens` scored.
   * @param {string} text @param {{ window?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<{ perplexity: number, nll: number, tokens: number }>} */
  async perplexity(text, options = {}) {
    checkValue('text', text, string);
    const { contextLength } = this.info;
    checkValue('contextLength', contextLength, rule('2 tokens at least, to score one', () => contextLength > 1));
    checkOptions(options, { window: integer(2, contextLength), signal });
    return this.call('perplexity', { text, window: options.window }, options.signal);
  }

  /** @param {() => PostedPrompt} prompt @param {GenerateOptions} options @param {Hooks} hooks */
  #generation(prompt, options, hooks) {
    const { signal, onPrefillProgress } = options;
    const prepare = () => ({ prompt: prompt(), ...postable(options) });
    const { connection } = this;
    return new Generation({ connection, prepare, signal, onPrefillProgress, ...hooks });
  }
}
