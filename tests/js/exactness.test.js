/**
 * Tests that the same ids give the same logits bit for bit: with any number of threads, in one batch or token by token,
 * with a reused or a fresh KV cache, alone or beside another model, after an abort. The two wasm variants are compared
 * only by their greedy tokens.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { features } from '../../js/platform/features.js';
import { randoms } from '../support/random.js';
import { open } from './helpers.js';
import { testModel } from './models.js';

/** @typedef {import('../../js/index.node.js').Model} Model */

/** Models whose weight types and shapes use different kernels. Their windows are 16, 32 and 24 tokens. */
const TYPES = ['tiny', 'parity-q4_0', 'parity-q8_0', 'parity-f16', 'mqa-f32', 'mqa-q4_0'];
/** Models of other architectures. Their forward pass is the same in every build, so each model is tested with one
 * build. */
const FAMILY = {
  simd128: ['gemma-q4_0', 'gemma2-q8_0', 'gpt2-q4_k_m', 'smollm-f32', 'gemma4-values-f32'],
  relaxed: ['llama-q4_0', 'qwen3-q4_k_m', 'gemma4-q4_0'],
};
/** Models that the tests of each build use. Float kernels are the same in both builds, so `relaxed` leaves out models
 * with float weights. */
const OWN = {
  simd128: [...TYPES, ...FAMILY.simd128],
  relaxed: [...TYPES.filter((name) => !/-f\d+$/.test(name)), ...FAMILY.relaxed],
};

function idsOf(/** @type {Model} */ model, /** @type {number} */ n, seed = 1) {
  const draw = randoms(seed);
  return Array.from({ length: n }, () => Math.floor(draw() * model.info.vocabSize));
}

/** Returns a function that opens a model once for each number of threads, because loading a model takes longer than a
 * test. @param {string} name */
function opener(name) {
  /** @type {Map<number, Promise<Model>>} */
  const models = new Map();
  after(async () => {
    for (const model of models.values()) await (await model).dispose();
  });
  return async (/** @type {number} */ threads) => {
    const model = models.get(threads) ?? testModel(name).then((path) => loadModel(path, { threads }));
    models.set(threads, model);
    return model;
  };
}

/** @param {Float32Array} a @param {Float32Array} b @param {string} what */
function sameBits(a, b, what) {
  assert.equal(a.length, b.length, what);
  const x = new Uint32Array(a.buffer, a.byteOffset, a.length);
  const y = new Uint32Array(b.buffer, b.byteOffset, b.length);
  const at = x.findIndex((v, i) => v !== y[i]);
  assert.ok(at < 0, `${what}: logit ${at} is ${a[at]} and ${b[at]}`);
}

/** Returns the logits after the last id. Requests the logits of all rows, because such a request uses no cached keys.
 * @param {Model} model @param {number[]} ids */
async function fresh(model, ids) {
  const rows = await model.debug.logits(ids, { all: true });
  return rows.subarray(rows.length - model.info.vocabSize);
}

/** @param {Model} model @param {number[]} ids @param {number} n
 * @param {import('../../js/options.js').GenerateOptions} [options] */
async function draw(model, ids, n, options = { temperature: 0 }) {
  return model.generate(ids, { maxTokens: n, ...options }).result();
}

for (const name of OWN[features().relaxed ? 'relaxed' : 'simd128'])
  describe(name, () => {
    const opened = opener(name);
    test('1, 2 and 4 threads give the same logits and the same draws', async () => {
      const options = { temperature: 1, topK: 0, topP: 1, seed: 42 };
      /** @type {{ rows: Float32Array, tokens: number[] } | null} */
      let first = null;
      for (const threads of [1, 2, 4]) {
        const model = await opened(threads);
        assert.equal(model.info.threads, threads);
        const ids = idsOf(model, 75);
        const rows = await model.debug.logits(ids, { all: true });
        const { tokens } = await draw(model, ids, 40, options);
        if (first) {
          sameBits(rows, first.rows, `${threads} threads`);
          assert.deepEqual(tokens, first.tokens, `${threads} threads`);
        }
        first ??= { rows, tokens };
      }
    });

    test('a prompt in one batch gives the same logits as token by token', async () => {
      const model = await opened(2);
      const ids = idsOf(model, 90, 2);
      const vocab = model.info.vocabSize;
      const rows = await model.debug.logits(ids, { all: true });
      for (let k = 0; k < ids.length; k++) {
        const row = await model.debug.logits(ids.slice(0, k + 1));
        sameBits(row, rows.slice(k * vocab, (k + 1) * vocab), `position ${k}`);
      }
    });

    test('logits do not depend on where a batch begins', async () => {
      const model = await opened(2);
      const ids = idsOf(model, 120, 3);
      const whole = await fresh(model, ids);
      for (const cuts of [
        [1, 120],
        [7, 31, 32, 33, 119, 120],
        [64, 120],
        [50, 51, 120],
      ]) {
        await model.debug.logits(idsOf(model, 3, 4));
        for (const cut of cuts.slice(0, -1)) await model.debug.logits(ids.slice(0, cut));
        sameBits(await model.debug.logits(ids), whole, `cuts ${cuts}`);
      }
    });

    test('logits after a rewind, even beyond the window, equal those of a fresh start', async () => {
      const model = await opened(2);
      const other = await opened(1);
      const next = randoms(5);
      let context = idsOf(model, 60, 6);
      let reused = 0;
      for (let turn = 0; turn < 12; turn++) {
        // Each turn keeps an answer or goes back to a shorter prefix, and then adds text, as retry, edit and the next
        // message do.
        const { tokens, usage } = await draw(model, context, Math.floor(next() * 45));
        reused += usage.reusedTokens;
        const all = [...context, ...tokens];
        const kept = turn % 3 ? all.length : Math.floor(next() * all.length);
        context = [...all.slice(0, kept), ...idsOf(model, 1 + Math.floor(next() * 20), 100 + turn)].slice(0, 180);
        sameBits(
          await model.debug.logits(context),
          await fresh(other, context),
          `turn ${turn}, back to ${kept} of ${all.length}`,
        );
      }
      assert.ok(reused > 0, 'no turn reused the KV cache, so nothing was tested');
    });
  });

for (const name of [...TYPES, ...Object.values(FAMILY).flat(), 'tiny-f32', 'tiny-v2', 'parity-f32', 'parity-bf16']) {
  test(`${name}: simd128 and relaxed draw the same greedy tokens`, async (t) => {
    if (!features().relaxed) return t.skip('this Node runs no relaxed SIMD; Node 22 and later do');
    const simd = await open(t, name, { threads: 2, variant: 'simd128' });
    const relaxed = await open(t, name, { threads: 2, variant: 'relaxed' });
    assert.match(relaxed.info.variant, /relaxed/);
    assert.match(simd.info.variant, /simd128/);
    for (let seed = 1; seed <= 2; seed++) {
      const ids = idsOf(simd, 80 * seed, seed);
      assert.deepEqual((await draw(relaxed, ids, 64)).tokens, (await draw(simd, ids, 64)).tokens, `prompt ${seed}`);
    }
  });
}

test('two models side by side answer as each does alone', async (t) => {
  const a = await open(t, 'tiny', { threads: 2 });
  const b = await open(t, 'parity-q4_0', { threads: 2 });
  const prompts = [idsOf(a, 50), idsOf(b, 100)];
  const alone = [await draw(a, prompts[0], 60), await draw(b, prompts[1], 60)].map((r) => r.tokens);
  await a.debug.logits([2]);
  await b.debug.logits([2]);
  const together = await Promise.all([draw(a, prompts[0], 60), draw(b, prompts[1], 60)]);
  assert.deepEqual(
    together.map((r) => r.tokens),
    alone,
  );
});

test('concurrent calls on one model give the same answers as calls one after the other', async (t) => {
  const model = await open(t, 'tiny', { threads: 2 });
  const prompts = [1, 2, 3].map((seed) => idsOf(model, 30, seed));
  const apart = [];
  for (const ids of prompts) apart.push((await draw(model, ids, 30)).tokens);
  const atOnce = await Promise.all(prompts.map((ids) => draw(model, ids, 30)));
  assert.deepEqual(
    atOnce.map((r) => r.tokens),
    apart,
  );
});

for (const threads of [1, 2]) {
  test(`an abort while decoding leaves the model as it was (${threads} threads)`, async (t) => {
    // The `medium` model never samples an end of turn, so it generates until it is stopped.
    const model = await open(t, 'medium', { threads });
    const ids = idsOf(model, 30, 9);
    const whole = await draw(model, ids, 30);
    assert.equal(whole.finishReason, 'length');
    const controller = new AbortController();
    let pieces = 0;
    const cut = model.generate(ids, { maxTokens: 400, temperature: 0, signal: controller.signal });
    for await (const piece of cut) if (piece && ++pieces === 3) controller.abort();
    const { finishReason, tokens } = await cut.result();
    assert.equal(finishReason, 'aborted');
    assert.deepEqual(tokens.slice(0, 30), whole.tokens.slice(0, tokens.length));
    assert.deepEqual((await draw(model, ids, 30)).tokens, whole.tokens);
    sameBits(await model.debug.logits(ids), await fresh(model, ids), 'logits after the abort');
  });

  test(`an abort during prefill leaves the model as it was (${threads} threads)`, async (t) => {
    const model = await open(t, 'medium', { threads });
    const ids = idsOf(model, 900, 10);
    const controller = new AbortController();
    const cut = model.generate(ids, {
      maxTokens: 5,
      temperature: 0,
      signal: controller.signal,
      onPrefillProgress: () => controller.abort(),
    });
    const { finishReason, tokens } = await cut.result();
    assert.equal(finishReason, 'aborted');
    assert.deepEqual(tokens, []);
    const again = ids.slice(0, 200);
    sameBits(await model.debug.logits(again), await fresh(model, again), 'logits after the abort');
  });
}

/* Without log probabilities, a two-stage output head computes only logits that may be among the largest. */
for (const name of ['gemma-vocab-tiny', 'medium']) {
  test(`${name}: sampling gives the same tokens as from all logits`, async (t) => {
    // Tests the relaxed build if Node has relaxed SIMD, otherwise simd128. The project's tests run in both kinds of
    // Node.
    const model = await open(t, name, { threads: 2, variant: 'auto' });
    const bias = { logitBias: { 7: 3, 9: -Infinity } };
    const penalty = { repetitionPenalty: 1.3 };
    const changes = [{}, bias, penalty, { ...bias, ...penalty, penaltyWindow: 3 }];
    const samplings = [
      { temperature: 0 },
      { topK: 64, topP: 0.95, seed: 4 },
      { topK: 20, minP: 0.01, typicalP: 0.9, seed: 4 },
    ];
    for (const options of samplings.flatMap((one) => changes.map((change) => ({ ...one, ...change })))) {
      const ids = idsOf(model, 12);
      const some = await draw(model, ids, 16, options);
      assert.deepEqual(some.tokens, (await draw(model, ids, 16, { ...options, logprobs: 0 })).tokens);
      sameBits(
        await model.debug.logits([...ids, ...some.tokens]),
        await fresh(model, [...ids, ...some.tokens]),
        'after it',
      );
    }
  });
}
