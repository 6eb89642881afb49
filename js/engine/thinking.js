/* thinking: the table of how models mark thoughts in an answer. Adding a family of models is adding a row. */

/** The marks of one family's thoughts. begin, end: names of the tokens around a thought; head: text behind `begin` that
 * is not part of the thought; close: text that a forced end writes before `end`; gap: text between `end` and the answer.
 * @typedef {{ begin: string, end: string, head: string, close: string, gap: string }} ThoughtMarks */

/** @type {ThoughtMarks[]} */
const MARKS = [
  { begin: '<|channel>', end: '<channel|>', head: 'thought\n', close: '', gap: '' }, // Gemma 4
  { begin: '<think>', end: '</think>', head: '\n', close: '\n', gap: '\n\n' }, // Qwen3, SmolLM3
];

/** Variable of chat templates that turns thinking on or off. */
export const SWITCH = 'enable_thinking';

/** Returns the marks that a vocabulary has, undefined if it has none.
 * @param {(name: string) => number | null} idOf the token of a name */
export function thoughtMarks(idOf) {
  return MARKS.find(({ begin, end }) => idOf(begin) !== null && idOf(end) !== null);
}
