/**
 * inside-subject: what is looked at, as the model reads it: an answer behind all that was said before it, or a text of
 * one's own.
 * @module
 */
import { PageError } from './errors.js';
import { count } from './format.js';
import { range } from './inside-numbers.js';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('../js/generation.js').GenerateResult} GenerateResult */
/** @typedef {import('./tree.js').Said} Said */
/** @typedef {import('./inside-numbers.js').Token} Token */
/** @typedef {Conversation['answers'][number]} ShownAnswer */
/** @typedef {import('./conversation.js').Conversation} Conversation */

/** All that the model reads, as tokens; start: where the answer begins, of a text of one's own its second token.
 * @typedef {{ tokens: Token[], ids: number[], start: number, said: Said | null }} Subject */

/** An answer. Its own tokens, if it was made here; else those that its text has.
 * @param {Model} model @param {ShownAnswer} answer @param {AbortSignal} signal @returns {Promise<Subject>} */
export async function ofAnswer(model, { said, told, made }, signal) {
  const before = await model.inside(told, { layers: [], signal });
  const prompt = before.tokens.map(({ id }) => id),
    kept = made?.tokens ?? [];
  const own =
    (await textBehind(model, prompt, kept, signal)) === said.text ? kept : await model.tokenize(said.text, { signal });
  const ids = [...prompt, ...own];
  const { tokens } = await model.inside(ids, { layers: [], signal });
  return fitting(model, { tokens, ids, start: before.tokens.length, said });
}

/** The text of tokens that stand behind others. @param {Model} model @param {number[]} before @param {number[]} ids
 * @param {AbortSignal} [signal] */
export async function textBehind(model, before, ids, signal) {
  const lists = [before, [...before, ...ids]];
  const [lead, all] = await Promise.all(lists.map((list) => model.detokenize(list, { signal })));
  return all.slice(lead.length);
}

/** @param {Model} model @param {string} text @param {AbortSignal} signal @returns {Promise<Subject>} */
export async function ofText(model, text, signal) {
  const { tokens } = await model.inside(text, { layers: [], signal });
  return fitting(model, { tokens, ids: tokens.map(({ id }) => id), start: 1, said: null });
}

/** @param {Model} model @param {Subject} subject */
function fitting({ info }, subject) {
  const { length } = subject.ids;
  if (length <= info.contextLength) return subject;
  throw new PageError(
    'This is too long to be looked into.',
    `It has ${count(length)} tokens; the context that this model was loaded with holds ${count(info.contextLength)}.`,
  );
}

/** What the model would have said at each token from `first` on, before it came.
 * @param {Model} model @param {Subject} subject @param {number} first @param {number} lens
 * @param {AbortSignal} signal */
export async function expected(model, { ids }, first, lens, signal) {
  const layers = [model.info.layers - 1],
    positions = range(first - 1, ids.length - 1);
  const seen = await model.inside(ids, { layers, positions, lens, signal });
  return seen.layers[0].lens ?? [];
}
