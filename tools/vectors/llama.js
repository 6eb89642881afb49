#!/usr/bin/env node
/**
 * Evaluates the models of tests/vectors/parity.json with llama.cpp: the error of its logits at each position, relative
 * to the same reference, and its greedy continuations. Run tools/vectors/parity.py first.
 *
 *   node tools/vectors/llama.js                writes tests/vectors/parity-llama.json
 *   node tools/vectors/llama.js --only NAME…   updates only these models
 *   node tools/vectors/llama.js FILE IDS OUT   writes all logits of any file as float32, to compare by hand
 *
 * Installs llama.cpp into build/peers if it is missing there (network).
 */
import fs from 'node:fs';
import path from 'node:path';
import { testModel } from '../../tests/js/models.js';
import { PEERS, install, startLlama as start } from '../bench/peers.js';
import { at, isMain } from '../support/proc.js';
import { choice } from './greedy-follow.js';

const VECTORS = at('tests', 'vectors');
const THREADS = 2;
const GREEDY = 48;

/** Version of node-llama-cpp that startLlama() installs. */
export const NODE_LLAMA = PEERS.native[0].version;

/** Settings of llama.cpp. Flash attention computes in f16, so an f32 cache changes nothing with it, as measured. */
export const SETTINGS = {
  default: {},
  noFlashAttention: { flashAttention: false },
  f32CacheNoFlashAttention: {
    flashAttention: false,
    experimentalKvCacheKeyType: 'F32',
    experimentalKvCacheValueType: 'F32',
  },
};

/** Installs llama.cpp if it is missing (network), and starts it with two threads. */
export async function startLlama() {
  await install(['native']);
  return (await start(THREADS)).llama;
}

/** @param {any} next result of evaluating one token */
function rowOf(next) {
  const row = new Float32Array(next.logits.size);
  for (const [id, value] of next.logits) row[id] = value;
  return row;
}

/** Returns functions that evaluate ids with llama.cpp: `evaluate` empties the KV cache and returns the logits of all
 * ids, `extend` returns the logits after one more id.
 * @param {any} model @param {object} options of the context */
export async function evaluator(model, options) {
  const context = await model.createContext({
    contextSize: 256,
    batchSize: 256,
    threads: THREADS,
    swaFullCache: true,
    ...options,
  });
  const sequence = context.getSequence();
  /** @param {number[]} ids @returns {Promise<Float32Array[]>} */
  const evaluate = async (ids) => {
    await sequence.clearHistory();
    const out = await sequence.controlledEvaluate(ids.map((id) => [id, { generateNext: { logits: true } }]));
    return out.map((/** @type {any} */ o) => rowOf(o.next));
  };
  /** @param {number} id */
  const extend = async (id) => {
    const out = await sequence.controlledEvaluate([[id, { generateNext: { logits: true } }]]);
    return rowOf(out[0].next);
  };
  return { evaluate, extend, close: () => context.dispose() };
}

/** Returns the NMSE of a relative to b: sum (a - b)^2 / sum b^2. */
export function nmse(/** @type {Float32Array} */ a, /** @type {Float32Array} */ b) {
  let error = 0;
  let size = 0;
  for (let i = 0; i < b.length; i++) {
    error += (a[i] - b[i]) ** 2;
    size += b[i] ** 2;
  }
  return error / size;
}

/** Returns greedy ids after a prompt, and how far each one's logit is above the second best, in standard deviations.
 * @param {(ids: number[]) => Promise<Float32Array[]>} evaluate @param {number[]} ids */
async function greedy(evaluate, ids) {
  const context = [...ids];
  const margins = [];
  for (let i = 0; i < GREEDY; i++) {
    const row = /** @type {Float32Array} */ ((await evaluate(context)).at(-1));
    const { id, margin } = choice(row);
    const deviation = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0) / row.length);
    context.push(id);
    margins.push(Number((margin / deviation).toFixed(3)));
  }
  return { ids: context.slice(ids.length), margins };
}

/** @param {any} llama @param {string} name @param {number[][]} prompts */
async function study(llama, name, prompts) {
  const bytes = fs.readFileSync(path.join(VECTORS, `${name}.bin`));
  const model = await llama.loadModel({ modelPath: await testModel(name), gpuLayers: 0 });
  const vocab = bytes.length / 4 / prompts.flat().length;
  const truth = (/** @type {number} */ row) =>
    new Float32Array(bytes.buffer, bytes.byteOffset + 4 * vocab * row, vocab);
  /** @type {Record<string, any>} */
  const result = {};
  for (const [label, options] of Object.entries(SETTINGS)) {
    const { evaluate, close } = await evaluator(model, options);
    const list = [];
    let row = 0;
    for (const ids of prompts) for (const logits of await evaluate(ids)) list.push(nmse(logits, truth(row++)));
    // With outliers, even rounding an f16 cache changes choices.
    if (label === (name.endsWith('outliers') ? 'f32CacheNoFlashAttention' : 'default')) {
      const prompt = prompts.length - 1;
      result.greedy = { prompt, ...(await greedy(evaluate, prompts[prompt])) };
    }
    result[label] = list.map((x) => Number(x.toPrecision(4)));
    const mean = list.reduce((a, b) => a + b, 0) / list.length;
    console.log(name, label, 'NMSE mean', mean.toExponential(3), 'largest', Math.max(...list).toExponential(3));
    await close();
  }
  await model.dispose();
  return result;
}

async function main() {
  const llama = await startLlama();
  const only = process.argv[2] === '--only' ? process.argv.slice(3) : null;
  if (process.argv.length === 5 && !only) {
    const [file, ids, out] = process.argv.slice(2);
    const list = ids.split(',').map(Number);
    const size = Math.max(256, list.length + 8);
    const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
    const { evaluate } = await evaluator(model, { contextSize: size, batchSize: size });
    const rows = await evaluate(list);
    fs.writeFileSync(out, Buffer.concat(rows.map((r) => Buffer.from(r.buffer))));
  } else {
    const read = (/** @type {string} */ name) => JSON.parse(fs.readFileSync(path.join(VECTORS, name), 'utf8')).models;
    const models = read('parity.json');
    const kept = only ? read('parity-llama.json') : {};
    const lines = [];
    for (const [name, { prompts }] of Object.entries(models)) {
      if (name === 'phi3-window-f32') continue; // llama.cpp ignores Phi's sliding window
      const result = kept[name] && !only?.includes(name) ? kept[name] : await study(llama, name, prompts);
      lines.push(`${JSON.stringify(name)}: ${JSON.stringify(result)}`);
    }
    const head = {
      madeBy: 'tools/vectors/llama.js',
      'node-llama-cpp': NODE_LLAMA,
      release: llama.llamaCppRelease?.release,
      threads: THREADS,
    };
    fs.writeFileSync(
      path.join(VECTORS, 'parity-llama.json'),
      `${JSON.stringify(head).slice(0, -1)}, "models": {\n${lines.join(',\n')}\n}}\n`,
    );
  }
  await llama.dispose();
}

if (isMain(import.meta.url)) await main();
