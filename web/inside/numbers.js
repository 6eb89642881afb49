/**
 * numbers: pure functions of the inspection panel: probabilities from logits, numbers and tokens as texts.
 * @module
 */
import { percent as rounded } from '../shell/format.js';
import { t } from '../shell/language.js';

/** @typedef {{ id: number, text: string }} Token */
/** @typedef {{ temperature: number, topK: number, topP: number }} Sampling */
/** A token that may come next. probability: the model's, after softmax; chance: the probability of being sampled with
 * the current settings.
 * @typedef {{ id: number, logit: number, probability: number, chance: number }} Candidate */

/** Probability below which tokens are left out, because there are hundreds of thousands of tokens. */
const LEAST = 1e-7;

/** Computes the probabilities of being sampled, in the sampler's order: softmax, top-k, top-p, temperature. kept:
 * number of tokens that can be sampled.
 * @param {ArrayLike<number>} logits @param {Sampling} sampling @returns {{ candidates: Candidate[], kept: number }} */
export function chances(logits, { temperature, topK, topP }) {
  const likely = softmax(logits);
  const held = topK > 0 ? likely.slice(0, topK) : likely;
  const within = temperature === 0 ? held.slice(0, 1) : nucleus(held, topP);
  const best = within[0]?.logit ?? 0;
  const weights = within.map(({ logit }) => (temperature === 0 ? 1 : Math.exp((logit - best) / temperature)));
  const total = sum(weights);
  const candidates = likely.map((one, i) => ({ ...one, chance: i < within.length ? weights[i] / total : 0 }));
  const all = temperature > 0 && topK === 0 && topP >= 1;
  return { candidates, kept: all ? logits.length : within.length };
}

/** Returns the likely tokens with their probabilities, likeliest first. @param {ArrayLike<number>} logits */
function softmax(logits) {
  let best = -Infinity;
  let total = 0;
  for (let i = 0; i < logits.length; i++) best = Math.max(best, logits[i]);
  for (let i = 0; i < logits.length; i++) total += Math.exp(logits[i] - best);
  const found = [];
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id];
    const probability = Math.exp(logit - best) / total;
    if (probability >= LEAST) found.push({ id, logit, probability });
  }
  return found.sort((a, b) => b.logit - a.logit || a.id - b.id);
}

/** Returns the likeliest tokens that together reach `share` of the total. @template {{ probability: number }} T
 * @param {T[]} sorted @param {number} share @returns {T[]} */
function nucleus(sorted, share) {
  const total = sum(sorted.map(({ probability }) => probability));
  let reached = 0;
  const end = sorted.findIndex(({ probability }) => (reached += probability) >= share * total);
  return end < 0 ? sorted : sorted.slice(0, end + 1);
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** Probabilities below which a word counts as a little, quite or very unsure. */
export const UNSURE = [0.25, 0.1, 0.03];

/** Returns how unsure a word is, from 0 (not) to 3 (very). @param {number} probability */
export function unsure(probability) {
  return UNSURE.filter((limit) => probability < limit).length;
}

/** Returns the indices of the largest positive numbers, largest first. @param {ArrayLike<number>} numbers
 * @param {number} count */
export function largest(numbers, count) {
  const places = Array.from({ length: numbers.length }, (_, i) => i).filter((i) => numbers[i] > 0);
  return places.sort((a, b) => numbers[b] - numbers[a] || a - b).slice(0, count);
}

/** Returns the size of the sliding window in a file's metadata; 0 if the model has none.
 * @param {{ key: string, value?: unknown }[]} metadata */
export function windowOf(metadata) {
  const found = metadata.find(({ key }) => key.endsWith('.attention.sliding_window'));
  return typeof found?.value === 'number' || typeof found?.value === 'bigint' ? Number(found.value) : 0;
}

/** Returns the integers from `first` to before `end`. @param {number} first @param {number} end */
export function range(first, end) {
  return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
}

/** Returns a share from 0 to 1 as a percentage, with up to two decimals; “< 0.01%” if it is smaller.
 * @param {number} share */
export function percent(share) {
  if (share > 0 && share < 1e-4) return `< ${rounded(1e-4, 2)}`;
  const digits = share >= 0.0995 || share === 0 ? 0 : share >= 0.00995 ? 1 : 2;
  return rounded(share, digits);
}

/** Returns the text of a token with visible white space at its ends, line breaks and tabs. @param {string} text */
export function shown(text) {
  const edges = text.replace(/^ +| +$/g, (blanks) => '·'.repeat(blanks.length));
  return edges.replace(/\n/g, '⏎').replace(/\t/g, '⇥') || t('token.nothing');
}

/** Returns the text of a token as a screen reader should say it. @param {string} text */
export function spoken(text) {
  const core = text.trim();
  if (core) return t('token.quoted', { text: core });
  return t(text.includes('\n') ? 'token.line' : text ? 'token.space' : 'token.none');
}
