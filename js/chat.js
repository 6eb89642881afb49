/* chat: keeps the messages of a conversation, and the prefix of its prompt in the KV cache, so that each turn evaluates
 * only new tokens. Knows no worker. */
/** @import { Prefix, ToolCall } from './protocol.js' */
/** @import { Generation, Hooks } from './generation.js' */
/** @import { AnswerOptions, Bytes, CallOptions, ChatMessage, Format, GenerateOptions, ValueOf } from './options.js' */
/** @import { Prefixes } from './saved.js' */
import { ModelError, show } from './errors.js';
import {
  GENERATE_OPTIONS,
  bytes,
  checkOptions,
  checkValue,
  given,
  object,
  jsonOption,
  nextChoice,
  rule,
  signal,
  string,
} from './options.js';
import { packChat, unpackChat } from './saved.js';

/** Default maximum of answers in a row whose calls are run. */
const MAX_ROUNDS = 8;

/** The result of a call.
 * @typedef {object} ToolResult
 * @property {any} content Any JSON.
 * @property {string} [id] Id of the call. Either this or `name` is needed.
 * @property {string} [name] Name of the tool.
 */

const isResults = rule('a non-empty array', (value) => Array.isArray(value) && value.length > 0);
const isMessages = rule('an array of messages { role, content }', Array.isArray);
const CHAT_OPTIONS = { system: string, messages: isMessages, saved: bytes, ...GENERATE_OPTIONS };

/** Options of `continue` besides those of any answer.
 * @typedef {object} ContinueOptions
 * @property {string} [prefix] Text that another answer to the last question begins with. Default: the last answer.
 */
/** The beginning of a chat.
 * @typedef {object} ChatStart
 * @property {string} [system] System message.
 * @property {readonly ChatMessage[]} [messages] Messages so far. Default: none.
 * @property {Bytes} [saved] Bytes of `chat.save()`, which replace `system` and `messages`. Damaged ones are `bad-saved`.
 */
/** Options of a chat: its beginning, and defaults for each answer.
 * @template {readonly object[]} [P=object[]]
 * @typedef {AnswerOptions<Format, P> & ChatStart} ChatOptions */
/** The conversation up to an answer. begin: beginning of the answer.
 * @typedef {{ messages: ChatMessage[], prefix?: Prefix, begin?: string }} Past */
/** The result of restoring a saved chat.
 * @typedef {object} Restored
 * @property {number} tokens Tokens in the KV cache, which need not be evaluated again.
 * @property {string} [reason] Why there are none. The messages are restored all the same.
 */
/** Dependencies of a chat on its model. ask: begins an answer, and then calls `prompt`.
 * @typedef {{ ask: (prompt: () => Past, options: GenerateOptions, hooks: Hooks) => Generation,
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
  #busy = false;

  /** Resolves when the option `saved` is restored. @readonly @type {Promise<Restored>} */
  restored;

  /** @internal @param {ChatDeps} deps @param {ChatOptions} options @param {Prefixes} [prefixes] */
  constructor(deps, options, prefixes = {}) {
    checkOptions(options, CHAT_OPTIONS);
    const { saved, ...others } = options;
    const said = saved === undefined ? null : unpack(saved, others);
    const { system, messages = said?.messages ?? [], ...defaults } = { ...said?.options, ...others };
    checkOptions(defaults, GENERATE_OPTIONS);
    const opening = system === undefined ? [] : [{ role: 'system', content: system }];
    this.#messages = checkMessages([...opening, ...messages]);
    this.#deps = deps;
    this.#defaults = defaults;
    this.#prefixes = said?.prefixes ?? prefixes;
    this.restored = said?.state.length
      ? deps.restore(said.state.slice())
      : Promise.resolve({ tokens: 0, ...(said?.messages.length && { reason: reasonOf(said.prefixes) }) });
    this.restored.catch(() => {});
  }

  /** A copy of the messages, the system message first. */
  get messages() {
    return this.#messages.map((message) => ({ ...message }));
  }

  /** Answers a message of the user. Adds the turn to `messages` when the answer ends, also if it was aborted; not if it
   * failed, or was aborted before its first character.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {string} text @param {AnswerOptions<F, P>} [options]
   * @returns {Generation<ValueOf<F>>} */
  send(text, options = {}) {
    checkValue('text', text, string);
    return this.#answerTo([{ role: 'user', content: text }], options);
  }

  /** Sends the results of the tools that the last answer called, and answers them. Ignores a `toolChoice` of the chat
   * that demands calls, unless it has `everyRound`.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {readonly ToolResult[]} results @param {AnswerOptions<F, P>} [options]
   * @returns {Generation<ValueOf<F>>} */
  sendToolResults(results, options = {}) {
    checkValue('results', results, isResults);
    checkOptions(options, GENERATE_OPTIONS);
    const { toolChoice = nextChoice(this.#defaults.toolChoice) } = given(options);
    const said = results.map((result) => ({ ...result, role: /** @type {const} */ ('tool') }));
    return this.#answerTo(said, { ...options, toolChoice });
  }

  /** @param {readonly ChatMessage[]} said @param {GenerateOptions} options */
  #answerTo(said, options) {
    const past = () => ({ messages: checkMessages([...this.#messages, ...said]), prefix: this.#prefixes.next });
    return this.#answer(past, options);
  }

  /** Answers the last message of the user again. The new answer replaces the old one when it ends.
   * @template {Format} [const F=Format] @template {readonly object[]} [P=object[]]
   * @param {AnswerOptions<F, P>} [options] @returns {Generation<ValueOf<F>>} */
  retry(options = {}) {
    const past = () => {
      const end = this.#messages.findLastIndex(({ role }) => role === 'user') + 1;
      if (!end) throw nothingToAnswer();
      return { messages: this.#messages.slice(0, end), prefix: this.#prefixes.last };
    };
    return this.#answer(past, options);
  }

  /** Continues the last answer, for example one that hit `maxTokens`. With a `prefix`, begins another answer to the
   * last question with that text. The result has the new text only, `messages` the whole answer. Fails with
   * `bad-state` if there is nothing to continue.
   * @param {GenerateOptions & ContinueOptions} [options] */
  continue(options = {}) {
    checkValue('options', options, object);
    const all = given(options);
    checkOptions(all, { prefix: string, ...GENERATE_OPTIONS });
    const { prefix: text, ...others } = all;
    const { format, tools = [], toolChoice } = this.#all(others);
    if (format !== undefined || (tools.length && toolChoice !== 'none')) {
      throw new ModelError('bad-option', "continue() takes no `format`, and tools only with toolChoice 'none'.");
    }
    const past = () => {
      if (!this.#messages.length) throw nothingToAnswer();
      const last = this.#messages[this.#messages.length - 1];
      const ours = /^(assistant|model)$/.test(last.role);
      if (text === undefined && last.toolCalls) {
        throw new ModelError('bad-state', 'The last answer called tools. Send their results first.');
      }
      const begin = text ?? (ours ? last.content : '');
      return { messages: this.#messages.slice(0, ours ? -1 : undefined), begin, prefix: this.#prefixes.next };
    };
    return this.#answer(past, others);
  }

  /** Returns an independent copy of the chat. */
  clone() {
    const copy = { ...this.#defaults, messages: this.messages };
    return new Chat(this.#deps, copy, this.#prefixes);
  }

  /** Returns the messages, the options and the chat's part of the KV cache as bytes, for the option `saved` of
   * model.chat(), also after a reload. @param {CallOptions} [options] @returns {Promise<Uint8Array>} */
  async save(options = {}) {
    checkOptions(options, { signal });
    this.#check();
    const prefixes = this.#prefixes;
    const head = packChat({ messages: this.#messages, options: this.#defaults, prefixes });
    return this.#deps.save(head, prefixes.next, options.signal);
  }

  #check() {
    if (!this.#busy) return;
    throw new ModelError('bad-state', 'The chat is still answering. Wait for its answer, or abort it.');
  }

  /** Merges options over the chat's defaults. `undefined` values are ignored.
   * @param {GenerateOptions} options @returns {GenerateOptions} */
  #all(options) {
    checkOptions(options, GENERATE_OPTIONS);
    return { ...this.#defaults, ...given(options) };
  }

  /** @param {() => Past} past the conversation to answer @param {GenerateOptions} options */
  #answer(past, options) {
    const all = this.#all(options);
    /** @type {Past | null} */
    let begun = null;
    /** Answers whose calls were run here, and the results. @type {ChatMessage[]} */
    const said = [];
    let rounds = 0;
    return this.#deps.ask(
      () => {
        this.#check();
        const messages = past();
        this.#busy = true;
        return (begun = messages);
      },
      all,
      {
        onAnswer: async (answer, signal) => {
          if (answer.finishReason !== 'tool-calls' || ++rounds > (all.maxRounds ?? MAX_ROUNDS)) return null;
          const { resultsOf } = await import('./calls.js');
          const results = await resultsOf(answer, all.tools ?? [], signal);
          if (!results) return null;
          said.push(messageOf(answer), ...results);
          return { messages: [.../** @type {Past} */ (begun).messages, ...said] };
        },
        onResult: (answer, built) => {
          this.#busy = false;
          const { messages, prefix, begin } = /** @type {Past} */ (begun);
          if (answer.finishReason === 'aborted' && answer.text === '') return;
          this.#messages = [...messages, ...said, messageOf({ ...answer, text: (begin ?? '') + answer.text })];
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

const nothingToAnswer = () => new ModelError('bad-state', 'The chat has no message to answer. Call send() first.');

/** @param {Prefixes} prefixes of a chat without a state */
const reasonOf = ({ why }) => `messages alone were saved: ${why ? `the last answer ${why}` : 'nothing was answered'}`;

/** @param {import('./protocol.js').GenerateResult} answer @returns {ChatMessage} */
function messageOf({ text, finishReason, toolCalls }) {
  const calls = toolCalls?.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
  return {
    role: 'assistant',
    content: text,
    ...(finishReason === 'aborted' && { aborted: true }),
    ...(calls?.length && { toolCalls: calls }),
  };
}

/** @param {Bytes} saved @param {Record<string, any>} others options beside it */
function unpack(saved, others) {
  const none = rule('left out beside `saved`, which contains it', (value) => value === undefined);
  for (const name of ['messages', 'system']) checkValue(name, others[name], none);
  return unpackChat(
    ArrayBuffer.isView(saved)
      ? new Uint8Array(saved.buffer, saved.byteOffset, saved.byteLength)
      : new Uint8Array(saved),
  );
}

const ROLES = ['system', 'developer', 'user', 'assistant', 'model', 'tool'];

/** Returns a copy of messages with known members only. Throws `bad-option`. @param {any} messages
 * @returns {ChatMessage[]} */
export function checkMessages(messages) {
  checkValue('messages', messages, isMessages);
  /** Names of the called tools by ids of the calls. @type {Map<string, string>} */
  const called = new Map();
  return messages.map((/** @type {any} */ message, /** @type {number} */ i) => {
    const { role, content, aborted, toolCalls } = message ?? {};
    if (!ROLES.includes(role)) {
      const roles = `one of ${ROLES.join(', ')}`;
      throw new ModelError('bad-option', `The role of message ${i} must be ${roles} (got ${show(role)}).`);
    }
    if (role === 'tool') return checkResult(message, i, called);
    if (toolCalls) return { role, content: content ?? '', toolCalls: checkCalls(toolCalls, i, called) };
    checkValue(`The content of message ${i}`, content, string);
    return aborted ? { role, content, aborted } : { role, content };
  });
}

/** @param {any} calls @param {number} i @param {Map<string, string>} called @returns {ToolCall[]} */
function checkCalls(calls, i, called) {
  checkValue(
    `The toolCalls of message ${i}`,
    calls,
    rule('an array of { id, name, arguments }', (value) => {
      return Array.isArray(value) && value.every((call) => string.fits(call?.name) && object.fits(call.arguments));
    }),
  );
  return calls.map((/** @type {any} */ { id, name, arguments: args }, /** @type {number} */ n) => {
    const known = id ?? `call_${i}_${n}`;
    called.set(known, name);
    return { id: known, name, arguments: jsonOption(`arguments of \`${name}\` in message ${i}`, args) };
  });
}

/** @param {any} message @param {number} i @param {Map<string, string>} called @returns {ChatMessage} */
function checkResult({ id, name: given, content }, i, called) {
  const name = given ?? called.get(id);
  checkValue(`The name of message ${i}`, name, rule('that of the tool, or its `id` that of the call', string.fits));
  const said = jsonOption(`content of message ${i}, a result of \`${name}\`,`, content ?? null);
  return { role: 'tool', name, ...(id !== undefined && { id }), content: said };
}
