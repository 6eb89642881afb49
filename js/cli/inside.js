/* inside: the command `gemma-wasm inside`, which prints attention weights, logit lens and norms of a prompt. */
import { loadModel } from '../index.node.js';
import { wrongValue } from './errors.js';
import { number } from './flags.js';
import { print, using } from './output.js';
/** @import { InsideLayer } from '../protocol.js' */
/** @import { Values } from './flags.js' */

/** Flags of `gemma-wasm inside`. */
export const INSIDE = 'layer head position lens norms json';

/** @param {Values} values @param {string} name */
function numbers(values, name) {
  const text = values[name];
  if (text === undefined) return undefined;
  if (/^-?\d+(,-?\d+)*$/.test(text)) return text.split(',').map(Number);
  throw wrongValue(name, 'whole numbers separated by commas', text);
}

/** Runs `gemma-wasm inside`. @param {Values} values */
export async function inside(values) {
  const options = {
    layers: numbers(values, 'layer'),
    heads: numbers(values, 'head'),
    norms: values.norms,
    positions: numbers(values, 'position'),
    lens: number(values, 'lens'),
  };
  const seen = await using(loadModel, values, (model) => model.debug.inside(values.prompt, options));
  const layers = seen.layers.map((layer) => plain(layer, seen.positions.length));
  const pieces = seen.tokens.map(({ id, text }, i) => `${i}: ${id} ${JSON.stringify(text)}`);
  print(values, { ...seen, layers }, [...pieces, ...layers.map((layer) => JSON.stringify(layer))].join('\n'));
}

/** @param {InsideLayer} layer @param {number} rows */
function plain({ norms, attention = {}, ...layer }, rows) {
  const table = (/** @type {Float32Array} */ all) => {
    const width = all.length / rows;
    return Array.from({ length: rows }, (_, i) => Array.from(all.subarray(i * width, (i + 1) * width)));
  };
  const heads = Object.entries(attention).map(([head, weights]) => [head, table(weights)]);
  return {
    ...layer,
    ...(norms && { norms: table(norms) }),
    ...(heads.length && { attention: Object.fromEntries(heads) }),
  };
}
