#!/usr/bin/env node
/**
 * Evaluates the storyteller in Q8_0 and Q4_0 with llama.cpp: the mean -ln p of tests/vectors/storyteller.json's texts,
 * and a greedy story. Run tools/vectors/storyteller.py first.
 *
 *   node tools/vectors/storyteller.js      writes tests/vectors/storyteller-llama.json
 */
import fs from 'node:fs';
import { storyteller } from '../../tests/js/storyteller-files.js';
import { choice } from './greedy-follow.js';
import { evaluator, startLlama } from './llama.js';

const VECTORS = new URL('../../tests/vectors/', import.meta.url);
/** Topics of candidate stories. Each story has a smallest margin between its two best logits. The story with the
 * largest such margin is kept, because rounding does not change its tokens. */
const TOPICS = [
  'a cat and a boat',
  'a dog',
  'a little bird',
  'a red ball',
  'a girl and her mom',
  'a fish',
  'a bear',
  'a boy and a tree',
  'a mouse and a cake',
  'two friends',
  'a frog',
  'a big box',
];
const LONGEST = 300;
const END = 5;

/** Returns -ln p of an id from a row of logits. @param {Float32Array} row @param {number} id */
function loss(row, id) {
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  return Math.log(row.reduce((sum, x) => sum + Math.exp(x - most), 0)) + most - row[id];
}

/** @typedef {(ids: number[]) => Promise<Float32Array[]>} Evaluate */

/** @param {Evaluate} evaluate @param {number[]} ids */
async function nll(evaluate, ids) {
  const rows = await evaluate(ids.slice(0, -1));
  return rows.reduce((sum, row, i) => sum + loss(row, ids[i + 1]), 0) / rows.length;
}

/** @param {Evaluate} evaluate @param {(id: number) => Promise<Float32Array>} extend @param {number[]} prompt */
async function greedy(evaluate, extend, prompt) {
  const ids = [];
  let margin = Infinity;
  let row = /** @type {Float32Array} */ ((await evaluate(prompt)).at(-1));
  while (ids.length < LONGEST) {
    if (ids.length) row = await extend(ids[ids.length - 1]);
    const best = choice(row);
    margin = Math.min(margin, best.margin);
    ids.push(best.id);
    if (best.id === END) break;
  }
  return { prompt, ids, smallestMargin: margin };
}

/** @param {any} model @param {Evaluate} evaluate @param {(id: number) => Promise<Float32Array>} extend */
async function clearest(model, evaluate, extend) {
  const stories = [];
  for (const topic of TOPICS) {
    const question = `Tell me a story about ${topic}.`;
    const prompt = `<bos><start_of_turn>user\n${question}<end_of_turn>\n<start_of_turn>model\n`;
    stories.push({ question, ...(await greedy(evaluate, extend, model.tokenize(prompt, true))) });
  }
  const ended = stories.filter(({ ids }) => ids.at(-1) === END);
  return ended.sort((a, b) => b.smallestMargin - a.smallestMargin)[0];
}

const { texts, modelSha256 } = JSON.parse(fs.readFileSync(new URL('storyteller.json', VECTORS), 'utf8'));
const llama = await startLlama();
/** @type {Record<string, any>} */
const result = { modelSha256, llamaCpp: llama.llamaCppRelease?.release, nll: {} };
for (const type of /** @type {const} */ (['Q8_0', 'Q4_0'])) {
  const model = await llama.loadModel({ modelPath: storyteller(type), gpuLayers: 0 });
  const { evaluate, extend, close } = await evaluator(model, { contextSize: 512, batchSize: 512 });
  result.nll[type] = [];
  for (const { ids } of texts) result.nll[type].push(await nll(evaluate, ids));
  if (type === 'Q8_0') result.greedy = await clearest(model, evaluate, extend);
  await close();
  await model.dispose();
}
await llama.dispose();
fs.writeFileSync(
  new URL('storyteller-llama.json', VECTORS),
  `${JSON.stringify(result, null, 1).replace(/\n\s+(?=[-\d])/g, ' ')}\n`,
);
