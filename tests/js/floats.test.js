/**
 * quantizeFloats: tests how F32, F16 and BF16 matrices are stored. `mqa-q4_0` is made like Google's QAT files (layers
 * Q4_0, embedding F16, 160 wide), `parity-f16` has only floats. tests/c/test_floats.c compares bits.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { open, refuses, wrong } from './helpers.js';
import { testModel } from './models.js';

/** Returns the number of bytes saved by storing a row of `width` F16 weights as Q8_0. */
const saved = (/** @type {number} */ width) => 2 * width - (width / 32) * 34;

/** @param {import('node:test').TestContext} t @param {string} name
 * @param {import('../../js/options.js').LoadOptions} [options] */
async function load(t, name, options = {}) {
  const model = await open(t, name, { threads: 2, ...options });
  const logits = await model.debug.logits(Array.from({ length: 60 }, (_, i) => (i * i + 7) % model.info.vocabSize));
  return { model, logits, weights: model.info.memory.weights };
}

test('the F16 embedding of a quantised file is kept unless quantizeFloats is q8_0', async (t) => {
  const auto = await load(t, 'mqa-q4_0');
  const packed = await load(t, 'mqa-q4_0', { quantizeFloats: 'q8_0' });
  for (const options of [
    { quantizeFloats: 'auto' },
    { quantizeFloats: 'keep' },
    { threads: 1 },
    { quantizeFloats: undefined },
  ]) {
    const other = await load(t, 'mqa-q4_0', /** @type {any} */ (options));
    assert.deepEqual(other.logits, auto.logits);
    assert.equal(other.weights, auto.weights);
  }
  assert.notDeepEqual(packed.logits, auto.logits);
  assert.deepEqual((await load(t, 'mqa-q4_0', { quantizeFloats: 'q8_0', threads: 1 })).logits, packed.logits);
  assert.equal(auto.weights - packed.weights, 320 * saved(160));
  const { tensors } = await auto.model.inspect();
  assert.equal(
    tensors.find(({ name }) => name === 'token_embd.weight')?.type,
    'F16',
    'inspect() lists the type in the file',
  );
});

test('a float file is kept unless quantizeFloats is q8_0', async (t) => {
  const auto = await load(t, 'parity-f16');
  const kept = await load(t, 'parity-f16', { quantizeFloats: 'keep' });
  const packed = await load(t, 'parity-f16', { quantizeFloats: 'q8_0' });
  assert.deepEqual(auto.logits, kept.logits);
  assert.notDeepEqual(packed.logits, kept.logits);
  const { tensors } = await packed.model.inspect();
  const rows = tensors.filter(({ type }) => type === 'F16').map(({ shape: [width, n] }) => n * saved(width));
  assert.equal(
    kept.weights - packed.weights,
    rows.reduce((a, b) => a + b, 0),
  );
});

test('inspectModel() predicts the memory of the weights', async (t) => {
  const path = await testModel('mqa-q4_0');
  for (const quantizeFloats of /** @type {const} */ (['keep', 'q8_0'])) {
    const { info } = await inspectModel(path, { quantizeFloats });
    assert.equal(info.memory.weights, (await load(t, 'mqa-q4_0', { quantizeFloats })).weights);
  }
});

test('another value of quantizeFloats is rejected before anything is read', async () => {
  const loading = loadModel('/nowhere', wrong({ quantizeFloats: 'f16' }));
  await refuses(loading, 'bad-option', /quantizeFloats.*one of auto, keep, q8_0.*"f16"/);
});
