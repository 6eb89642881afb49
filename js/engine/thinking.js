/* thinking: the table of tokens with which model families mark thoughts in an answer. A new family needs only a new
 * row. */

/** How one family marks thoughts. begin, end: names of the tokens around a thought; head: text after `begin` that is
 * not part of the thought; close: text to write before `end` if a thought is ended early; gap: text between `end` and
 * the answer.
 * @typedef {{ begin: string, end: string, head: string, close: string, gap: string }} ThoughtMarks */

/** @type {ThoughtMarks[]} */
const MARKS = [
  { begin: '<|channel>', end: '<channel|>', head: 'thought\n', close: '', gap: '' }, // Gemma 4
  { begin: '<think>', end: '</think>', head: '\n', close: '\n', gap: '\n\n' }, // Qwen3, SmolLM3
];

/** Variable of chat templates that turns thinking on or off. */
export const SWITCH = 'enable_thinking';

/** Returns the marks whose tokens the vocabulary has, or undefined if there are none.
 * @param {(name: string) => number | null} idOf returns the token with a name */
export function thoughtMarks(idOf) {
  return MARKS.find(({ begin, end }) => idOf(begin) !== null && idOf(end) !== null);
}
