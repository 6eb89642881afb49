#!/usr/bin/env node
/**
 * Writes texts with llama.cpp's token ids for embed.py, and the distances of llama.cpp's embeddings from the reference.
 *
 *   node tools/vectors/embed-llama.js texts [NAME…]   rewrites tests/vectors/embed.json, or adds these texts to it
 *   node tools/vectors/embed-llama.js [NAME…]         adds llama.cpp's distances (run embed.py first)
 */
import fs from 'node:fs';
import { testModel } from '../../tests/js/models.js';
import { randoms } from '../../tests/support/random.js';
import { at } from '../support/proc.js';
import { NODE_LLAMA, startLlama } from './llama.js';

const FILE = at('tests', 'vectors', 'embed.json');
/** Numbers of tokens of each model's texts, with begin and end tokens: empty, short, longer than a window and a batch,
 * as long as the context. */
const LENGTHS = {
  embed: [2, 9, 60, 130, 600, 2048],
  'embed-mqa': [2, 9, 60, 130, 512],
  'embed-small': [2, 9, 60, 130, 256],
  'embed-300m': [12, 64, 300],
  'embed-qwen3': [1, 9, 60, 512],
};
const KINDS = ['f32', 'outliers', 'f16', 'bf16', 'q8_0', 'q4_0'];
const ALPHABET = 'etaoinsrhld,. ETAOé\n';

const isTexts = process.argv[2] === 'texts';
const names = process.argv.slice(isTexts ? 3 : 2);
const read = () => JSON.parse(fs.readFileSync(FILE, 'utf8'));

/** @param {string} name */
const kindsOf = (name) => {
  if (name === 'embed-300m') return [name];
  return (name === 'embed-qwen3' ? ['f32', 'q8_0'] : KINDS).map((kind) => `${name}-${kind}`);
};

/** @param {any} model of llama.cpp @param {number} count @param {() => number} next */
function textOf(model, count, next) {
  const ids = (/** @type {string} */ text) => {
    const first = model.tokens.shouldPrependBosToken ? [model.tokens.bos] : [];
    return [...first, ...model.tokenize(text, false), model.tokens.eos].map(Number);
  };
  let text = '';
  while (ids(text).length < count) text += ALPHABET[Math.floor(next() * ALPHABET.length)];
  if (ids(text).length !== count) throw new Error(`Found no text of ${count} ids.`);
  return { text, ids: ids(text) };
}

/** @param {any} llama */
async function makeTexts(llama) {
  /** @type {any} */
  const about = names.length ? read() : { madeBy: 'tools/vectors/embed-llama.js and embed.py', models: {}, texts: {} };
  for (const [name, lengths] of Object.entries(LENGTHS)) {
    if (names.length && !names.includes(name)) continue;
    const next = randoms(77);
    const kinds = kindsOf(name);
    const model = await llama.loadModel({ modelPath: await testModel(kinds[0]), gpuLayers: 0 });
    const made = lengths.map((count) => textOf(model, count, next));
    about.texts[name] = { texts: made.map(({ text }) => text), ids: made.map(({ ids }) => ids) };
    for (const kind of kinds) about.models[kind] = { texts: name };
    await model.dispose();
  }
  return about;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function apart(a, b) {
  let dot = 0;
  let x = 0;
  let y = 0;
  let far = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i] * b[i];
    x += a[i] ** 2;
    y += b[i] ** 2;
  }
  // 1 - cosine similarity of unit vectors is half their squared distance. Unlike the dot product, this loses no digits.
  for (let i = 0; i < a.length; i++) far += (a[i] / Math.sqrt(x) - b[i] / Math.sqrt(y)) ** 2;
  return dot > 0 ? far / 2 : 1 - dot / Math.sqrt(x * y);
}

/** @param {any} llama @param {any} about */
async function measure(llama, about) {
  const bytes = fs.readFileSync(FILE.replace(/json$/, 'bin'));
  for (const [name, entry] of Object.entries(about.models)) {
    if (names.length && !names.includes(name)) continue;
    const { first, width, texts } = /** @type {any} */ (entry);
    const list = [];
    const model = await llama.loadModel({ modelPath: await testModel(name), gpuLayers: 0 });
    const context = await model.createEmbeddingContext({ contextSize: 2304, batchSize: 2304, threads: 2 });
    for (const [i, ids] of about.texts[texts].ids.entries()) {
      const { vector } = await context.getEmbeddingFor(ids);
      const truth = new Float32Array(bytes.buffer, bytes.byteOffset + 4 * (first + i * width), width);
      list.push(Number(apart(vector, truth).toPrecision(4)));
    }
    entry.llama = list;
    console.log(name, 'llama.cpp: 1 - cosine', list.join(' '));
    await context.dispose();
    await model.dispose();
  }
  return { ...about, 'node-llama-cpp': NODE_LLAMA, release: llama.llamaCppRelease?.release };
}

const llama = await startLlama();
const made = isTexts ? await makeTexts(llama) : await measure(llama, read());
fs.writeFileSync(FILE, `${JSON.stringify(made).replaceAll('},"', '},\n"')}\n`);
await llama.dispose();
