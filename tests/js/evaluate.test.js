/* Tests logits, perplexity, tokenize, detokenize, and model.info. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { features } from '../../js/platform/features.js';
import { logits } from '../../js/engine/logits.js';
import { open, refuses, sleep, someIds } from './helpers.js';
import { testModel } from './models.js';

/** Returns an id's negative log probability (-ln p), computed from a row of logits in double precision.
 * @param {Float32Array} row @param {number} id */
function loss(row, id) {
  const most = Math.max(...row);
  const sum = row.reduce((total, x) => total + Math.exp(x - most), 0);
  return Math.log(sum) + most - row[id];
}

test('perplexity in one window equals that computed from the logits', async (t) => {
  const model = await open(t);
  const text = 'The quick brown fox jumps over the lazy dog, twice.';
  const ids = await model.tokenize(text, { bos: true });
  const all = await model.debug.logits(ids, { all: true });
  let sum = 0;
  for (let i = 1; i < ids.length; i++) sum += loss(all.subarray((i - 1) * 1024, i * 1024), ids[i]);
  const result = await model.debug.perplexity(text);
  assert.equal(result.tokens, ids.length - 1);
  assert.ok(Math.abs(result.nll - sum / (ids.length - 1)) < 1e-5);
  assert.ok(Math.abs(result.perplexity / Math.exp(result.nll) - 1) < 1e-12);
});

test('perplexity in overlapping windows counts every token once, with at least half a window before it', async (t) => {
  const model = await open(t);
  const text = 'Call me Ishmael. Some years ago, never mind how long precisely. '.repeat(3);
  const ids = await model.tokenize(text, { bos: true });
  for (const window of [16, 17, 64]) {
    let sum = 0;
    let tokens = 0;
    const half = Math.floor(window / 2);
    for (let start = 0, next = 1; next < ids.length; start += half) {
      const part = ids.slice(start, start + window);
      const all = await model.debug.logits(part, { all: true });
      for (; next < start + part.length; next++) {
        assert.ok(start === 0 || next - start >= window / 2);
        sum += loss(all.subarray((next - start - 1) * 1024, (next - start) * 1024), ids[next]);
        tokens++;
      }
    }
    const result = await model.debug.perplexity(text, { window });
    assert.equal(result.tokens, tokens);
    assert.equal(tokens, ids.length - 1);
    assert.ok(Math.abs(result.nll - sum / tokens) < 1e-5, `window ${window}: ${result.nll} and ${sum / tokens}`);
  }
});

test('logits() and perplexity() can be aborted, keep the reason of the signal, and leave the model unchanged', async (t) => {
  for (const threads of [1, 2]) {
    const model = await open(t, 'medium', { threads });
    const ids = someIds(30, 4096);
    const expected = await model.debug.logits(ids);
    for (const call of [
      (/** @type {AbortSignal} */ signal) => model.debug.logits(someIds(800, 4096), { signal }),
      (/** @type {AbortSignal} */ signal) =>
        model.debug.perplexity('some words and more of them '.repeat(200), { signal }),
    ]) {
      const controller = new AbortController();
      const reason = new DOMException('too late', 'TimeoutError');
      const waiting = call(controller.signal);
      await sleep(50);
      controller.abort(reason);
      const error = await refuses(waiting, 'aborted');
      assert.deepEqual([error.name, error.cause], ['TimeoutError', reason]);
      assert.deepEqual(await model.debug.logits(ids), expected);
    }
  }
});

test('tokenize and detokenize are inverse, with BOS and special tokens on demand', async (t) => {
  const model = await open(t);
  for (const text of ['', ' ', 'Hello  world\n\n', 'é🎉漢字 <bos> <end_of_turn>', '\ufeffx', '\u0000']) {
    const ids = await model.tokenize(text);
    assert.equal(await model.detokenize(ids), text, JSON.stringify(text));
    assert.deepEqual(await model.tokenize(text, { bos: true }), [model.info.bosToken, ...ids]);
    assert.ok(ids.every((id) => id !== model.info.bosToken));
  }
  const special = await model.tokenize('a<bos>b', { special: true });
  assert.ok(special.includes(model.info.bosToken ?? -1));
  assert.equal(await model.detokenize(special), 'ab');
  assert.equal(await model.detokenize(special, { special: true }), 'a<bos>b');
  assert.equal(await model.detokenize(Int32Array.from(special)), 'ab');
});

test('the variant is chosen by probing, and can be forced', async (t) => {
  const { relaxed } = features();
  const path = await testModel('tiny');
  const auto = await open(t, 'tiny', { threads: 2 });
  assert.equal(auto.info.variant, relaxed ? 'relaxed+threads' : 'simd128+threads');
  const plain = await open(t, 'tiny', { threads: 1, variant: 'simd128' });
  assert.equal(plain.info.variant, 'simd128');
  assert.equal(plain.info.threads, 1);
  assert.notEqual(plain.info.reason, '');
  assert.equal(auto.info.reason, '');
  if (relaxed) assert.equal((await open(t, 'tiny', { variant: 'relaxed' })).info.variant, 'relaxed');
  else await refuses(loadModel(path, { variant: 'relaxed' }), 'unsupported-variant');
});

test('model.info describes the file and its memory', async (t) => {
  const { info } = await open(t, 'tiny', { threads: 2, contextLength: 100 });
  assert.equal(info.architecture, 'gemma3');
  assert.equal(info.quantisation, 'Q4_0');
  assert.equal(info.contextLength, 100);
  assert.equal(info.trainedContextLength, 512);
  assert.equal(info.vocabSize, 1024);
  assert.equal(info.chatTemplate, true);
  assert.ok(info.parameters > 100_000 && info.fileBytes > 100_000);
  const { weights, kv, scratch, total } = info.memory;
  assert.ok(weights > 0 && kv > 0 && scratch > 0 && total >= weights + kv + scratch);
  assert.throws(() => {
    Object(info).contextLength = 5;
  }, TypeError);
});

test('perplexity() needs a context of at least two tokens', async (t) => {
  const one = await open(t, 'tiny', { contextLength: 1 });
  await refuses(one.debug.perplexity('some text'), 'bad-option', /`contextLength` must be at least 2.*got 1/);
  const two = await open(t, 'tiny', { contextLength: 2 });
  assert.ok((await two.debug.perplexity('some text')).tokens > 2);
});

test('logits that are too large to be posted are rejected before evaluation', async () => {
  const nothing = /** @type {any} */ ({ runner: { native: {} }, encoder: { size: 262144 } });
  const ids = Array.from({ length: 2048 }, () => 2);
  await refuses(logits(nothing, /** @type {any} */ ({}), { ids, all: true }), 'bad-option', /2048 ids.*at most 2046/);
});
