/**
 * Measures the accuracy and memory of each type of the KV cache (option `kvType`), and writes
 * tests/vectors/kv-types.md. tests/js/kv-types.test.js uses the same functions. Needs only the built package.
 *
 *   node tools/vectors/kv-types.js
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { STORYTELLER, testModel } from '../../tests/js/models.js';
import { at, isMain } from '../support/proc.js';
import { nmse } from './llama.js';

export const KV_TYPES = /** @type {const} */ (['auto', 'f32', 'i16', 'q8_0']);
/** @typedef {typeof KV_TYPES[number]} KvType */

const MODELS = ['parity-f32', 'mqa-f32', 'parity-q8_0', 'parity-q4_0'];
const CONTEXTS = [4096, 16384, 32768];

const vectors = (/** @type {string} */ name) => readFileSync(at('tests', 'vectors', name));
const json = (/** @type {string} */ name) => JSON.parse(vectors(name).toString());

/** Returns the NMSE of a test model's logits at each position, relative to the reference of tests/vectors/parity.md.
 * @param {string} name @param {KvType} kvType @param {import('../../js/options.js').LoadOptions} [options] */
export async function errorsOf(name, kvType, options = {}) {
  const model = await loadModel(await testModel(name), { threads: 2, ...options, kvType });
  try {
    const bytes = vectors(`${name}.bin`);
    const truth = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const { vocabSize } = model.info;
    /** @type {number[]} */
    const errors = [];
    for (const ids of json('parity.json').models[name].prompts) {
      const rows = await model.debug.logits(ids, { all: true });
      for (let k = 0; k < ids.length; k++) {
        const from = errors.length * vocabSize;
        const row = rows.subarray(k * vocabSize, (k + 1) * vocabSize);
        errors.push(nmse(row, truth.subarray(from, from + vocabSize)));
      }
    }
    return errors;
  } finally {
    await model.dispose();
  }
}

/** Returns the storyteller's perplexity over all tokens of the texts in tests/vectors/storyteller.json.
 * @param {KvType} kvType */
export async function perplexityOf(kvType) {
  const model = await loadModel(STORYTELLER, { threads: 1, kvType });
  try {
    let sum = 0;
    let count = 0;
    for (const { text } of json('storyteller.json').texts) {
      const { nll, tokens } = await model.debug.perplexity(text);
      sum += nll * tokens;
      count += tokens;
    }
    return Math.exp(sum / count);
  } finally {
    await model.dispose();
  }
}

/** Returns the bytes of the KV cache that inspectModel() plans for a model in the 1B shape. @param {KvType} kvType
 * @param {number} contextLength */
export async function memoryOf(kvType, contextLength) {
  return (await inspectModel(await testModel('oneb-q4_0'), { kvType, contextLength })).info.memory.kv;
}

export const mean = (/** @type {number[]} */ list) => list.reduce((a, b) => a + b, 0) / list.length;

async function main() {
  const header = [
    'kvType',
    ...MODELS.map((name) => `\`${name}\`: largest, mean`),
    'storyteller',
    ...CONTEXTS.map((n) => `MB at ${n}`),
  ];
  const rows = [header, header.map(() => '---')];
  for (const kvType of KV_TYPES) {
    const row = /** @type {string[]} */ ([kvType]);
    for (const name of MODELS) {
      const errors = await errorsOf(name, kvType);
      row.push(`${Math.max(...errors).toExponential(1)}, ${mean(errors).toExponential(1)}`);
    }
    row.push((await perplexityOf(kvType)).toFixed(4));
    for (const n of CONTEXTS) row.push(((await memoryOf(kvType, n)) / 1e6).toFixed(0));
    rows.push(row);
  }
  const llama = MODELS.map((name) => {
    const errors = json('parity-llama.json').models[name].default;
    return `${Math.max(...errors).toExponential(1)}, ${mean(errors).toExponential(1)}`;
  });
  rows.push(['llama.cpp, f16', ...llama, '', ...CONTEXTS.map(() => '')]);
  const table = rows.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  writeFileSync(
    at('tests', 'vectors', 'kv-types.md'),
    `# What each \`kvType\` costs

The table compares the values of the option [\`kvType\`](../../docs/options.md#loadmodel):

- the NMSE of the logits at one position, against the reference of [parity.md](parity.md#reference). The models have
  windows of 32 and 24 tokens, and larger attention scores than usual ([why](parity.md#sensitivity-of-these-models));
- the perplexity of the storyteller in the package;
- the memory of a 1B model's KV cache for three context lengths, according to \`inspectModel\`. The model has 26 layers, 4
  of them global. The caches of local layers have room for two windows, so that tokens can be removed.

For the first two models, whose weights are floats, \`auto\` is the same as \`f32\`. The memory for \`auto\` is that of a
model with quantised weights.

${table}

Made by \`tools/vectors/kv-types.js\`.
`,
  );
}

if (isMain(import.meta.url)) await main();
