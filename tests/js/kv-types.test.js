/**
 * Tests kvType, the type of the KV cache. For each type, results are close to the reference and have the same bits with
 * any number of threads, token by token or in one batch, after a rewind, with wrapped ring buffers and in a cloned
 * chat.
 * tests/vectors/kv-types.md has figures.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { features } from '../../js/platform/features.js';
import { KV_TYPES, errorsOf, mean, perplexityOf } from '../../tools/vectors/kv-types.js';
import { open } from './helpers.js';
import { testModel } from './models.js';

/** Largest allowed NMSE (normalised mean squared error) of logits with float weights, by type of the KV cache. Types
 * below f32 are lossy, and the attention of the test models is sharp. */
const LARGEST = { auto: 1e-6, f32: 1e-9, i16: 1e-6, q8_0: 2e-2 };
/** Largest allowed relative change of a trained model's perplexity. */
const APART = 2e-3;

const idsOf = (/** @type {number} */ n, seed = 7) => Array.from({ length: n }, (_, i) => (i * i + seed) % 320);

for (const kvType of KV_TYPES) {
  test(`${kvType}: errors of float weights are below the bound of the type`, async (t) => {
    for (const name of ['parity-f32', 'mqa-f32']) {
      const errors = await errorsOf(name, kvType);
      t.diagnostic(`${name}: largest ${Math.max(...errors).toExponential(1)}, mean ${mean(errors).toExponential(1)}`);
      assert.ok(Math.max(...errors) <= LARGEST[kvType], `${name}: ${Math.max(...errors)}`);
    }
  });

  test(`${kvType}: 1, 2 and 4 threads, one batch and single tokens give the same bits`, async (t) => {
    const ids = idsOf(100);
    const first = await open(t, 'mqa-q4_0', { kvType });
    const rows = await first.debug.logits(ids, { all: true });
    for (const threads of [1, 2, 4]) {
      const model = await open(t, 'mqa-q4_0', { kvType, threads });
      assert.deepEqual(await model.debug.logits(ids, { all: true }), rows);
      for (let k = 90; k <= ids.length; k++) {
        const row = await model.debug.logits(ids.slice(0, k));
        assert.deepEqual(row, rows.slice((k - 1) * 320, k * 320), `${threads} threads, ${k} ids`);
      }
    }
  });

  test(`${kvType}: logits after a rewind, within and beyond the window, equal those of a fresh start`, async (t) => {
    const model = await open(t, 'parity-q4_0', { kvType });
    const fresh = await open(t, 'parity-q4_0', { kvType });
    const long = idsOf(150);
    await model.debug.logits(long);
    for (const kept of [149, 140, 60, 5]) {
      const ids = [...long.slice(0, kept), ...idsOf(9, kept)];
      const { usage } = await model.generate(ids, { maxTokens: 70, temperature: 0 }).result();
      if (kept === 149) assert.ok(usage.reusedTokens > 0);
      const rows = await fresh.debug.logits(ids, { all: true });
      assert.deepEqual(await model.debug.logits(ids), rows.subarray(rows.length - 320), `back to ${kept}`);
    }
  });
}

test('all types, including auto, give different logits', async (t) => {
  const all = [];
  for (const kvType of KV_TYPES) all.push(await (await open(t, 'parity-q8_0', { kvType })).debug.logits(idsOf(60)));
  for (const [i, a] of all.entries()) for (const b of all.slice(0, i)) assert.notDeepEqual(a, b);
});

test('a cloned chat answers like the original', async (t) => {
  const model = await open(t, 'tiny', { kvType: 'q8_0' });
  const chat = model.chat();
  await chat.send('Hello', { maxTokens: 20, temperature: 0 }).text();
  const clone = chat.clone();
  const [a, b] = [
    await clone.send('More', { maxTokens: 20, temperature: 0 }).text(),
    await chat.send('More', { maxTokens: 20, temperature: 0 }).text(),
  ];
  assert.equal(a, b);
});

test('the perplexity of a trained model hardly changes', async (t) => {
  if (features().relaxed) return t.skip('both builds have the same bits (processors.test.js): one is enough');
  const exact = await perplexityOf('f32');
  for (const kvType of KV_TYPES) {
    const found = await perplexityOf(kvType);
    t.diagnostic(`${kvType}: ${found.toFixed(4)}`);
    assert.ok(Math.abs(found / exact - 1) <= APART, `${kvType}: ${found}, f32: ${exact}`);
  }
});

test('the memory plan knows the type: q8_0 needs 34 bytes for 32 values, i16 2 bytes for a value and 16 for a head', async () => {
  const path = await testModel('mqa-q4_0');
  const [auto, f32, i16, q8] = await Promise.all(
    KV_TYPES.map(async (kvType) => {
      const { info } = await inspectModel(path, { kvType });
      const model = await loadModel(path, { kvType });
      await model.dispose();
      assert.equal(model.info.memory.kv, info.memory.kv);
      return info.memory.kv;
    }),
  );
  assert.ok(Math.abs(i16 / f32 - (2 * 256 + 16) / 1024) < 1e-3 && Math.abs(q8 / f32 - 34 / 128) < 1e-3);
  assert.ok(i16 < auto && auto < f32);
});

test('auto keeps the precision of the weights: floats in a float file, unless its weights are quantised', async () => {
  const path = await testModel('mqa-f32');
  /** @param {import('../../js/options.js').LoadOptions} options */
  const kv = async (options) => (await inspectModel(path, options)).info.memory.kv;
  assert.equal(await kv({}), await kv({ kvType: 'f32' }));
  assert.ok((await kv({ quantizeFloats: 'q8_0' })) < (await kv({ kvType: 'f32' })));
});
