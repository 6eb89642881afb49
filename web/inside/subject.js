/**
 * subject: what is looked at, as the model reads it: an answer behind all that was said before it, or a text of
 * one's own.
 * @module
 */
import { PageError } from '../shell/errors.js';
import { count } from '../shell/format.js';
import { range } from './numbers.js';

/** @typedef {import('../../js/index.js').Model} Model */
/** @typedef {import('../../js/protocol.js').GenerateResult} GenerateResult */
/** @typedef {import('../history/tree.js').Said} Said */
/** @typedef {import('./numbers.js').Token} Token */
/** @typedef {Conversation['answers'][number]} ShownAnswer */
/** @typedef {import('../chat/conversation.js').Conversation} Conversation */

/** All that the model reads, as tokens; start: where the answer begins, of a text of one's own its second token.
 * @typedef {{ tokens: Token[], ids: number[], start: number, said: Said | null }} Subject */

/**
 * What the page gives to the drawer.
 * @typedef {object} Host
 * @property {() => Model | null} model
 * @property {() => Conversation['answers']} answers   answers on screen
 * @property {() => string} message                    the last message
 * @property {() => boolean} busy                      an answer is being made
 * @property {() => import('./numbers.js').Sampling} options   of the next draw
 * @property {Conversation['continueFrom']} continueFrom
 */

/** Selections in the views; -1: none yet.
 * @typedef {{ word: number, span: number, end: number, token: number, layer: number, head: number, walk: number,
 *   step: number, text: string | undefined }} Choices */

/**
 * Input of a view.
 * @typedef {object} Look
 * @property {Model} model
 * @property {Subject} subject
 * @property {HTMLElement} panel
 * @property {AbortSignal} signal   aborts when another view is chosen
 * @property {Host} host
 * @property {Choices} choices
 * @property {(task: (signal: AbortSignal) => Promise<void>) => void} run   aborts the running task first
 * @property {(focus?: string) => void} again   renders the view again and focuses the element that `focus` selects
 */

/** An answer. Its own tokens, if it was made here; else those that its text has.
 * @param {Model} model @param {ShownAnswer} answer @param {AbortSignal} signal @returns {Promise<Subject>} */
export async function ofAnswer(model, { said, told, made }, signal) {
  const before = await model.inside(told, { layers: [], signal });
  const prompt = before.tokens.map(({ id }) => id);
  const kept = made?.tokens ?? [];
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
  const layers = [model.info.layers - 1];
  const positions = range(first - 1, ids.length - 1);
  const seen = await model.inside(ids, { layers, positions, lens, signal });
  return seen.layers[0].lens ?? [];
}
