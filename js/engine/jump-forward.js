/* Jump-forward tokens: the only ones that a grammar allows next: appended without drawing, evaluated in one
 * batch with the tokens before them. They are those that the tokenizer gives for the text so far wherever it cuts that text
 * behind the last token; the last one of them is left to the model where a token may reach beyond the forced text
 * (gw_matcher_joins says when). */

/** @import { Engine } from './engine.js' */
/** @import { Matcher } from './grammar.js' */

/** Tokens before, which the tokenizer sees with what is forced. */
const SEEN = 4;

/** Ids, none where nothing is forced; `tokens` are those of the answer so far, of which none is a control token.
 * @param {Engine} native @param {Matcher} matcher @param {number[]} tokens @returns {number[]} */
export function jumpForwardTokens(native, matcher, tokens) {
  const forced = wholeCharacters(matcher.forced());
  if (!forced.length) return [];
  const { ids, text } = tokenised(native, tokens, forced);
  return matcher.joins(text, forced.length) ? ids.slice(0, -1) : ids;
}

/** @param {Engine} native @param {number[]} tokens @param {Uint8Array} forced */
function tokenised(native, tokens, forced) {
  for (let seen = Math.min(SEEN, tokens.length); seen > 0; seen--) {
    const last = tokens.slice(-seen);
    const parts = last.map((id) => native.decode(id, false, id));
    if (parts.some((part) => !part.length)) continue;
    const text = joined([...parts, forced]);
    const ids = Array.from(native.encodeMore(text));
    if (last.every((id, i) => ids[i] === id)) return { ids: ids.slice(seen), text };
  }
  return { ids: Array.from(native.encodeMore(forced)), text: forced };
}

/** Without the beginning of a character at the end. @param {Uint8Array} bytes */
function wholeCharacters(bytes) {
  let at = bytes.length - 1;
  while (at >= 0 && bytes.length - at < 4 && (bytes[at] & 0xc0) === 0x80) at--;
  const lead = at < 0 ? 0 : bytes[at];
  const size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return lead >= 0xc0 && bytes.length - at < size ? bytes.subarray(0, at) : bytes;
}

/** @param {Uint8Array[]} parts */
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
