/* embed: the command `gemma-wasm embed`, which computes embedding vectors of texts. */
import { writeFile } from 'node:fs/promises';
import { loadModel } from '../index.node.js';
import { incomplete } from './errors.js';
import { number, readText } from './flags.js';
import { print, using } from './output.js';
/** @import { Values } from './flags.js' */

/** Flags of `gemma-wasm embed`. */
export const EMBED = 'text file task title instruction dimensions pooling truncate out json';

/** Runs `gemma-wasm embed`. @param {Values} values */
export async function embed(values) {
  const { out, json, task, title, pooling, truncate, instruction: prompt } = values;
  if (!out && !json) throw incomplete('embed', '--out FILE or --json');
  const texts = await textsOf(values);
  const options = { task, title, prompt, pooling, truncate, dimensions: number(values, 'dimensions') };
  const vectors = await using(loadModel, values, (model) => model.embed(texts, options));
  const dimensions = vectors[0]?.length ?? 0;
  if (out) {
    // Both the file and all machines that Node supports are little-endian.
    await writeFile(out, Buffer.concat(vectors.map((vector) => new Uint8Array(vector.buffer))));
    process.stderr.write(`Wrote ${vectors.length} vectors of ${dimensions} numbers to ${out}.\n`);
  }
  if (json) print(values, { dimensions, vectors: vectors.map((vector) => Array.from(vector)) });
}

/** @param {Values} values */
async function textsOf({ text, file }) {
  if ((text === undefined) === (file === undefined)) throw incomplete('embed', 'either --text or --file');
  if (text !== undefined) return [text];
  return (await readText(file)).replace(/\r?\n$/, '').split(/\r?\n/);
}
