/* logprobs: log probabilities in OpenAI's two forms. */
/** @import { AlternativeToken, TokenLogprob } from '../protocol.js' */

/** OpenAI's log probability of impossible tokens, because JSON cannot express -Infinity. */
const LEAST = -9999;

/** Returns text, bytes and log probability of a token. @param {Pick<AlternativeToken, 'bytes' | 'logprob'>} token */
export function tokenOf({ bytes, logprob }) {
  const token = new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(bytes));
  return { token, bytes, logprob: Math.max(logprob, LEAST) };
}

/** Returns log probabilities in the form of chat completions, or null if none were requested.
 * @param {readonly TokenLogprob[]} [list] */
export function chatLogprobs(list) {
  if (!list) return null;
  return { content: list.map((one) => ({ ...tokenOf(one), top_logprobs: one.top.map(tokenOf) })), refusal: null };
}

/** Returns log probabilities in the form of completions, or null if none were requested.
 * @param {readonly TokenLogprob[] | undefined} list
 * @param {number} offset offset of the first token in the text, in UTF-16 code units */
export function completionLogprobs(list, offset) {
  if (!list) return null;
  const tokens = list.map(tokenOf);
  let at = offset;
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    // As in OpenAI's API, the alternatives include the drawn token even if it is not among the most likely ones.
    top_logprobs: list.map(({ top }, i) => {
      return Object.fromEntries([...top.map(tokenOf), tokens[i]].map(({ token, logprob }) => [token, logprob]));
    }),
    text_offset: tokens.map(({ token }) => {
      at += token.length;
      return at - token.length;
    }),
  };
}
