/**
 * words: a view of how sure the model was of each word, and of alternatives to continue from.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { UNSURE, percent, spoken, unsure } from './numbers.js';
import { Strip, bars, hint } from './parts.js';
import { expected, textBehind } from './subject.js';

/** @import { Look } from './subject.js' */
/** @typedef {{ id: number, text: string, probability: number }} Likely */

/** Numbers of alternative tokens that are computed (LENS) and shown (SHOWN). */
const LENS = 16;
const SHOWN = 8;
const MOST = 400;
/** Matches a token that holds only a part of a character. */
const HALF = /\ufffd/;

/** Renders the view of the last tokens, MOST at most. Selects the least sure one unless another was selected.
 * @param {Look} look */
export async function showWords(look) {
  const { model, subject, panel, signal, choices } = look;
  const { tokens } = subject;
  const first = Math.max(subject.start, tokens.length - MOST);
  if (first >= tokens.length) return void panel.replaceChildren(hint(t('words.none')));
  const others = el('div.others');
  /** @type {Likely[][]} */
  let seen = [];
  const choose = (/** @type {number} */ at) => {
    choices.word = at;
    others.replaceChildren(...alternatives(look, at, seen[at - first]));
  };
  const strip = new Strip(t('words.select'), tokens, choose, first);
  const said = el('p', t('words.about'));
  panel.replaceChildren(said, strip.element, others);
  seen = await expected(model, subject, first, LENS, signal);
  const found = seen.map((likely, i) => probabilityOf(likely, tokens[first + i].id));
  found.forEach((one, i) => strip.mark(first + i, { ...words(one), data: { p: one.probability } }));
  said.append(' ', summary(found), first > subject.start ? ` ${t('words.last', { n: MOST })}` : '');
  const at = choices.word >= first && choices.word < tokens.length ? choices.word : first + least(found);
  strip.choose(at);
  choose(at);
}

/** Returns a token's probability. atMost: whether the number is an upper bound, because the token is not among the
 * likeliest. @param {Likely[]} likely @param {number} id */
function probabilityOf(likely, id) {
  const own = likely.find((one) => one.id === id);
  return own
    ? { probability: own.probability, atMost: false }
    : { probability: likely.at(-1)?.probability ?? 0, atMost: true };
}

/** @param {{ probability: number, atMost: boolean }} found */
function words({ probability, atMost }) {
  const share = percent(probability);
  return { name: atMost ? t('less-than', { share }) : share, className: `unsure-${unsure(probability)}` };
}

/** @param {{ probability: number }[]} found */
function summary(found) {
  const below = (/** @type {number} */ limit) => found.filter(({ probability }) => probability < limit).length;
  const [limit, , least] = UNSURE;
  const [all, few] = [t('tokens', { n: found.length }), below(least)];
  return t('words.summary', { n: below(limit), all, limit: percent(limit), few, least: percent(least) });
}

/** @param {{ probability: number }[]} found */
function least(found) {
  return found.reduce((best, { probability }, i) => (probability < found[best].probability ? i : best), 0);
}

/** @param {Look} look @param {number} at @param {Likely[] | undefined} likely */
function alternatives(look, at, likely) {
  if (!likely) return [];
  const {
    subject: { tokens, said },
    model,
  } = look;
  const own = tokens[at];
  const token = spoken(own.text);
  const half = at > look.subject.start && HALF.test(tokens[at - 1].text);
  const rows = likely.slice(0, SHOWN).map(({ id, text, probability }) => {
    const ends = model.info.endTokens.includes(id);
    const chosen = id === own.id;
    const note = chosen ? t('words.chosen') : ends ? t('words.end') : '';
    const goesOn = said && !chosen && !ends && !half && !HALF.test(text);
    const button = goesOn ? continueButton(look, at, { id, text }) : undefined;
    return { id, text, share: probability, chosen, note, button };
  });
  const rest = likely.slice(0, SHOWN).some(({ id }) => id === own.id)
    ? []
    : [hint(t('words.picked', { token, share: words(probabilityOf(likely, own.id)).name }))];
  const title = el('h3', t(said ? 'words.replace' : 'words.others', { token }));
  return [title, bars(t('words.others', { token }), rows), ...rest];
}

/** @param {Look} look @param {number} at @param {import('./numbers.js').Token} other */
function continueButton({ conversation, model, subject }, at, other) {
  const { said, ids, start } = subject;
  const go = async () => {
    const begin = await textBehind(model, ids.slice(0, start), [...ids.slice(start, at), other.id]).catch(() => '');
    if (said && begin) conversation.continueFrom(said, begin);
  };
  return action(t('continue'), () => void go(), 'small quiet', t('words.continue', { token: spoken(other.text) }));
}
