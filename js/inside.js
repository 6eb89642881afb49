/* inside: checks the options of model.debug.inside(). Loaded on first use. See docs/inside.md. */
import { boolean, checkOptions, checkThat, integer, rule, signal } from './options.js';
/** @import { ModelInfo } from './protocol.js' */

/** Options of `inside`. A value out of range fails with `bad-option`.
 * @typedef {object} InsideOptions
 * @property {readonly number[]} [layers] Indices of the layers to report. Default: all.
 * @property {readonly number[] | 'all'} [heads] Heads whose attention weights are reported. Default: none.
 * @property {readonly number[]} [positions] Positions of tokens to report; negative ones count from the end. Default:
 *   all.
 * @property {number} [lens] Number of tokens that the logit lens reports for each position. Default: 0.
 * @property {boolean} [norms] Reports norms of the residual stream. Default: false.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */

const MAX_TOP = 64;

/** @param {number} least @param {number} most */
const listOf = (least, most) =>
  rule(`an array of integers between ${least} and ${most}`, (value) => {
    return Array.isArray(value) && value.every((one) => Number.isInteger(one) && one >= least && one <= most);
  });
/** @param {number} n */
const upTo = (n) => Array.from({ length: n }, (_, i) => i);

/** Checks the options of `inside` and returns the worker's arguments. Throws `bad-option`. @param {ModelInfo} info
 * @param {InsideOptions} options */
export function insideArgs({ layers: nLayers, heads: nHeads, contextLength, embedding }, options) {
  const list = listOf(0, nHeads - 1);
  checkOptions(options, {
    layers: listOf(0, nLayers - 1),
    positions: listOf(-contextLength, contextLength - 1),
    signal,
    norms: boolean,
    heads: rule(`'all', or ${list.expected}`, (value) => value === 'all' || list.fits(value)),
    lens: integer(0, MAX_TOP),
  });
  const { layers = upTo(nLayers), heads = [], positions = null, lens = 0, norms = false } = options;
  checkThat('lens', lens, '0, since the model has no logits', !embedding || lens === 0);
  return { layers, heads: heads === 'all' ? upTo(nHeads) : heads, positions, lens, norms };
}
