/* logprobs: log probabilities in OpenAI's two forms. */
/** @import { AlternativeToken, TokenLogprob } from '../protocol.js' */

/** OpenAI's value for impossible tokens: JSON has no infinity. */
const LEAST = -9999;

/** @param {Pick<AlternativeToken, 'bytes' | 'logprob'>} token */
function tokenOf({ bytes, logprob }) {
  const token = new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(bytes));
  return { token, bytes, logprob: Math.max(logprob, LEAST) };
}

/** Returns the form of chat completions, null if none were requested. @param {readonly TokenLogprob[]} [list] */
export function chatLogprobs(list) {
  if (!list) return null;
  return { content: list.map((one) => ({ ...tokenOf(one), top_logprobs: one.top.map(tokenOf) })), refusal: null };
}

/** Returns the form of completions, null if none were requested. @param {readonly TokenLogprob[] | undefined} list
 * @param {number} offset of the first token in the text */
export function completionLogprobs(list, offset) {
  if (!list) return null;
  const tokens = list.map(tokenOf);
  let at = offset;
  return {
    tokens: tokens.map(({ token }) => token),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    // As OpenAI does, includes the drawn token if it is not among the likely ones.
    top_logprobs: list.map(({ top }, i) => {
      return Object.fromEntries([...top.map(tokenOf), tokens[i]].map(({ token, logprob }) => [token, logprob]));
    }),
    text_offset: tokens.map(({ token }) => {
      at += token.length;
      return at - token.length;
    }),
  };
}
