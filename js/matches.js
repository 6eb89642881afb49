/* matches: implements model.debug.matches(): checks a text against a format and measures how long the token masks take.
 * Loaded on first use. */
/** @import { Callable, Matches } from './protocol.js' */
/** @import { Format } from './options.js' */
import { GENERATE_OPTIONS, checkOptions, checkValue, copied, postableFormat, signal, string } from './options.js';
import { convert } from './schemas.js';

/** Times of the token masks of a format, in milliseconds.
 * @typedef {object} MaskTimes
 * @property {number} count Number of masks.
 * @property {number} mean Mean time.
 * @property {number} p50 Median.
 * @property {number} p99 99th percentile.
 * @property {number} first Time to compile the format and compute the first mask.
 */
/** The result of checking a text against a format.
 * @typedef {object} Match
 * @property {boolean} compiled Whether the format could be compiled.
 * @property {string} [reason] Why the format could not be compiled.
 * @property {boolean} accepted Whether the text matches.
 * @property {number} [refusedAt] Offset of the first refused token in the text; the text's length if it ends too early.
 * @property {MaskTimes} masks Times of the token masks.
 */

/** @param {number} time */
const round = (time) => Number(time.toFixed(4));

/** Summarises the times of token masks, in milliseconds. @param {number[]} times @param {number} first
 * @returns {MaskTimes} */
export function maskTimes(times, first) {
  const sorted = Float64Array.from(times).sort();
  const count = sorted.length;
  const at = (/** @type {number} */ share) => round(sorted[Math.min(count - 1, Math.floor(share * count))] ?? 0);
  const mean = sorted.reduce((sum, time) => sum + time, 0) / Math.max(count, 1);
  return { count, mean: round(mean), p50: at(0.5), p99: at(0.99), first: round(first) };
}

/** Returns the match of one text. @param {Matches} found @returns {Match} */
export function matchOf({ verdicts: [verdict = { accepted: false }], times, first, ...found }) {
  return { ...found, ...verdict, masks: maskTimes(times, first) };
}

/** Implements model.debug.matches(). @param {Pick<Callable, 'call'>} model @param {Format} format @param {string} text
 * @param {{ signal?: AbortSignal }} options @returns {Promise<Match>} */
export async function matches(model, format, text, options) {
  checkOptions(options, { signal });
  checkValue('format', format, GENERATE_OPTIONS.format);
  checkValue('text', text, string);
  const posted = postableFormat(copied(format));
  convert(posted);
  return matchOf(await model.call('match', { format: posted, texts: [text] }, options.signal));
}
