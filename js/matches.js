/* matches: what model.matches() says of a text and of the time that its masks took. Loaded when it is first used. */
/** @import { Callable } from './protocol.js' */
/** @import { Format } from './options.js' */
import { GENERATE_OPTIONS, checkOptions, checkValue, postableFormat, signal, string } from './options.js';
import { convert } from './schemas.js';

/** In milliseconds. first: from the format to the first mask, compiling included.
 * @typedef {{ count: number, mean: number, p50: number, p99: number, first: number }} MaskTimes */
/** refusedAt: where in the text the token begins that was refused, or the text's length where it ended too early;
 * reason: why the format is not held, if it is not.
 * @typedef {{ compiled: boolean, reason?: string, accepted: boolean, refusedAt?: number, masks: MaskTimes }} Match */

/** To the tenth of a microsecond. @param {number} time */
const round = (time) => Number(time.toFixed(4));

/** @param {number[]} times @param {number} first @returns {MaskTimes} */
export function maskTimes(times, first) {
  const sorted = Float64Array.from(times).sort();
  const count = sorted.length;
  const at = (/** @type {number} */ share) => round(sorted[Math.min(count - 1, Math.floor(share * count))] ?? 0);
  const mean = sorted.reduce((sum, time) => sum + time, 0) / Math.max(count, 1);
  return { count, mean: round(mean), p50: at(0.5), p99: at(0.99), first: round(first) };
}

/** @param {Pick<Callable, 'call'>} model @param {Format} format @param {string} text @param {{ signal?: AbortSignal }}
 * options
 * @returns {Promise<Match>} */
export async function matches(model, format, text, options) {
  checkOptions(options, { signal });
  checkValue('format', format, GENERATE_OPTIONS.format);
  checkValue('text', text, string);
  const posted = postableFormat(format);
  convert(posted);
  const {
    verdicts: [verdict = { accepted: false }],
    times,
    first,
    ...found
  } = await model.call('match', { format: posted, texts: [text] }, options.signal);
  return { ...found, ...verdict, masks: maskTimes(times, first) };
}
