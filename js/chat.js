/* chat: a conversation: keeps the messages and, per turn, what the engine's cache holds of them, so
 * that a turn evaluates only what is new. */
import { GemmaError } from './errors.js';

/**
 * @typedef {object} ChatMessage
 * @property {'system' | 'user' | 'assistant' | 'model'} role 'model' is the same as 'assistant'
 * @property {string} content
 * @property {boolean} [aborted] an answer that was cut short by its reader
 */
/** @typedef {import('./model.js').GenerateOptions} GenerateOptions */
/** @typedef {GenerateOptions & { system?: string, messages?: ChatMessage[] }} ChatOptions */
/** @typedef {import('./template.js').Prefix} Prefix */

/**
 * @typedef {object} Ask
 * @property {(options: GenerateOptions) => void} check throws for options that are not right
 * @property {(messages: () => { messages: ChatMessage[], prefix?: Prefix }, options: GenerateOptions,
 *   hooks: Pick<import('./generation.js').GenerationPlan, 'onResult' | 'onError'>)
 *   => import('./generation.js').Generation} generate
 */

export class Chat {
  #ask;
  #defaults;
  /** @type {ChatMessage[]} */
  #messages;
  /** What the last answer was built on, and what the next one can build on.
   * @type {{ last?: Prefix, next?: Prefix }} */
  #prefixes;
  #busy = false;

  /** @param {Ask} ask @param {ChatOptions} options @param {{ last?: Prefix, next?: Prefix }} [prefixes] */
  constructor(ask, { system, messages = [], ...defaults }, prefixes = {}) {
    ask.check(defaults);
    const opening = system === undefined ? [] : [{ role: 'system', content: system }];
    this.#messages = checkMessages([...opening, ...messages], true);
    this.#ask = ask;
    this.#defaults = defaults;
    this.#prefixes = prefixes;
  }

  /** A copy of what was said, the system message first if there is one. */
  get messages() {
    return this.#messages.map((message) => ({ ...message }));
  }

  /** Say something. The turn is added to `messages` when the answer is finished; not if it fails
   * (context-exceeded leaves the chat as it was), nor if it was aborted before its first
   * character. An answer aborted later is kept as far as it came, marked `aborted`.
   * @param {string} text @param {GenerateOptions} [options] */
  send(text, options = {}) {
    checkMessages([{ role: 'user', content: text }]);
    const past = () => ({ messages: this.#messages, prefix: this.#prefixes.next });
    return this.#answer(past, { role: 'user', content: text }, options);
  }

  /** Ask for another answer to the last thing said; replaces the old answer when it is finished.
   * @param {GenerateOptions} [options] */
  retry(options = {}) {
    const at = this.#messages.findLastIndex(({ role }) => role === 'user');
    if (at < 0) throw new GemmaError('bad-state', 'nothing was said yet that could be tried again');
    const past = { messages: this.#messages.slice(0, at), prefix: this.#prefixes.last };
    return this.#answer(() => past, this.#messages[at], options);
  }

  /** A chat with the same past that goes its own way. */
  clone() {
    const copy = { ...this.#defaults, messages: this.messages };
    return new Chat(this.#ask, copy, this.#prefixes);
  }

  /**
   * @param {() => { messages: ChatMessage[], prefix?: Prefix }} past
   * @param {ChatMessage} question
   * @param {GenerateOptions} options
   */
  #answer(past, question, options) {
    /** @type {ChatMessage[]} */
    let messages = [];
    /** @type {Prefix | undefined} */
    let last;
    const begin = () => {
      if (this.#busy) throw new GemmaError('bad-state', 'this chat is still answering');
      this.#busy = true;
      const { messages: before, prefix } = past();
      messages = [...before, question];
      last = prefix;
      return { messages, prefix };
    };
    return this.#ask.generate(begin, { ...this.#defaults, ...options }, {
      onResult: ({ text, finishReason }, next) => {
        this.#busy = false;
        const aborted = finishReason === 'aborted';
        if (aborted && text === '') return;
        const answer = { role: /** @type {const} */ ('assistant'), content: text };
        this.#messages = [...messages, aborted ? { ...answer, aborted } : answer];
        this.#prefixes = { last, next };
      },
      onError: () => {
        if (messages.length) this.#busy = false;
      },
    });
  }
}

const ROLES = ['system', 'user', 'assistant', 'model'];

/** @param {any} messages @param {boolean} [mayBeEmpty] @returns {ChatMessage[]} */
export function checkMessages(messages, mayBeEmpty = false) {
  if (!Array.isArray(messages) || !(messages.length || mayBeEmpty)) {
    throw new GemmaError('bad-option', 'messages', { expected: 'an array of { role, content }' });
  }
  return messages.map((message, i) => {
    if (!ROLES.includes(message?.role)) {
      throw new GemmaError('bad-option', `role of message ${i}`,
        { expected: `one of ${ROLES.join(', ')}`, got: String(message?.role) });
    }
    if (typeof message.content !== 'string') {
      throw new GemmaError('bad-option', `content of message ${i}`,
        { expected: 'a string', got: typeof message.content });
    }
    const { role, content, aborted } = message;
    return aborted ? { role, content, aborted } : { role, content };
  });
}
