/* model: loadModel() and the class Model. Checks arguments and passes calls to the engine's worker; does not import the
 * engine. docs/api.md explains the options. */
/// <reference lib="esnext.disposable" preserve="true" />
/** @import { ChatOptions } from './chat.js' */
/** @import { Part } from './download/describe.js' */
/** @import { ModelError } from './errors.js' */
/** @import { Hooks } from './generation.js' */
/** @import { ModelConnection } from './rpc/reconnecting.js' */
/** @import { Calls, Event, Inside, Inspection, ModelInfo, PerplexityResult, PostedPrompt, Progress } from './protocol.js' */
/** @import { Match } from './matches.js' */
/** @import { EmbedOptions } from './embed.js' */
/** @import { InsideOptions } from './inside.js' */
/** @import { AnswerOptions, Format, GenerateOptions, ValueOf } from './options.js' */
/** @import { CallOptions, CountOptions, DetokenizeOptions, LogitsOptions, PerplexityOptions, TokenizeOptions } from './options.js' */
/** @import { LoadOptions, ModelSource, Prompt } from './options.js' */
import { cacheOf } from './download/cache.js';
import { Chat } from './chat.js';
import { Connection } from './rpc/connection.js';
import { ReconnectingConnection } from './rpc/reconnecting.js';
import { onAbort, unlessAborted } from './rpc/signals.js';
import { environment } from './platform/env.js';
import { abortError, checkGenerative, noTemplate, wrapped } from './errors.js';
import {
  badTokenId,
  digestCount,
  disposed,
  needsMessages,
  noThinking,
  sourceNotRead,
  workerNotStarted,
} from './front-errors.js';
import { Generation } from './generation.js';
import { checkBegun, promptOf } from './messages.js';
import {
  GENERATE_OPTIONS,
  LOAD_OPTIONS,
  boolean,
  checkOptions,
  checkThat,
  checkValue,
  defaultsOf,
  headerPairs,
  postable,
  signal,
  string,
} from './options.js';
import { describeSource } from './download/describe.js';
import { onHub } from './download/hub.js';
import { ChatCache } from './chat-cache.js';

/** Maximum number of token ids in one call, more than any context can have. */
const MAX_IDS = 1 << 24;

/** Loads a model into a worker. Fails with an error of the kinds `file`, `network`, `option`, `engine` or `cache`.
 * @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<Model>} */
export async function loadModel(source, options = {}) {
  return new Model(...(await openConnection(source, options, false)));
}

/** Reads the header of a model, without its weights. Fails as `loadModel` does.
 * @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<Inspection>} */
export async function inspectModel(source, options = {}) {
  const header = await openHeader(source, options);
  try {
    return { info: header.info, ...(await header.inspect({ signal: options.signal })) };
  } finally {
    await header.dispose();
  }
}

/** Opens a model without its weights. @param {ModelSource} source @param {LoadOptions} [options] */
export async function openHeader(source, options = {}) {
  return new HeaderModel(...(await openConnection(source, options, true)));
}

/** Opens a connection that can restart its worker, if the source can be read again. If the source is bytes, keeps them
 * for a restart only with the option `restart`.
 * @param {ModelSource} source @param {LoadOptions} options @param {boolean} headerOnly
 * @returns {Promise<[ReconnectingConnection, ModelInfo]>} */
async function openConnection(source, options, headerOnly) {
  checkOptions(options, LOAD_OPTIONS);
  const { restart = false, ...others } = options;
  const { connection, info, parts } = await openEngine(source, others, headerOnly);
  const once = parts.some(({ descriptor: of }) => of.kind === 'pull' && (of.total === undefined || !restart));
  const reopen = async (/** @type {AbortSignal} */ signal) => {
    return (await openEngine(source, { ...others, signal }, headerOnly)).connection;
  };
  return [new ReconnectingConnection(connection, once ? undefined : reopen, restart), info];
}

/** Returns descriptors of the files to load, which can be posted to the worker. Fails with `unsupported-source` or
 * `network-error`.
 * @param {ModelSource} source @param {LoadOptions} options */
export async function partsOf(source, { signal, headers, token, hub, cache }) {
  const all = new Headers(headerPairs(headers) ?? []);
  if (token) all.set('authorization', `Bearer ${token}`);
  const sent = [...all];
  const entries = async () => (cache === false ? [] : cacheOf(cache).list());
  const kept = async () => (await entries()).filter((entry) => entry.complete).map(({ url }) => url);
  const unnamed = onHub(source) && source.file === undefined && (await import('./download/quants.js')).withFile;
  const given = unnamed ? await unnamed(source, { hub, headers: sent, signal, kept }) : source;
  const parts = wrapped(() => describeSource(given, environment.describe, hub), sourceNotRead);
  for (const { descriptor } of parts) {
    if (descriptor.kind === 'url') Object.assign(descriptor, { headers: sent, tuning: environment.tuning });
  }
  return parts;
}

/** @param {LoadOptions['sha256']} sha256 @param {number} files */
function checkDigests(sha256, files) {
  const got = sha256 === undefined ? files : [sha256].flat().length;
  if (got !== files) throw digestCount(files, got);
}

/** @param {string | URL} [baseUrl] */
function startWorker(baseUrl) {
  return wrapped(() => {
    const place = environment.place(baseUrl && String(baseUrl));
    return { place, port: environment.createWorker(place) };
  }, workerNotStarted);
}

/** Starts a worker and loads the model there. Kills the worker if that fails.
 * @param {ModelSource} source @param {LoadOptions} options @param {boolean} [headerOnly]
 * @returns {Promise<{ connection: Connection, info: ModelInfo, parts: Part[] }>} */
export async function openEngine(source, options, headerOnly = false) {
  const { signal, onProgress, headers, token, cache, baseUrl, hub, restart, draftModel, ...wanted } = options;
  if (signal?.aborted) throw abortError(signal);
  const kept = cacheOf(cache);
  const own = await partsOf(source, options);
  const parts = draftModel ? [...own, ...(await partsOf(draftModel, options))] : own;
  // The worker requests data from the client only if the source is bytes or a stream, or if the caller passed a store.
  const asks = kept.own !== undefined || parts.some(({ bytes }) => bytes);
  const feeders = asks ? new (await import('./download/feeder.js')).Feeders(parts) : null;
  /** @type {Connection | undefined} */
  let connection;
  const unsubscribe = onAbort(signal, () => connection?.kill(abortError(signal)));
  try {
    const answers = feeders ? (await import('./rpc/answers.js')).answersOf(feeders, kept.own) : undefined;
    if (signal?.aborted) throw abortError(signal);
    checkDigests(options.sha256, own.length);
    const { place, port } = startWorker(baseUrl);
    connection = new Connection(port);
    const descriptors = parts.map(({ descriptor }) => descriptor);
    const stored = cache === false ? undefined : kept.descriptor;
    const loading = { ...wanted, place, headerOnly, cache: stored, draftModel: descriptors.splice(own.length) };
    const info = await connection.open(descriptors, loading, answers, (event) => {
      if (event.kind !== 'steps') onProgress?.(/** @type {Progress} */ (event.value));
    });
    return { connection, info, parts };
  } catch (error) {
    connection?.kill(/** @type {ModelError} */ (error));
    throw error;
  } finally {
    feeders?.close();
    unsubscribe();
  }
}

const evaluation = () => import('./debug.js');

/** Evaluation and debugging of a model. */
export class ModelDebug {
  #model;

  /** @internal @param {HeaderModel} model */
  constructor(model) {
    this.#model = model;
  }

  /** Returns the raw logits after the last id: `vocabSize` numbers. With `all`, after every id, row by row. Tokens that
   * the file suppresses in answers have logits, too.
   * @param {ArrayLike<number>} ids @param {LogitsOptions} [options]
   * @returns {Promise<Float32Array>} */
  async logits(ids, options = {}) {
    return (await evaluation()).logits(this.#model, ids, options);
  }

  /** Returns the perplexity of a text.
   * @param {string} text @param {PerplexityOptions} [options] @returns {Promise<PerplexityResult>} */
  async perplexity(text, options = {}) {
    return (await evaluation()).perplexity(this.#model, text, options);
  }

  /** Evaluates a prompt and returns attention weights, logit lens and norms of the layers (docs/inside.md).
   * @param {Prompt} prompt @param {InsideOptions} [options] @returns {Promise<Inside>} */
  async inside(prompt, options = {}) {
    return (await evaluation()).inside(this.#model, prompt, options);
  }

  /** Checks whether a text matches a format, token by token, as constrained answers are checked.
   * @param {Format} format @param {string} text @param {CallOptions} [options]
   * @returns {Promise<Match>} */
  async matches(format, text, options = {}) {
    return (await evaluation()).matches(this.#model, format, text, options);
  }

  /** Returns the size of the engine's heap in bytes. @returns {Promise<number>} */
  async heapBytes() {
    return this.#model.call('heapBytes', {});
  }
}

/** A model without its weights. Tokenizes and matches texts, but evaluates nothing. */
export class HeaderModel {
  /** @protected */
  connection;

  /** @internal @param {ModelConnection} connection @param {ModelInfo} info */
  constructor(connection, info) {
    this.connection = connection;
    /** Properties of the model. @readonly @type {Readonly<ModelInfo>} */
    this.info = Object.freeze({ ...info, defaults: Object.freeze(defaultsOf(info.defaults)) });
  }

  /** Returns the token ids of a text.
   * @param {string} text @param {TokenizeOptions} [options]
   * @returns {Promise<number[]>} */
  async tokenize(text, options = {}) {
    checkValue('text', text, string);
    checkOptions(options, { bos: boolean, special: boolean, signal });
    const { signal: given, ...how } = options;
    return this.call('tokenize', { text, ...how }, given);
  }

  /** Returns the text of token ids. Fails with `bad-token` for ids outside the vocabulary.
   * @param {ArrayLike<number>} ids @param {DetokenizeOptions} [options]
   * @returns {Promise<string>} */
  async detokenize(ids, options = {}) {
    checkOptions(options, { special: boolean, signal });
    const { signal: given, ...how } = options;
    return this.call('detokenize', { ids: this.checkIds(ids, 0), ...how }, given);
  }

  /** Returns the number of tokens of a prompt, as `generate(prompt, { thinking })` evaluates it. Fails with
   * `bad-option`, `bad-token` or `no-chat-template`.
   * @param {Prompt} prompt @param {CountOptions} [options] @returns {Promise<number>} */
  async countTokens(prompt, options = {}) {
    checkOptions(options, { thinking: GENERATE_OPTIONS.thinking, signal });
    const { thinking } = options;
    const described = this.describePrompt(prompt);
    checkThinking(this.info, thinking, described);
    const asked = thinking === undefined ? described : { ...described, thinking: thinking !== false };
    return this.call('count', { prompt: asked }, options.signal);
  }

  /** Returns the contents of the file's header.
   * @param {CallOptions} [options] @returns {Promise<Omit<Inspection, 'info'>>} */
  async inspect(options = {}) {
    checkOptions(options, { signal });
    return this.call('inspect', {}, options.signal);
  }

  /** Methods for evaluation and debugging. */
  get debug() {
    return new ModelDebug(this);
  }

  /** Resolves with the error when the worker or one of its threads dies or freezes, after all calls have failed with
   * that error. After a restart, the property is a new promise, for the new worker. @returns {Promise<ModelError>} */
  get lost() {
    return this.connection.lost;
  }

  /** Ends the worker and loads the model again, from the cache if possible. Pending calls fail, or are repeated with
   * the option `restart`. */
  async restart() {
    await this.connection.restart();
  }

  /** Frees the worker, its threads and the heap. */
  async dispose() {
    await this.connection.close(disposed());
  }

  /** Disposes of the model at the end of its `await using` block. */
  async [Symbol.asyncDispose]() {
    await this.dispose();
  }

  /** Calls the worker. Rejects as soon as the signal aborts, or when the worker dies.
   * @internal @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args @param {AbortSignal} [signal]
   * @param {(event: Event) => void} [onEvent] called with progress and steps @returns {Promise<Calls[M]['value']>} */
  async call(method, args, signal, onEvent) {
    // Rejects immediately on abort, because the engine may be busy, for example with a chat template.
    return unlessAborted(this.connection.call(method, args, { signal, onEvent }).answer, signal);
  }

  /** Returns a copy of token ids. Throws `bad-option` for a list of a wrong length, `bad-token` for an unknown id.
   * @internal @param {any} ids @param {number} least minimum number of ids @param {string} [name] name for messages
   * @param {string} [expected] completes "`name` must be …" @returns {number[]} */
  checkIds(ids, least, name = 'ids', expected = 'a non-empty array of token ids') {
    const isList = typeof ids === 'object' && Number.isInteger(ids?.length);
    const { length = 0 } = isList ? ids : {};
    const top = this.info.vocabSize - 1;
    checkThat(name, ids, expected, isList && length >= least);
    checkThat(`The length of ${name}`, length, `at most ${MAX_IDS}`, length <= MAX_IDS);
    /** @type {number[]} */
    const list = [];
    // The ids are appended one by one, because an array-like object can claim any length.
    for (let i = 0; i < length; i++) {
      const id = ids[i];
      if (!(Number.isInteger(id) && id >= 0 && id <= top)) throw badTokenId(top, id);
      list.push(id);
    }
    return list;
  }

  /** Returns a prompt in the form that is posted to the worker. Throws `bad-option`, `bad-token` or `no-chat-template`.
   * @internal @param {any} prompt @returns {PostedPrompt} */
  describePrompt(prompt) {
    if (typeof prompt === 'string') return { text: prompt };
    if (Array.isArray(prompt) && typeof prompt[0] === 'object') {
      if (!this.info.chatTemplate) throw noTemplate();
      return promptOf(prompt);
    }
    return { ids: this.checkIds(prompt, 1, 'prompt', 'a string, token ids, or messages [{ role, content }]') };
  }
}

/** Throws `bad-option` if `thinking` is on and the model does not support it, or the prompt is not messages.
 * @param {ModelInfo} info @param {GenerateOptions['thinking']} thinking @param {PostedPrompt} [prompt] */
function checkThinking(info, thinking, prompt) {
  if (!thinking) return;
  if (prompt && !('messages' in prompt)) throw needsMessages('thinking');
  if (!info.thinking) throw noThinking();
}

/** A loaded model, in a worker. `loadModel` makes it. */
export class Model extends HeaderModel {
  /** @type {ChatCache | undefined} */
  #chatCache;

  /** Generates text after a prompt. A string is raw text after one BOS token, ids are used as they are, and messages go
   * through the chat template. Fails with `bad-option`, `bad-token`, `context-exceeded`, `no-chat-template` or
   * `not-generative`.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {Prompt} prompt @param {AnswerOptions<F, P>} [options] @returns {Generation<ValueOf<F>>} */
  generate(prompt, options = {}) {
    checkGenerative(this.info);
    checkOptions(options, GENERATE_OPTIONS);
    const described = this.describePrompt(prompt);
    checkThinking(this.info, options.thinking, described);
    if (options.tools?.length && !('messages' in described)) throw needsMessages('tools');
    if ('begin' in described) checkBegun(options);
    return this.#generation(() => described, options, {});
  }

  /** Begins a chat. Fails with `no-chat-template` or `not-generative`. @template {readonly object[]} [P=object[]]
   * @param {ChatOptions<P>} [options] */
  chat(options = {}) {
    checkGenerative(this.info);
    if (!this.info.chatTemplate) throw noTemplate();
    // Identifies the chat that owns the restored KV cache, which other chats must not save.
    const owner = options?.saved && crypto.getRandomValues(new Uint32Array(2)).join();
    return new Chat(
      {
        ask: (prompt, asked, hooks) => this.#generation(prompt, asked, hooks, owner),
        count: (prompt, signal) => this.call('count', { prompt }, signal),
        contextLength: this.info.contextLength,
        thinking: this.info.thinking,
        save: (head, prefix, signal) => {
          return this.call('save', { head, ids: prefix?.ids ?? [], of: prefix?.of, owner }, signal);
        },
        restore: (bytes) => {
          const options = { transfer: [bytes.buffer], retry: () => false };
          return this.connection.call('restore', { bytes, owner }, options).answer;
        },
      },
      options,
    );
  }

  /** Returns a vector for each text (docs/embeddings.md).
   * @template {string | readonly string[]} T @param {T} input @param {EmbedOptions} [options]
   * @returns {Promise<T extends string ? Float32Array : Float32Array[]>} */
  async embed(input, options = {}) {
    return (await import('./embed.js')).embed(this, input, options);
  }

  /** The chat cache: saved chats in the store of models. */
  get chatCache() {
    return (this.#chatCache ??= new ChatCache((args, signal) => this.call('stored', args, signal)));
  }

  /** @param {() => PostedPrompt} prompt @param {GenerateOptions} options @param {Hooks} hooks
   * @param {string} [owner] id of the calling chat */
  #generation(prompt, options, hooks, owner) {
    const { signal, onPrefillProgress } = options;
    checkThinking(this.info, options.thinking);
    const posted = postable(options, this.info.defaults);
    const prepare = () => ({ prompt: prompt(), ...posted, owner });
    const { connection } = this;
    return new Generation({ connection, prepare, signal, onPrefillProgress, ...hooks });
  }
}
