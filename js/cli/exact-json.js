/* exact-json: parses and writes JSON without rounding large integers, which become BigInts. */
import { notJson } from './errors.js';

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** Prefix of strings that stand for large integers while JSON is parsed. JSON text cannot contain its first character
 * unescaped. */
const MARK = '\u0000integer ';

/** @param {string} token */
function marked(token) {
  const large = /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
  return large ? JSON.stringify(MARK + token) : token;
}

/** Parses JSON; large integers become BigInts. Throws `bad-format`. @param {string} text @param {string} name of the
 * source, for messages
 * @returns {any} */
export function parseExactly(text, name) {
  try {
    return JSON.parse(text.replace(TOKENS, marked), (_, value) =>
      typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
    );
  } catch (error) {
    throw notJson(name, error);
  }
}

/** Returns a value as JSON, with BigInts as integers. @param {any} value @param {number} [indent] */
export function stringifyExactly(value, indent) {
  const text = JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? MARK + one : one), indent);
  return text.replace(/"\\u0000integer (-?\d+)"/g, '$1');
}
