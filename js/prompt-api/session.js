/* session: the sessions of the Prompt API. A session keeps its messages, and uses only the model's public methods. */
/** @import { Chat } from '../chat.js' */
/** @import { Model } from '../model.js' */
/** @import { GenerateOptions, Tool } from '../options.js' */
/** @import { PromptInput, PromptOptions, PromptTool, SamplingMode, SignalOptions } from './idl.js' */
/** @import { Said, SchemaBounds } from './prompts.js' */
import { cutOff, destroyed, illegalConstructor, noConstraint, quotaError, tooManyCalls } from './errors.js';
import { Handlers } from './events.js';
import { HEAT, toPrompt, toSignalOptions } from './idl.js';
import { Operations } from './operations.js';
import { compacted, conversationOf, followsCut, formatOf, messagesOf, withConstraint } from './prompts.js';

/** Maximum number of tokens that the context window reserves for an answer, unless the option `maxTokens` is given. */
const DEFAULT_ROOM = 1024;

/** The parts of a new session. initial: messages that are never evicted; maxTokens: maximum number of tokens of an
 * answer.
 * @typedef {{ model: Model, initial: Said[], tools: PromptTool[], samplingMode: SamplingMode,
 *   maxTokens?: number, schemaBounds?: SchemaBounds }} Setup */
/** Messages that the context window evicts together: a prompt and its answer, or the messages of one append().
 * @typedef {Said[]} Exchange */
/** The state of a session. usage: tokens of all messages and tools; chat: the chat with the last answer, undefined if
 * messages were added or evicted after it.
 * @typedef {{ exchanges: Exchange[], usage: number, toolTokens: number, chat?: Chat }} State */

/** A session with a model. `create()` makes it. */
export class LanguageModel extends EventTarget {
  #setup;
  #state;
  #window;
  #operations = new Operations();
  #handlers = new Handlers(this);

  /** @internal @param {Setup} setup @param {State} [state] */
  constructor(setup, state = { exchanges: [], usage: 0, toolTokens: 0 }) {
    super();
    if (!setup?.model) throw illegalConstructor();
    const { contextLength } = setup.model.info;
    const room = Math.min(setup.maxTokens ?? Math.min(DEFAULT_ROOM, contextLength >> 2), contextLength >> 1);
    this.#setup = setup;
    this.#state = state;
    this.#window = contextLength - room;
  }

  /** Answers a prompt. Rejects with a DOMException (docs/prompt-api.md).
   * @overload @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<string>} */
  /** @param {any[]} given */
  async prompt(...given) {
    const prompt = toPrompt('prompt', given);
    let text = '';
    await this.#operations.run(prompt.signal, (signal) => this.#answer(prompt, signal, (piece) => (text += piece)));
    return text;
  }

  /** Streams the answer to a prompt. Cancelling the stream aborts the answer.
   * @overload @param {PromptInput} input @param {PromptOptions} [options] @returns {ReadableStream<string>} */
  /** @param {any[]} given */
  promptStreaming(...given) {
    const prompt = toPrompt('promptStreaming', given);
    this.#operations.check(prompt.signal);
    const cancelled = new AbortController();
    const abort = () => cancelled.abort(prompt.signal?.reason);
    prompt.signal?.addEventListener('abort', abort);
    return new ReadableStream({
      start: (stream) => {
        const enqueue = (/** @type {string} */ piece) => stream.enqueue(piece);
        this.#operations
          .run(cancelled.signal, (signal) => this.#answer(prompt, signal, enqueue))
          .then(() => stream.close())
          .catch((error) => stream.error(error))
          .finally(() => prompt.signal?.removeEventListener('abort', abort));
      },
      cancel: (reason) => cancelled.abort(reason),
    });
  }

  /** Adds messages to the session without answering them.
   * @overload @param {PromptInput} input @param {SignalOptions} [options] @returns {Promise<undefined>} */
  /** @param {any[]} given */
  async append(...given) {
    const prompt = toPrompt('append', given);
    await this.#operations.run(prompt.signal, (signal) => this.#append(prompt.input, signal));
  }

  /** Returns how many tokens a prompt would take.
   * @overload @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<number>} */
  /** @param {any[]} given */
  async measureContextUsage(...given) {
    const prompt = toPrompt('measureContextUsage', given);
    const measure = async (/** @type {AbortSignal} */ signal) => {
      const usage = await this.#measure(described(prompt, false), signal);
      return usage - this.#state.toolTokens;
    };
    return this.#operations.run(prompt.signal, measure, false);
  }

  /** Older name of `measureContextUsage()`.
   * @overload @param {PromptInput} input @param {PromptOptions} [options] @returns {Promise<number>} */
  /** @param {any[]} given */
  async measureInputUsage(...given) {
    return this.measureContextUsage(.../** @type {[PromptInput]} */ (given));
  }

  /** Number of tokens of the session's messages, including the initial messages and the tools. */
  get contextUsage() {
    return this.#state.usage;
  }

  /** Number of tokens that messages may take. The rest of the context is for an answer. */
  get contextWindow() {
    return this.#window;
  }

  /** Older name of `contextUsage`. */
  get inputUsage() {
    return this.contextUsage;
  }

  /** Older name of `contextWindow`. */
  get inputQuota() {
    return this.contextWindow;
  }

  /** How varied answers are. */
  get samplingMode() {
    return this.#setup.samplingMode;
  }

  /** Listener of `contextoverflow`: messages were evicted. @returns {((event: Event) => any) | null} */
  get oncontextoverflow() {
    return this.#handlers.get('contextoverflow');
  }

  /** Sets the listener of `contextoverflow`. */
  set oncontextoverflow(handler) {
    this.#handlers.set('contextoverflow', handler);
  }

  /** Older name of `oncontextoverflow`. @returns {((event: Event) => any) | null} */
  get onquotaoverflow() {
    return this.#handlers.get('quotaoverflow');
  }

  /** Sets the listener of `quotaoverflow`, the older name of `contextoverflow`. */
  set onquotaoverflow(handler) {
    this.#handlers.set('quotaoverflow', handler);
  }

  /** Name of the interface, as Web IDL requires. @internal */
  get [Symbol.toStringTag]() {
    return 'LanguageModel';
  }

  /** Returns a copy of the session, without the calls that are still running.
   * @param {SignalOptions} [options] @returns {Promise<this>} */
  async clone(options = {}) {
    const { signal } = toSignalOptions(options);
    const Class = /** @type {new (setup: Setup, state: State) => this} */ (this.constructor);
    return this.#operations.run(signal, async () => new Class(this.#setup, this.#state), false);
  }

  /** Ends the session: aborts its calls, and rejects later ones. @returns {undefined} */
  destroy() {
    this.#operations.end(destroyed());
  }

  /** Ends the session when a signal aborts. @internal @param {AbortSignal} [signal] */
  follow(signal) {
    const end = () => this.#operations.end(signal?.reason);
    signal?.addEventListener('abort', end, { once: true, signal: this.#operations.ended });
  }

  /** Evaluates the initial messages and the tools. Throws QuotaExceededError if they do not fit. @internal
   * @param {AbortSignal} [signal] */
  async prepare(signal) {
    const { model, initial, tools } = this.#setup;
    if (tools.length) {
      const tokens = await model.countTokens(conversationOf(initial), { signal });
      this.#checkRoom(tokens);
      const { usage } = await this.#evaluate(initial, signal);
      this.#state.toolTokens = Math.max(0, usage.promptTokens - tokens);
    }
    this.#state.usage = await this.#measure(initial, signal);
    this.#checkRoom(this.#state.usage);
    if (initial.length && !tools.length) await this.#evaluate(initial, signal);
  }

  /** Throws QuotaExceededError if a prompt is longer than the context window. @param {number} tokens */
  #checkRoom(tokens) {
    if (tokens > this.#window) throw quotaError(tokens, this.#window, this.#setup.model.info);
  }

  get #started() {
    return this.#setup.initial.length + this.#state.exchanges.length > 0;
  }

  /** @param {PromptOptions & { input: PromptInput }} prompt @param {AbortSignal} signal
   * @param {(piece: string) => void} onPiece */
  async #answer(prompt, signal, onPiece) {
    const { responseConstraint } = prompt;
    const said = described(prompt, this.#started);
    const begun = said.at(-1)?.role === 'assistant' ? said.at(-1) : undefined;
    const tokens = await this.#makeRoom(said, signal);
    const messages = [...this.#setup.initial, ...this.#state.exchanges.flat(), ...said];
    const { chat, generation, length } = this.#ask(messages, {
      format: formatOf(responseConstraint, this.#setup.schemaBounds),
      maxTokens: this.#setup.maxTokens ?? Math.max(1, this.#setup.model.info.contextLength - tokens),
      signal,
    });
    for await (const piece of generation) if (!signal.aborted) onPiece(piece);
    const { finishReason, text } = await generation.result();
    if (signal.aborted) return;
    const whole = (begun?.content ?? '') + text;
    if (responseConstraint && finishReason !== 'stop' && !followsCut(responseConstraint, whole)) throw cutOff();
    if (finishReason === 'tool-calls') throw tooManyCalls();
    const answered = begun
      ? [...said.slice(0, -1), { ...begun, content: whole }]
      : [...said, .../** @type {Said[]} */ (chat.messages.slice(length))];
    await this.#keep(answered, signal, chat);
  }

  /** @param {PromptInput} input @param {AbortSignal} signal */
  async #append(input, signal) {
    const said = messagesOf(input, this.#started);
    await this.#makeRoom(said, signal);
    await this.#evaluate([...this.#setup.initial, ...this.#state.exchanges.flat(), ...said], signal);
    if (!signal.aborted) await this.#keep(said, signal);
  }

  /** Adds an exchange to the session, unless the signal aborts.
   * @param {Exchange} said @param {AbortSignal} signal @param {Chat} [chat] the chat that answered */
  async #keep(said, signal, chat) {
    const first = said[0].role === 'system' && !this.#started ? said.slice(0, 1) : [];
    const initial = [...this.#setup.initial, ...first];
    const exchanges = [...this.#state.exchanges, said.slice(first.length)];
    const usage = await this.#measure([...initial, ...exchanges.flat()], signal);
    if (signal.aborted) return;
    this.#setup = { ...this.#setup, initial };
    this.#state = { ...this.#state, exchanges, usage, chat };
  }

  /** Evicts the oldest exchanges until the session has room for messages, and returns the number of tokens of all
   * messages. If there is no room even then, evicts nothing and throws QuotaExceededError.
   * @param {Said[]} said @param {AbortSignal} signal */
  async #makeRoom(said, signal) {
    const { initial } = this.#setup;
    const { exchanges } = this.#state;
    for (let evicted = 0; ; evicted++) {
      const left = exchanges.slice(evicted);
      const tokens = await this.#measure([...initial, ...left.flat(), ...said], signal);
      if (tokens > this.#window && left.length) continue;
      this.#checkRoom(tokens);
      if (evicted) {
        const usage = await this.#measure([...initial, ...left.flat()], signal);
        this.#state = { ...this.#state, exchanges: left, usage, chat: undefined };
        for (const type of ['contextoverflow', 'quotaoverflow']) this.dispatchEvent(new Event(type));
      }
      return tokens;
    }
  }

  /** @param {Said[]} messages @param {AbortSignal} [signal] */
  async #measure(messages, signal) {
    const { toolTokens } = this.#state;
    if (!messages.length) return toolTokens;
    return toolTokens + (await this.#setup.model.countTokens(conversationOf(messages), { signal }));
  }

  /** Evaluates messages in advance, so that a later answer begins sooner. @param {Said[]} messages
   * @param {AbortSignal} [signal] */
  async #evaluate(messages, signal) {
    return this.#ask(messages, { maxTokens: 0, signal }).generation.result();
  }

  /** Generates an answer to messages, or continues the last message if it is the assistant's.
   * @param {Said[]} messages @param {GenerateOptions} options */
  #ask(messages, options) {
    const { model, tools, samplingMode } = this.#setup;
    const turns = conversationOf(messages);
    const last = turns[turns.length - 1];
    const heat = HEAT[samplingMode];
    const temperature = heat * (model.info.defaults.temperature ?? 1);
    const all = { ...options, ...(tools.length && last.role !== 'assistant' && { tools: tools.map(toolOf) }) };
    // Reuses the chat of the last answer if possible, because a chat has the token ids of its answers, which are then
    // not evaluated again.
    const before = this.#state.chat;
    const follows = before?.messages.length === turns.length - 1 && last.role === 'user';
    const chat = follows ? before.clone() : model.chat({ messages: turns, temperature });
    if (follows) return { chat, generation: chat.send(last.content, all), length: turns.length };
    const generation = last.role === 'assistant' ? chat.continue({ ...all, prefix: last.content }) : chat.retry(all);
    return { chat, generation, length: turns.length };
  }
}

/** Returns the messages of a prompt, with a description of its constraint unless `omitResponseConstraintInput` is set.
 * @param {PromptOptions & { input: PromptInput }} prompt
 * @param {boolean} started whether messages precede the prompt */
function described({ input, responseConstraint, omitResponseConstraintInput }, started) {
  if (omitResponseConstraintInput && !responseConstraint) throw noConstraint();
  const messages = compacted(messagesOf(input, started), responseConstraint);
  return omitResponseConstraintInput ? messages : withConstraint(messages, responseConstraint);
}

/** @param {PromptTool} tool @returns {Tool} */
const toolOf = ({ name, description, inputSchema, execute }) => ({
  name,
  description,
  parameters: inputSchema,
  execute: async (args) => `${await execute(args)}`,
});
