/**
 * subject: the inspected text, as the model reads it: an answer after its prompt, or a custom text.
 * @module
 */
import { PageError } from '../shell/errors.js';
import { t } from '../shell/language.js';
import { range } from './numbers.js';

/** @import { Model } from '../../js/index.js' */
/** @import { Said } from '../history/tree.js' */
/** @import { Token } from './numbers.js' */
/** @import { Conversation } from '../chat/conversation.js' */
/** @typedef {Conversation['answers'][number]} ShownAnswer */

/** The inspected text. start: index of the answer's first token, or 1 in a custom text, whose first token nothing
 * predicts.
 * @typedef {{ tokens: Token[], ids: number[], start: number, said: Said | null }} Subject */

/** Selections in the views of the inspection panel; -1: none yet. word, token, walk: index of the token chosen in the
 * view words, attention or walk; span, end: number of tokens in the view layers, and the index after the last; step:
 * of the view walk; text: of the view tokens.
 * @typedef {{ word: number, span: number, end: number, token: number, layer: number, head: number, walk: number,
 *   step: number, text: string | undefined }} Choices */

/**
 * Input of a view of the inspection panel.
 * @typedef {object} Look
 * @property {Model} model
 * @property {Subject} subject
 * @property {HTMLElement} panel
 * @property {AbortSignal} signal   aborts when another view is chosen
 * @property {Conversation} conversation
 * @property {Choices} choices
 * @property {(task: (signal: AbortSignal) => Promise<void>) => void} run   runs a task after aborting the current one
 * @property {(focus?: string) => void} again   renders the view again and focuses the element that `focus` selects
 */

/** Returns an answer with its generated tokens or, if they are unknown, the tokens of its text.
 * @param {Model} model @param {ShownAnswer} answer @param {AbortSignal} signal @returns {Promise<Subject>} */
export async function ofAnswer(model, { said, told, made }, signal) {
  const before = await model.debug.inside(told, { layers: [], signal });
  const prompt = before.tokens.map(({ id }) => id);
  const kept = made?.tokens ?? [];
  const own =
    (await textBehind(model, prompt, kept, signal)) === said.text ? kept : await model.tokenize(said.text, { signal });
  const ids = [...prompt, ...own];
  const { tokens } = await model.debug.inside(ids, { layers: [], signal });
  return fitting(model, { tokens, ids, start: before.tokens.length, said });
}

/** Returns the text that `ids` add after `before`. The tokens before can change how they are decoded.
 * @param {Model} model @param {number[]} before @param {number[]} ids @param {AbortSignal} [signal] */
export async function textBehind(model, before, ids, signal) {
  const lists = [before, [...before, ...ids]];
  const [lead, all] = await Promise.all(lists.map((list) => model.detokenize(list, { signal })));
  return all.slice(lead.length);
}

/** Returns a custom text as the model reads it. Throws a PageError if it is longer than the context.
 * @param {Model} model @param {string} text @param {AbortSignal} signal @returns {Promise<Subject>} */
export async function ofText(model, text, signal) {
  const { tokens } = await model.debug.inside(text, { layers: [], signal });
  return fitting(model, { tokens, ids: tokens.map(({ id }) => id), start: 1, said: null });
}

/** @param {Model} model @param {Subject} subject */
function fitting({ info }, subject) {
  const { length } = subject.ids;
  if (length <= info.contextLength) return subject;
  throw new PageError('inside.too-long', { tokens: t('tokens', { n: length }), n: info.contextLength });
}

/** Returns the `lens` likeliest tokens at each position from `first` on.
 * @param {Model} model @param {Subject} subject @param {number} first @param {number} lens
 * @param {AbortSignal} signal */
export async function expected(model, { ids }, first, lens, signal) {
  const layers = [model.info.layers - 1];
  const positions = range(first - 1, ids.length - 1);
  const seen = await model.debug.inside(ids, { layers, positions, lens, signal });
  return seen.layers[0].lens ?? [];
}
