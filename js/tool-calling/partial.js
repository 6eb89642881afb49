/* partial: parses incomplete JSON, for callers that render an answer while it streams. Incomplete strings are included;
 * incomplete numbers and literals (true, false, null) are not, because the beginning of a number is another number. */

/** Matches a number, true, false or null. */
const BARE = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const BLANK = /[ \t\n\r]*/y;
/** Matches an incomplete escape sequence at the end of a text. */
const HALF_ESCAPE = /^((?:[^\\]|\\[^])*?)\\(?:u[0-9a-fA-F]{0,3})?$/;

/** An object or array that is not closed yet. key: name of the next property.
 * @typedef {{ value: any, key: string | null }} Frame */

/** Returns the value of an incomplete JSON text; undefined if no value has begun. @param {string} text
 * @returns {any} */
export function partialJson(text) {
  const reader = new Reader(text);
  while (reader.step());
  return reader.root;
}

class Reader {
  /** @type {any} */
  root = undefined;
  #text;
  #at = 0;
  /** @type {Frame[]} */
  #open = [];
  #done = false;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  /** Reads one token. Returns false at the end of the text. */
  step() {
    this.#take(BLANK);
    const c = this.#text[this.#at];
    const frame = this.#open.at(-1);
    if (c === undefined || this.#done) return false;
    if (c === '"') return this.#string(frame);
    if (c === '{' || c === '[') return this.#push(c === '{' ? {} : []);
    if (c === '}' || c === ']') return this.#pop();
    if (c === ',' || c === ':') return Boolean(frame && ++this.#at);
    return this.#bare();
  }

  /** @param {RegExp} sticky */
  #take(sticky) {
    sticky.lastIndex = this.#at;
    const [found = ''] = sticky.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }

  /** Reads a number or a literal. Ignores a number at the end of the text, because more digits may follow. */
  #bare() {
    const found = this.#take(BARE);
    if (!found || (/\d$/.test(found) && !/[\s,\]}]/.test(this.#text.charAt(this.#at)))) return false;
    return this.#put(JSON.parse(found));
  }

  /** @param {object} value */
  #push(value) {
    this.#at++;
    if (!this.#put(value)) return false;
    this.#done = false;
    this.#open.push({ value, key: null });
    return true;
  }

  #pop() {
    this.#at++;
    this.#open.pop();
    this.#done = !this.#open.length;
    return true;
  }

  /** @param {Frame | undefined} frame */
  #string(frame) {
    const end = stringEnd(this.#text, this.#at);
    const whole = end < this.#text.length;
    const value = decoded(this.#text.slice(this.#at + 1, end), whole);
    this.#at = Math.min(end + 1, this.#text.length);
    if (value === undefined) return false;
    if (!frame || Array.isArray(frame.value) || frame.key !== null) return this.#put(value);
    frame.key = value;
    return whole;
  }

  /** @param {any} value */
  #put(value) {
    const frame = this.#open.at(-1);
    if (!frame) {
      this.root = value;
      return (this.#done = true);
    }
    if (Array.isArray(frame.value)) return frame.value.push(value) > 0;
    if (frame.key === null) return false;
    // Defines the property, so that `__proto__` is an ordinary name, as in JSON.parse.
    Object.defineProperty(frame.value, frame.key, { value, writable: true, enumerable: true, configurable: true });
    frame.key = null;
    return true;
  }
}

/** Returns the offset of the quote that closes a string; if it is missing, the length of the text or more.
 * @param {string} text @param {number} from offset of the opening quote */
export function stringEnd(text, from) {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** Decodes the text between the quotes of a JSON string. If the string is incomplete (not `whole`), drops a lone
 * high surrogate at its end.
 * @param {string} raw @param {boolean} whole */
function decoded(raw, whole) {
  const body = whole ? raw : raw.replace(HALF_ESCAPE, '$1');
  try {
    const value = /** @type {string} */ (JSON.parse(`"${body}"`));
    return whole ? value : value.replace(/[\ud800-\udbff]$/, '');
  } catch {
    return undefined;
  }
}
