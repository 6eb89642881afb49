/**
 * Compares logits with independent implementations (tests/vectors/parity.md): float weights with transformers in
 * float32, quantised weights with float64 arithmetic. The error of quantised weights must not exceed llama.cpp's. A
 * prefill, evaluation token by token and restored states must give the same bits.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, test } from 'node:test';
import { RUN } from '../../js/engine/engine.js';
import { restore, save } from '../../js/engine/saving.js';
import { loadModel } from '../../js/index.node.js';
import { GGML_TYPES } from '../../tools/models/gguf-write.js';
import { loadedEngine } from './bare-engine.js';
import { MODELS as SPECS, testModel, weightsSha256 } from './models.js';

/** Largest allowed NMSE (normalised mean squared error) of logits at any position, with float weights. */
const LARGEST = 1e-6;
/** Number of standard deviations of the logits by which the runner-up's logit must be lower, so that a greedy choice
 * counts as clear: several times the change that quantised activations cause. */
const CLEAR = 0.35;

const vectors = new URL('../vectors/', import.meta.url);
const json = (/** @type {string} */ name) => JSON.parse(fs.readFileSync(new URL(name, vectors), 'utf8'));
/** @type {Record<string, { truth: string, weightsSha256: string, prompts: number[][] }>} */
const MODELS = json('parity.json').models;
/** @type {Record<string, { default: number[], f32CacheNoFlashAttention: number[], greedy: { prompt: number, ids: number[], margins: number[] } }>} */
const LLAMA = json('parity-llama.json').models;

/** Returns the NMSE, sum (a - b)^2 / sum b^2, computed in double precision. */
function nmse(/** @type {Float32Array} */ a, /** @type {Float32Array} */ b) {
  assert.equal(a.length, b.length);
  let error = 0;
  let size = 0;
  for (let i = 0; i < b.length; i++) {
    error += (a[i] - b[i]) ** 2;
    size += b[i] ** 2;
  }
  return error / size;
}

function truthOf(/** @type {string} */ name, /** @type {number} */ vocab) {
  const bytes = fs.readFileSync(new URL(`${name}.bin`, vectors));
  const all = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return MODELS[name].prompts.map((ids, i, prompts) => {
    const first = prompts.slice(0, i).flat().length;
    return ids.map((_, k) => all.subarray((first + k) * vocab, (first + k + 1) * vocab));
  });
}

/** Returns the logits at every position of a prompt, which is evaluated in one batch.
 * @param {Model} model @param {number[]} ids */
async function prefilled(model, ids) {
  const rows = await model.debug.logits(ids, { all: true });
  const vocab = model.info.vocabSize;
  return ids.map((_, k) => rows.subarray(k * vocab, (k + 1) * vocab));
}

/** Returns the logits at every position of a prompt, evaluated token by token: each call finds all but its last id in
 * the KV cache. @param {Model} model @param {number[]} ids */
async function stepped(model, ids) {
  const rows = [];
  for (let k = 0; k < ids.length; k++) rows.push(await model.debug.logits(ids.slice(0, k + 1)));
  return rows;
}

/** Returns the logits at every position of a prompt. Two engines evaluate one token each in turn, and each restores the
 * state that the other saved. @param {string} file @param {number[]} ids */
async function restored(file, ids) {
  const load = () => loadedEngine(file, 'auto', { context: 64 });
  const engines = [await load(), await load()];
  const contexts = engines.map((native) => /** @type {any} */ ({ runner: { native, pause() {} }, contextLength: 64 }));
  const job = /** @type {any} */ ({ aborted: false });
  const rows = [];
  /** @type {Uint8Array} */
  let bytes = new Uint8Array();
  for (let k = 0; k < ids.length; k++) {
    const engine = engines[k % 2];
    const said = ids.slice(0, k + 1);
    if (k) {
      engine.sync([0]); // empties the KV cache
      assert.deepEqual(await restore(contexts[k % 2], job, { bytes }), { tokens: k });
    }
    assert.equal(engine.sync(said), k, 'ids in the KV cache');
    while (engine.call('run', 0) !== RUN.DONE);
    rows.push(engine.logits());
    bytes = await save(contexts[k % 2], job, { head: new Uint8Array(), ids: said });
  }
  for (const engine of engines) engine.close();
  return rows;
}

/** Returns the rows of all prompts. @param {number[][]} prompts
 * @param {(ids: number[]) => Promise<Float32Array[]>} f */
async function each(prompts, f) {
  const rows = [];
  for (const ids of prompts) rows.push(...(await f(ids)));
  return rows;
}

const bytesOf = (/** @type {Float32Array} */ row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength);
const mean = (/** @type {number[]} */ list) => list.reduce((a, b) => a + b, 0) / list.length;
const worst = (/** @type {number[]} */ list) => {
  const at = list.indexOf(Math.max(...list));
  return `largest NMSE ${list[at].toExponential(2)} at row ${at}, mean ${mean(list).toExponential(2)}`;
};

/** Returns the bound above which a greedy choice of a model counts as clear: CLEAR, or five times llama.cpp's largest
 * error if that is smaller. For models with outliers, llama.cpp ran with an f32 KV cache. @param {string} name */
function clearOf(name) {
  const { default: usual, f32CacheNoFlashAttention } = LLAMA[name];
  const error = Math.sqrt(Math.max(...(name.endsWith('outliers') ? f32CacheNoFlashAttention : usual)));
  return Math.min(CLEAR, Math.max(0.01, 5 * error));
}

/** The model that was opened last, which all tests of this model share.
 * @type {{ name: string, model: Model } | undefined} */
let opened;
after(() => opened?.model.dispose());

/** @param {string} name */
async function open(name) {
  if (opened?.name === name) return opened.model;
  await opened?.model.dispose();
  opened = { name, model: await loadModel(await testModel(name), { threads: 2 }) };
  return opened.model;
}

for (const [name, { truth, weightsSha256: expected }] of Object.entries(MODELS)) {
  test(`${name}: logits match ${truth}`, async (t) => {
    const file = await testModel(name);
    const model = await open(name);
    assert.equal(weightsSha256(fs.readFileSync(file)), expected, 'the reference vectors belong to another model');
    const { prompts } = MODELS[name];
    const ways = {
      prefill: await each(prompts, (ids) => prefilled(model, ids)),
      'step by step': await each(prompts, (ids) => stepped(model, ids)),
      ...(/^gemma4r/.test(name) && { 'save and restore': await each(prompts, (ids) => restored(file, ids)) }),
    };
    const all = truthOf(name, model.info.vocabSize).flat();
    for (const [way, rows] of Object.entries(ways)) {
      assert.ok(rows.length && rows.length === all.length);
      assert.ok(
        Buffer.concat(rows.map(bytesOf)).equals(Buffer.concat(ways.prefill.map(bytesOf))),
        `${way}: other bits`,
      );
      const errors = rows.map((row, k) => nmse(row, all[k]));
      t.diagnostic(`${way}: ${worst(errors)}`);
      if (truth.startsWith('transformers')) {
        assert.ok(Math.max(...errors) <= LARGEST, `${way}: ${worst(errors)}, limit ${LARGEST}`);
      } else {
        const theirs = LLAMA[name].default;
        t.diagnostic(`llama.cpp: ${worst(theirs)}`);
        assert.ok(mean(errors) <= mean(theirs), `${way}: ${worst(errors)}; llama.cpp: ${worst(theirs)}`);
      }
    }
  });

  // llama.cpp ignores the attention windows of Phi models, so it is not a reference for them.
  if (name === 'phi3-window-f32') continue;
  test(`${name}: greedy choices equal llama.cpp's where those are clear`, async (t) => {
    const model = await open(name);
    const { prompt, ids, margins } = LLAMA[name].greedy;
    const start = MODELS[name].prompts[prompt];
    const vocab = model.info.vocabSize;
    const rows = await model.debug.logits([...start, ...ids], { all: true });
    const least = clearOf(name);
    let clear = 0;
    for (const [k, id] of ids.entries()) {
      if (margins[k] < least) continue;
      const at = start.length + k - 1;
      const row = rows.subarray(at * vocab, (at + 1) * vocab);
      assert.equal(row.indexOf(Math.max(...row)), id, `choice ${k} after ${start.length} ids, margin ${margins[k]}`);
      clear++;
    }
    t.diagnostic(`${clear} of ${ids.length} choices are clear`);
    assert.ok(clear >= 10, `only ${clear} choices are clear`);
  });
}

test('every tensor type is in a model with reference vectors', () => {
  const covered = Object.keys(MODELS).flatMap((name) => {
    const { type, embeddingType, types } = SPECS[name];
    return [type, embeddingType, ...Object.values(types ?? {})];
  });
  for (const type of Object.keys(GGML_TYPES)) {
    assert.ok(covered.includes(/** @type {any} */ (type)), `no model with reference vectors has the type ${type}`);
  }
});
