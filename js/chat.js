/* chat: keeps the messages of a conversation, and the prefix of its prompt in the KV cache, so that each turn evaluates
 * only new tokens. Reaches the worker only through functions of the model. */
/** @import { ChatMessage, Content, PostedPrompt, Prefix, Timings, Usage } from './protocol.js' */
/** @import { Generation, Hooks } from './generation.js' */
/** @import { AnswerOptions, Bytes, CallOptions, Format } from './options.js' */
/** @import { GenerateOptions, ValueOf } from './options.js' */
/** @import { Summarize } from './overflow.js' */
/** @import { Prefixes } from './saved.js' */
import { asBytes } from './download/describe.js';
import { abortError } from './errors.js';
import { nothingToAnswer, resultsMissing, stillAnswering, summarizeAlone } from './front-errors.js';
import { checkBegun, checkMessages, contentOf, isMessages } from './messages.js';
import {
  GENERATE_OPTIONS,
  bytes,
  callback,
  checkOptions,
  checkValue,
  given,
  object,
  nextChoice,
  oneOf,
  rule,
  signal,
  string,
} from './options.js';
import { packChat, unpackChat } from './saved.js';

/** Default of `maxRounds`: maximum number of consecutive answers whose tool calls are run. */
const MAX_ROUNDS = 8;

/** The result of a tool call.
 * @typedef {object} ToolResult
 * @property {any} content Result, any JSON.
 * @property {string} [id] Id of the call. Either `id` or `name` is needed.
 * @property {string} [name] Name of the tool.
 */

const isList = rule('a non-empty array', (value) => Array.isArray(value) && value.length > 0);
const CHAT_OPTIONS = {
  system: string,
  messages: isMessages,
  saved: bytes,
  overflow: oneOf('error', 'truncate-oldest', 'summarize'),
  summarize: callback,
  ...GENERATE_OPTIONS,
};

/** Options of `chat.continue()`, besides those of every answer.
 * @typedef {object} ContinueOptions
 * @property {string} [prefix] Text with which another answer to the last question begins. Default: continue the last
 *   answer.
 */
/** The beginning of a chat.
 * @typedef {object} ChatStart
 * @property {string} [system] System message.
 * @property {readonly ChatMessage[]} [messages] Messages so far. Default: none.
 * @property {Bytes} [saved] Bytes of `chat.save()`, which replace `system` and `messages`. Damaged bytes fail with
 *   `bad-saved`.
 * @property {'error' | 'truncate-oldest' | 'summarize'} [overflow] Policy for a conversation that outgrows the context:
 *   fail with `context-exceeded`, remove the oldest turns, or replace them by a summary. Default: error.
 * @property {Summarize} [summarize] Summarises the removed messages. Required by `overflow: 'summarize'`.
 */
/** The result of `chat.append()`.
 * @typedef {object} Appended
 * @property {Usage} usage Token counts.
 * @property {Timings} timings Durations.
 * @property {ChatMessage[]} [dropped] Messages that the policy `overflow` removed.
 */
/** Options of a chat: its beginning, and defaults for each answer.
 * @template {readonly object[]} [P=object[]]
 * @typedef {AnswerOptions<Format, P> & ChatStart} ChatOptions */
/** The conversation before an answer. begin: given beginning of the answer; thought: given beginning of its thoughts.
 * @typedef {{ messages: ChatMessage[], prefix?: Prefix, begin?: string, thought?: string }} Past */
/** The result of restoring a saved chat.
 * @typedef {object} Restored
 * @property {number} tokens Tokens in the KV cache, which need not be evaluated again.
 * @property {string} [reason] Why `tokens` is 0. The messages are restored in any case.
 */
/** Functions of the model that a chat needs. ask: starts a generation, which calls `prompt` to get the conversation;
 * count: returns the number of tokens of a prompt; thinking: whether the model can turn thinking on and off.
 * @typedef {{ ask: (prompt: () => Past, options: GenerateOptions, hooks: Hooks) => Generation,
 *   count: (prompt: PostedPrompt, signal: AbortSignal) => Promise<number>, contextLength: number, thinking: boolean,
 *   save: (head: Uint8Array, prefix?: Prefix, signal?: AbortSignal) => Promise<Uint8Array>,
 *   restore: (bytes: Uint8Array) => Promise<Restored> }} ChatDeps */

/** A conversation with a model. `model.chat()` makes it. */
export class Chat {
  #deps;
  #defaults;
  /** @type {ChatMessage[]} */
  #messages;
  /** @type {Prefixes} */
  #prefixes;
  /** @type {Pick<ChatOptions, 'overflow' | 'summarize'>} */
  #policy;
  #busy = false;

  /** Resolves when the option `saved` is restored. @readonly @type {Promise<Restored>} */
  restored;

  /** @internal @param {ChatDeps} deps @param {ChatOptions} options @param {Prefixes} [prefixes] */
  constructor(deps, options, prefixes = {}) {
    checkOptions(options, CHAT_OPTIONS);
    const { saved, ...others } = options;
    const said = saved === undefined ? null : unpack(saved, others);
    const all = { ...said?.options, ...others };
    const { system, messages = said?.messages ?? [], overflow, summarize, ...defaults } = all;
    checkOptions(defaults, GENERATE_OPTIONS);
    if ((overflow === 'summarize') !== (summarize !== undefined)) throw summarizeAlone();
    this.#policy = { overflow, summarize };
    const opening = system === undefined ? [] : [{ role: 'system', content: system }];
    this.#messages = checkMessages(messages, opening);
    this.#deps = deps;
    this.#defaults = given(defaults);
    this.#prefixes = said?.prefixes ?? prefixes;
    this.restored = said?.state.length
      ? deps.restore(said.state.slice())
      : Promise.resolve({ tokens: 0, ...(said?.messages.length && { reason: reasonOf(said.prefixes) }) });
    this.restored.catch(() => {});
  }

  /** A copy of the messages, the system message first. @returns {ChatMessage[]} */
  get messages() {
    return this.#messages.map((message) => ({ ...message }));
  }

  /** Answers a message of the user. Adds question and answer to `messages` when the answer ends. An aborted
   * answer is added, too, unless it is empty; a failed one is not.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {Content} text @param {AnswerOptions<F, P>} [options]
   * @returns {Generation<ValueOf<F>>} */
  send(text, options = {}) {
    return this.#answerTo([{ role: 'user', content: contentOf('text', text, true) }], options);
  }

  /** Adds messages without an answer, and evaluates them, so that the next answer begins sooner. If the call fails or
   * is aborted, the chat stays as it was.
   * @param {readonly ChatMessage[]} messages @param {CallOptions} [options] @returns {Promise<Appended>} */
  async append(messages, options = {}) {
    checkOptions(options, { signal });
    checkValue('messages', messages, isList);
    // append() leaves out the chat's `format`, which does not change the prompt and would have to be compiled.
    const all = { ...this.#defaults, ...given(options), maxTokens: 0, format: undefined };
    const result = await this.#answer(this.#after(messages), all, false).result();
    const { finishReason, usage, timings, dropped } = result;
    if (finishReason === 'aborted') throw abortError(options.signal);
    return { usage, timings, ...(dropped && { dropped }) };
  }

  /** Sends the results of the tools that the last answer called, and generates the next answer. Ignores the chat's
   * `toolChoice`, unless it is `none` or has `everyRound`.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {readonly ToolResult[]} results @param {AnswerOptions<F, P>} [options] @returns {Generation<ValueOf<F>>} */
  sendToolResults(results, options = {}) {
    checkValue('results', results, isList);
    checkOptions(options, GENERATE_OPTIONS);
    const { toolChoice = nextChoice(this.#defaults.toolChoice) } = given(options);
    const said = results.map((result) => ({ ...result, role: /** @type {const} */ ('tool') }));
    return this.#answerTo(said, { ...options, toolChoice });
  }

  /** @param {readonly ChatMessage[]} said @param {GenerateOptions} options */
  #answerTo(said, options) {
    return this.#answer(this.#after(said), this.#all(options));
  }

  /** @param {readonly ChatMessage[]} said @returns {() => Past} */
  #after(said) {
    return () => ({ messages: checkMessages(said, this.#messages), prefix: this.#prefixes.next });
  }

  /** Answers the last message of the user again. The new answer replaces the old one when it is complete.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {AnswerOptions<F, P>} [options] @returns {Generation<ValueOf<F>>} */
  retry(options = {}) {
    const past = () => {
      const end = this.#messages.findLastIndex(({ role }) => role === 'user') + 1;
      if (!end) throw nothingToAnswer();
      return { messages: this.#messages.slice(0, end), prefix: this.#prefixes.last };
    };
    return this.#answer(past, this.#all(options));
  }

  /** Continues the last answer, for example one that hit `maxTokens`. With a `prefix`, begins another answer to the
   * last question with that text. A `format` constrains the whole answer. `text` of the result is the new text only;
   * `value` and `messages` have the whole answer. Fails with `bad-state` if there is nothing to continue.
   * @param {GenerateOptions & ContinueOptions} [options] */
  continue(options = {}) {
    checkValue('options', options, object);
    const all = given(options);
    checkOptions(all, { prefix: string, ...GENERATE_OPTIONS });
    const { prefix: text, ...others } = all;
    const wanted = this.#all(others);
    checkBegun(wanted);
    const { thinking } = wanted;
    const last = this.#messages.at(-1);
    const ours = /^(assistant|model)$/.test(last?.role ?? '');
    // A continued answer keeps its thoughts in the prompt, unless the caller turns thinking off.
    const thinks = text === undefined && ours && thinking !== false && last?.thoughts;
    const past = () => {
      if (!last) throw nothingToAnswer();
      if (text === undefined && last.toolCalls) throw resultsMissing();
      const begin = text ?? (ours ? last.content : '');
      const messages = this.#messages.slice(0, ours ? -1 : undefined);
      return { messages, begin, ...(thinks && { thought: thinks }), prefix: this.#prefixes.next };
    };
    return this.#answer(past, thinks && this.#deps.thinking ? { ...wanted, thinking: thinking ?? true } : wanted);
  }

  /** Returns an independent copy of the chat. */
  clone() {
    const copy = { ...this.#defaults, ...this.#policy, messages: this.messages };
    return new Chat(this.#deps, copy, this.#prefixes);
  }

  /** Returns the messages, the options and the chat's part of the KV cache as bytes. Pass them to model.chat() as the
   * option `saved`, even after a reload. @param {CallOptions} [options] @returns {Promise<Uint8Array>} */
  async save(options = {}) {
    checkOptions(options, { signal });
    this.#check();
    const prefixes = this.#prefixes;
    const head = packChat({ messages: this.#messages, options: this.#defaults, prefixes });
    return this.#deps.save(head, prefixes.next, options.signal);
  }

  #check() {
    if (this.#busy) throw stillAnswering();
  }

  /** @param {GenerateOptions} options @returns {GenerateOptions} */
  #all(options) {
    checkOptions(options, GENERATE_OPTIONS);
    return { ...this.#defaults, ...given(options) };
  }

  /** Starts an answer, and adds it to the messages when it ends.
   * @param {() => Past} past the conversation to answer @param {GenerateOptions} all
   * @param {boolean} [answers] whether to answer, not only to evaluate the conversation */
  #answer(past, all, answers = true) {
    /** @type {Past | null} */
    let begun = null;
    /** Messages of the conversation, including answers of this call whose tools were run, and the tools' results.
     * @type {ChatMessage[]} */
    let said = [];
    /** @type {ChatMessage[]} */
    const dropped = [];
    let rounds = 0;
    return this.#deps.ask(
      () => {
        this.#check();
        const messages = past();
        this.#busy = true;
        said = messages.messages;
        return (begun = messages);
      },
      all,
      {
        ...(/^[ts]/.test(this.#policy.overflow ?? '') && {
          onPrompt: async (args, signal) => {
            const { shortened } = await import('./overflow.js');
            const fit = await shortened(args, { ...this.#deps, ...this.#policy, signal });
            said = fit.messages;
            dropped.push(...fit.dropped);
            return { ...args.prompt, messages: said };
          },
        }),
        onAnswer: async (answer, signal) => {
          if (answer.finishReason !== 'tool-calls' || ++rounds > (all.maxRounds ?? MAX_ROUNDS)) return null;
          const { resultsOf } = await import('./calls.js');
          const results = await resultsOf(answer, all.tools ?? [], signal);
          if (!results) return null;
          return { messages: (said = [...said, messageOf(answer), ...results]) };
        },
        onResult: (answer, built) => {
          this.#busy = false;
          const { prefix, begin, thought = '' } = /** @type {Past} */ (begun);
          const { text, thoughts = '' } = answer;
          if (answer.finishReason === 'aborted' && text + thoughts === '') return;
          if (dropped.length) answer.dropped = dropped;
          if (!answers) {
            this.#messages = said;
            this.#prefixes = { last: prefix, next: prefix };
            return;
          }
          const whole = { ...answer, text: (begin ?? '') + text, thoughts: thought + thoughts };
          this.#messages = [...said, messageOf(whole)];
          const last = begin === undefined ? prefix : this.#prefixes.last;
          this.#prefixes = { last, ...built };
        },
        onError: () => {
          if (begun) this.#busy = false;
        },
      },
    );
  }
}

/** @param {Prefixes} prefixes */
const reasonOf = ({ why }) =>
  `only the messages were saved, because ${why ? `the last answer ${why}` : 'there is no answer yet'}`;

/** @param {import('./protocol.js').GenerateResult} answer @returns {ChatMessage} */
function messageOf({ text, thoughts, finishReason, toolCalls }) {
  const calls = toolCalls?.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
  return {
    role: 'assistant',
    content: text,
    ...(thoughts && { thoughts }),
    ...(finishReason === 'aborted' && { aborted: true }),
    ...(calls?.length && { toolCalls: calls }),
  };
}

/** Reads the bytes of a saved chat. Throws `bad-option` if options contradict them, or `bad-saved`.
 * @param {Bytes} saved @param {Record<string, any>} others the other options of model.chat() */
function unpack(saved, others) {
  const none = rule('left out with `saved`, which contains it', (value) => value === undefined);
  for (const name of ['messages', 'system']) checkValue(name, others[name], none);
  return unpackChat(/** @type {Uint8Array} */ (asBytes(saved)));
}
