/* chat: keeps the messages, and what the engine's cache holds of them: a turn evaluates only what is
 * new. */
/** @import { Generation, Hooks } from './generation.js' */
/** @import { GenerateOptions } from './model.js' */
/** @import { Prefix } from './engine/template.js' */
import { GemmaError } from './errors.js';
import { GENERATE_OPTIONS, checkOptions, checkValue, object, rule, show, string } from './options.js';

/** 'model' is the same as 'assistant'; aborted: an answer that was cut short by its reader.
 * @typedef {{ role: 'system' | 'user' | 'assistant' | 'model', content: string, aborted?: boolean
 * }} ChatMessage */
/** @typedef {GenerateOptions & { system?: string, messages?: ChatMessage[] }} ChatOptions */
/** @typedef {{ messages: ChatMessage[], prefix?: Prefix }} Past */
/** What the last answer was built on, and what the next one can be.
 * @typedef {{ last?: Prefix, next?: Prefix }} Prefixes */
/** The prompt is asked for when the answer begins.
 * @typedef {(prompt: () => Past, options: GenerateOptions, hooks: Hooks) => Generation} Ask */

export class Chat {
  #ask;
  #defaults;
  /** @type {ChatMessage[]} */
  #messages;
  /** @type {Prefixes} */
  #prefixes;
  #busy = false;

  /** @param {Ask} ask @param {ChatOptions} options @param {Prefixes} [prefixes] */
  constructor(ask, options, prefixes = {}) {
    checkValue('options', options, object);
    const { system, messages = [], ...defaults } = options;
    checkOptions(defaults, GENERATE_OPTIONS);
    const opening = system === undefined ? [] : [{ role: 'system', content: system }];
    this.#messages = checkMessages(Array.isArray(messages) ? [...opening, ...messages] : messages);
    this.#ask = ask;
    this.#defaults = defaults;
    this.#prefixes = prefixes;
  }

  /** A copy, the system message first. */
  get messages() {
    return this.#messages.map((message) => ({ ...message }));
  }

  /** The turn is added to `messages` when the answer is finished, as far as it came; not if it
   * failed or was aborted before its first character. @param {string} text @param {GenerateOptions} [options] */
  send(text, options = {}) {
    checkValue('text', text, string);
    const question = { role: /** @type {const} */ ('user'), content: text };
    const past = () => ({ messages: [...this.#messages, question], prefix: this.#prefixes.next });
    return this.#answer(past, options);
  }

  /** Another answer to the last thing said; replaces the old one when it is finished.
   * @param {GenerateOptions} [options] */
  retry(options = {}) {
    const end = () => this.#messages.findLastIndex(({ role }) => role === 'user') + 1;
    if (!end()) throw new GemmaError('bad-state', 'nothing was said yet');
    const past = () => ({ messages: this.#messages.slice(0, end()), prefix: this.#prefixes.last });
    return this.#answer(past, options);
  }

  clone() {
    const copy = { ...this.#defaults, messages: this.messages };
    return new Chat(this.#ask, copy, this.#prefixes);
  }

  /** @param {() => Past} past up to the question @param {GenerateOptions} options */
  #answer(past, options) {
    checkOptions(options, GENERATE_OPTIONS);
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    /** @type {Past | null} */
    let begun = null;
    return this.#ask(() => {
      if (this.#busy) throw new GemmaError('bad-state', 'this chat is still answering');
      this.#busy = true;
      return begun = past();
    }, { ...this.#defaults, ...Object.fromEntries(given) }, {
      onResult: ({ text, finishReason }, next) => {
        this.#busy = false;
        const { messages, prefix } = /** @type {Past} */ (begun);
        const aborted = finishReason === 'aborted';
        if (aborted && text === '') return;
        const answer = { role: /** @type {const} */ ('assistant'), content: text };
        this.#messages = [...messages, aborted ? { ...answer, aborted } : answer];
        this.#prefixes = { last: prefix, next };
      },
      onError: () => {
        if (begun) this.#busy = false;
      },
    });
  }
}

const ROLES = ['system', 'user', 'assistant', 'model'];

/** @param {any} messages @returns {ChatMessage[]} */
export function checkMessages(messages) {
  checkValue('messages', messages, rule('an array of { role, content }', Array.isArray));
  return messages.map((/** @type {any} */ message, /** @type {number} */ i) => {
    const { role, content, aborted } = message ?? {};
    if (!ROLES.includes(role)) {
      throw new GemmaError('bad-option', `role of message ${i}`,
        { expected: `one of ${ROLES.join(', ')}`, got: show(role) });
    }
    checkValue(`content of message ${i}`, content, string);
    return aborted ? { role, content, aborted } : { role, content };
  });
}
