/* reading: separates the calls of an answer from its text, token by token. Recognises the delimiters of calls by token
 * ids, so text that spells a control token stays text. Parses the whole answer at each step, so that callers can show
 * partial calls. */
import { partialJson, stringEnd } from './partial.js';
/** @import { PartialCall as Call, PostedMessage, ToolCall } from '../protocol.js' */

/** A part of an answer: text, or the name of a token that delimits calls.
 * @typedef {{ text: string } | { mark: string }} Item */
/** @typedef {{ text: string, calls: Call[] }} ParsedAnswer */
/** Parses an answer. spelled: delimiters that have no token in the vocabulary, so that the model spells them as text.
 * @typedef {(items: Item[], spelled: string[]) => ParsedAnswer} Parse */

/** Reads one answer that may call tools. */
export class CallReader {
  #marks;
  #spelled;
  #parse;
  #openings;
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  /** @type {Item[]} */
  #items = [];
  #shown = 0;
  /** @type {ParsedAnswer} */
  parsed = { text: '', calls: [] };

  /** @param {{ marks: string[], parse: Parse, stop?: string }} dialect @param {(name: string) => number | null} id
   * @param {string[] | null} [openings] texts or tokens with which an answer with calls begins; null if answers
   *   without calls follow no format */
  constructor({ marks, parse, stop }, id, openings = null) {
    /** Id of the token that ends an answer with calls, null if there is none. */
    this.stop = stop ? id(stop) : null;
    this.#openings = openings?.filter((name) => id(name) === null) ?? null;
    this.#spelled = marks.filter((name) => id(name) === null);
    this.#marks = new Map(
      marks.flatMap((name) => {
        const mark = id(name);
        return mark === null ? [] : [/** @type {const} */ ([mark, name])];
      }),
    );
    this.#parse = parse;
  }

  /** Appends a token. Returns the text that can now be shown. @param {number} id
   * @param {Uint8Array} bytes of the token */
  add(id, bytes) {
    const mark = this.#marks.get(id);
    const last = this.#items.at(-1);
    const text = mark === undefined ? this.#decoder.decode(bytes, { stream: true }) : '';
    if (mark !== undefined) this.#items.push({ mark });
    else if (last && 'text' in last) last.text += text;
    else this.#items.push({ text });
    const calls = this.#calls();
    if (calls) this.parsed = this.#parse(this.#items, this.#spelled);
    else if (calls === false) this.parsed.text = flat(this.#items).text;
    return this.#fresh(calls ? this.#spelled : []);
  }

  /** Ends the answer. Returns the text that add() held back because a call could have begun with it. */
  end() {
    if (this.#calls() === null) this.parsed.text = flat(this.#items).text;
    return this.#fresh();
  }

  /** Returns the text that was not shown yet, except a last part that may be the beginning of a delimiter.
   * @param {string[]} [delimiters] */
  #fresh(delimiters = []) {
    const { text } = this.parsed;
    const begun = delimiters.map((name) => {
      let length = name.length - 1;
      while (!text.endsWith(name.slice(0, length))) length--;
      return length;
    });
    const fresh = text.slice(this.#shown, text.length - Math.max(0, ...begun));
    this.#shown += fresh.length;
    return fresh;
  }

  /** Returns whether to look for calls in the answer, or null if that depends on further tokens. */
  #calls() {
    const [first] = this.#items;
    if (!this.#openings || !first || 'mark' in first) return true;
    const { text } = first;
    if (this.#openings.some((opening) => text.startsWith(opening))) return true;
    return this.#openings.some((opening) => opening.startsWith(text)) ? null : false;
  }

  /** Returns the complete calls. Their ids continue those of the conversation. @param {PostedMessage[]} messages
   * @returns {ToolCall[]} */
  completeCalls(messages) {
    // Uses the highest number in a call's id, not the number of calls, because earlier messages may have been removed.
    const before = messages
      .flatMap(({ toolCalls = [] }) => toolCalls)
      .reduce((next, { id }) => Math.max(next, Number(/^call_(\d{1,9})$/.exec(id)?.[1] ?? next)) + 1, 0);
    const calls = this.parsed.calls.filter(({ done }) => done);
    return calls.map(({ name, arguments: args }, i) => ({ id: `call_${before + i}`, name, arguments: args }));
  }
}

/** Joins the parts of an answer to one text. Returns the text, and the names of delimiters by their offset in it.
 * @param {Item[]} items */
export function flat(items) {
  /** @type {Map<number, string>} */
  const marks = new Map();
  let text = '';
  for (const item of items) {
    if ('mark' in item) marks.set(text.length, item.mark);
    text += 'mark' in item ? item.mark : item.text;
  }
  return { text, marks };
}

/** Returns the end of the JSON object that begins at an offset, or -1 if it is incomplete. @param {string} text
 * @param {number} from */
export function objectEnd(text, from) {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '"') at = stringEnd(text, at);
    else if (c === '{' || c === '[') depth++;
    else if ((c === '}' || c === ']') && --depth === 0) return at + 1;
  }
  return -1;
}

/** Returns the call that a JSON object describes. @param {any} value @param {string} field name of the property with
 * the arguments @param {boolean} done whether the call is complete
 * @returns {Call[]} none until the name is complete */
export function callOf(value, field, done) {
  if (typeof value?.name !== 'string' || (!done && !(field in value))) return [];
  return [{ name: value.name, arguments: value[field] ?? {}, done }];
}

/** Returns the calls that JSON objects in a text describe. @param {string} text @param {string} field name of the
 * property with the arguments @param {(from: number) => number} next returns the offset of the next object, or of the
 * delimiter before it, at or after `from`; -1 if there is none @returns {Call[]} */
export function jsonCallsIn(text, field, next) {
  const calls = [];
  for (let at = next(0); at >= 0; ) {
    const end = objectEnd(text, at);
    const value = partialJson(text.slice(text.indexOf('{', at), end < 0 ? undefined : end));
    calls.push(...callOf(value, field, end >= 0));
    at = end < 0 ? -1 : next(end);
  }
  return calls;
}
