/* prefix: finds the beginning of a conversation that the next turn can reuse from the KV cache. */
import { joined } from './heap.js';
import { strip } from './strip.js';
/** @import { GenerateAnswer, GenerateArgs } from '../protocol.js' */
/** Returns the last `count` bytes (at most three) of the text of token ids.
 * @param {{ bytes: (id: number, before: number) => Uint8Array }} encoder @param {number[]} ids @param {number} count */
export function lastBytes(encoder, ids, count) {
  const from = Math.max(ids.length - 4, 0);
  const parts = ids.slice(from).map((id, i) => encoder.bytes(id, ids[from + i - 1] ?? -1));
  return parts.reduce(joined, new Uint8Array()).slice(-count);
}

/** An answer with its prompt. marked: text of the prompt with sentinels (template.js); assembler.cut: bytes of an
 * incomplete character at the end of the text; thoughts.cut: whether thoughts end inside a character.
 * @typedef {{ assembler: { text: string, cut: number }, native: { stateName: string },
 *   encoder: { decode: (ids: number[], special: boolean, before?: number) => string },
 *   thoughts: { text: string, cut: boolean } | null, marked?: string, prompt: number[], tokens: number[],
 *   args: GenerateArgs }} Answer */

/** Returns the prefix that the next turn can reuse: the prompt with this answer, without white space at the end, which
 * templates trim. Returns the reason (`why`) if there is no such prefix.
 * @param {(marked: string, thought: string, text: string) => string} answered returns a prompt followed by an answer
 * @param {Answer} answer @param {string} finishReason @returns {Pick<GenerateAnswer, 'prefix' | 'why'>} */
export function prefixOf(
  answered,
  { assembler, native, encoder, thoughts, marked = '', prompt, tokens, args },
  finishReason,
) {
  if (finishReason === 'stop-sequence') return { why: 'ends at a stop sequence' };
  if (thoughts?.cut) return { why: 'ends inside a character of a thought' };
  const { begin = '', thought = '' } = 'messages' in args.prompt ? args.prompt : {};
  const { cut } = assembler;
  const text = begin + assembler.text;
  const { stateName: of } = native;
  const said = (/** @type {string} */ answer) => answered(marked, thought + (thoughts?.text ?? ''), answer);
  if (cut) return { prefix: { of, text: said(text), ids: [...prompt, ...tokens], cut } };
  const answer = strip(text);
  const kept = tokens.slice();
  let { length } = text;
  while (length > answer.length && kept.length) {
    const last = kept.splice(-1);
    length -= encoder.decode(last, false, kept.at(-1) ?? prompt.at(-1)).length;
  }
  if (!text.startsWith(answer) || length !== answer.length)
    return { why: 'differs from the text that the chat template writes' };
  return { prefix: { of, text: said(answer), ids: [...prompt, ...kept] } };
}
