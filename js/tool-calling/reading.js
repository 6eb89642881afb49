/* reading: answers that may hold calls, token by token. Calls are recognised by token ids: text that reads like a control token is
 * text. What a dialect makes of an answer is asked for again at each step, so that it can be shown while it comes. */
import { partialJson } from './partial.js';
/** @import { PartialCall as Call } from '../protocol.js' */

/** An argument's text is never a mark: `text` came as text, `mark` as the token of that name.
 * @typedef {{ text: string } | { mark: string }} Item */
/** What an answer says so far. @typedef {{ text: string, calls: Call[] }} Said */
/** spelt: marks that this vocabulary has no token for, so that they come as text.
 * @typedef {(items: Item[], spelt: string[]) => Said} Parse */

/** Of one answer. */
export class CallReader {
  #marks;
  #spelt;
  #parse;
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  /** @type {Item[]} */
  #items = [];
  #shown = 0;
  /** @type {Said} */
  said = { text: '', calls: [] };

  /** @param {string[]} marks names of tokens that mean something @param {(name: string) => number | null} id
   * @param {Parse} parse */
  constructor(marks, id, parse) {
    this.#spelt = marks.filter((name) => id(name) === null);
    this.#marks = new Map(
      marks.flatMap((name) => {
        const mark = id(name);
        return mark === null ? [] : [/** @type {const} */ ([mark, name])];
      }),
    );
    this.#parse = parse;
  }

  /** The text that can be shown since the last time. @param {number} id @param {Uint8Array} bytes what it stands for */
  add(id, bytes) {
    const mark = this.#marks.get(id);
    const last = this.#items.at(-1);
    const text = mark === undefined ? this.#decoder.decode(bytes, { stream: true }) : '';
    if (mark !== undefined) this.#items.push({ mark });
    else if (last && 'text' in last) last.text += text;
    else this.#items.push({ text });
    this.said = this.#parse(this.#items, this.#spelt);
    const fresh = this.said.text.slice(this.#shown);
    this.#shown += fresh.length;
    return fresh;
  }
}

/** The items as one text, and where marks stand in it. @param {Item[]} items */
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

/** Where the JSON object that begins at a place ends; -1: not yet. @param {string} text @param {number} from */
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

/** @param {string} text @param {number} from a quote */
function stringEnd(text, from) {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** A call as an object of a name and arguments. @param {any} value @param {string} field @param {boolean} done
 * @returns {Call[]} none before its name is there */
export function callOf(value, field, done) {
  if (typeof value?.name !== 'string' || (!done && !(field in value))) return [];
  return [{ name: value.name, arguments: value[field] ?? {}, done }];
}

/** JSON objects one after the other, and what stands between them; from a place on.
 * @param {string} text @param {number} from @param {string} field @returns {{ calls: Call[], end: number }} */
export function jsonCall(text, from, field) {
  const end = objectEnd(text, from);
  const value = partialJson(end < 0 ? text.slice(from) : text.slice(from, end));
  return { calls: callOf(value, field, end >= 0), end };
}
