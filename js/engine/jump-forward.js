/* jump-forward: finds the tokens that a grammar leaves no choice about. They are appended without sampling and
 * evaluated in one batch with the tokens before them.
 *
 * The grammar determines the next bytes, and the tokenizer converts these to tokens, together with the text of the
 * latest tokens. The last new token is not used if a longer token could begin at the same position and extend
 * beyond these bytes (gw_match_joins): then the model chooses. */

/** @import { Engine } from './engine.js' */
/** @import { Matcher } from './grammar.js' */
import { joined } from './heap.js';

/** Maximum number of previous tokens whose text is tokenized together with the bytes that the grammar requires. */
const SEEN = 4;

/** Returns the jump-forward tokens at the matcher's position, none if the model has a choice.
 * @param {Engine} native @param {Matcher} matcher @param {number[]} tokens of the answer so far, without control tokens
 * @returns {number[]} */
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
    const text = [...parts, forced].reduce(joined);
    const ids = Array.from(native.encodeMore(text));
    if (last.every((id, i) => ids[i] === id)) return { ids: ids.slice(seen), text };
  }
  return { ids: Array.from(native.encodeMore(forced)), text: forced };
}

/** Returns bytes without an incomplete UTF-8 character at their end. @param {Uint8Array} bytes */
function wholeCharacters(bytes) {
  let at = bytes.length - 1;
  while (at >= 0 && bytes.length - at < 4 && (bytes[at] & 0xc0) === 0x80) at--;
  const lead = at < 0 ? 0 : bytes[at];
  const size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return lead >= 0xc0 && bytes.length - at < size ? bytes.subarray(0, at) : bytes;
}
