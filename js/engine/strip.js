/* strip: Python's str.strip(), which chat templates rely on. */

/** White space in Python: as in JavaScript, plus U+001C to U+001F and U+0085, minus U+FEFF. */
const BLANK = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
/** Returns a text without white space, or without the given characters, at its ends. @param {string} text
 * @param {'both' | 'left' | 'right'} [ends] @param {string} [characters] */
export function strip(text, ends = 'both', characters) {
  const some = characters === undefined ? null : new Set(characters);
  const goes = (/** @type {string} */ c) => (some ? some.has(c) : BLANK.test(c));
  let start = 0;
  let { length: end } = text;
  if (ends !== 'right') while (start < end && goes(text[start])) start++;
  if (ends !== 'left') while (end > start && goes(text[end - 1])) end--;
  return text.slice(start, end);
}
