/**
 * model.debug.inside(): compares attention weights, logit lens and norms with transformers' (tests/vectors/inside.md)
 * and with the engine's logits; tests embed() with the option `pooling` on generative models, and rejected inputs.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { open, refuses, someIds } from './helpers.js';

const vectors = new URL('../vectors/', import.meta.url);
const MODELS = JSON.parse(fs.readFileSync(new URL('inside.json', vectors), 'utf8')).models;
const BYTES = fs.readFileSync(new URL('inside.bin', vectors));
const ALL = new Float32Array(BYTES.buffer.slice(BYTES.byteOffset, BYTES.byteOffset + BYTES.length));

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const farthest = (a, b) => Array.from(a).reduce((far, x, i) => Math.max(far, Math.abs(x - b[i])), 0);

for (const [name, { ids, layers, heads, width, global, tops, first }] of Object.entries(MODELS)) {
  const n = ids.length;
  const lengths = first + layers * heads * n * n;
  const pooled = lengths + (layers + 1) * n;
  /** @param {number} layer @param {number} head */
  const attention = (layer, head) => ALL.subarray(first + (layer * heads + head) * n * n).subarray(0, n * n);

  test(`${name}: attention weights match transformers', and add up to 1`, async (t) => {
    const model = await open(t, name, { threads: 2 });
    const seen = await model.debug.inside(ids, { heads: 'all' });
    assert.deepEqual(
      seen.tokens.map(({ id }) => id),
      ids,
    );
    assert.equal(seen.layers.length, layers);
    let largest = 0;
    for (const [l, { layer, kind, attention: weights = {}, lens, norms }] of seen.layers.entries()) {
      assert.deepEqual([layer, kind, lens, norms], [l, global[l] ? 'global' : 'local', undefined, undefined]);
      for (let head = 0; head < heads; head++) {
        largest = Math.max(largest, farthest(weights[head], attention(l, head)));
        for (let row = 0; row < n; row++) {
          const sum = weights[head].subarray(row * n, (row + 1) * n).reduce((a, b) => a + b, 0);
          assert.ok(Math.abs(sum - 1) < 1e-5, `layer ${l}, head ${head}, row ${row}: ${sum}`);
        }
      }
    }
    t.diagnostic(`largest difference ${largest}`);
    assert.ok(largest <= 1e-5, `largest difference ${largest}`);
  });

  test(`${name}: the logit lens matches transformers' head on its hidden states`, async (t) => {
    const model = await open(t, name, { threads: 2 });
    const seen = await model.debug.inside(ids, { lens: 8 });
    let compared = 0;
    for (const [l, { lens = [] }] of seen.layers.entries()) {
      assert.equal(lens.length, n);
      for (let row = 0; row < n; row++) {
        for (const [k, [id, probability]] of tops[l][row].slice(0, 5).entries()) {
          const mine = lens[row][k];
          const next = tops[l][row][k + 1][1];
          const before = k ? tops[l][row][k - 1][1] : Infinity;
          assert.ok(Math.abs(mine.probability - probability) < 1e-4, `layer ${l}, row ${row}, place ${k}`);
          if (probability - next < 1e-3 || before - probability < 1e-3) continue;
          assert.equal(mine.id, id, `layer ${l}, row ${row}, place ${k}`);
          compared++;
        }
      }
    }
    t.diagnostic(`${compared} clear places`);
    assert.ok(compared > n * layers, `only ${compared} clear places`);
  });

  test(`${name}: norms of the residual stream and pooled vectors match transformers'`, async (t) => {
    const model = await open(t, name, { threads: 2 });
    const seen = await model.debug.inside(ids, { norms: true });
    for (const [l, { norms = new Float32Array() }] of seen.layers.entries()) {
      assert.equal(norms.length, 3 * n);
      for (let row = 0; row < n; row++) {
        const before = ALL[lengths + l * n + row];
        const behind = ALL[lengths + (l + 1) * n + row];
        assert.ok(Math.abs(norms[3 * row] / before - 1) < 1e-5, `before layer ${l}, row ${row}`);
        assert.ok(Math.abs(norms[3 * row + 2] / behind - 1) < 1e-5, `behind layer ${l}, row ${row}`);
      }
    }
    const text = await model.detokenize(ids, { special: true });
    const again = [
      ...(model.info.bosToken !== null && name !== 'gpt2-f32' ? [model.info.bosToken] : []),
      ...(await model.tokenize(text)),
    ];
    const same = again.length === n && again.every((id, i) => id === ids[i]);
    if (!same) return t.diagnostic('no text has these ids: vectors are compared elsewhere');
    const [mean, last] = [ALL.subarray(pooled, pooled + width), ALL.subarray(pooled + width, pooled + 2 * width)];
    assert.ok(farthest(await model.embed(text, { pooling: 'mean', normalize: false }), mean) < 1e-3);
    assert.ok(farthest(await model.embed(text, { pooling: 'last', normalize: false }), last) < 1e-3);
  });
}

test('inside() returns the requested parts in the requested order, and nothing else', async (t) => {
  const model = await open(t, 'tiny');
  const ids = Array.from({ length: 150 }, (_, i) => 300 + ((i * 37) % 700));
  const whole = await model.debug.inside(ids, { heads: [0, 2], norms: true, lens: 2 });
  const some = await model.debug.inside(ids, { layers: [5, 1], heads: [2], positions: [-1, 70, 0], lens: 1 });
  assert.deepEqual(some.positions, [149, 70, 0]);
  assert.deepEqual(
    some.layers.map(({ layer }) => layer),
    [5, 1],
  );
  for (const { layer, attention = {}, lens = [], norms } of some.layers) {
    assert.equal(norms, undefined);
    assert.deepEqual(Object.keys(attention), ['2']);
    for (const [i, position] of some.positions.entries()) {
      const row = (/** @type {Float32Array} */ all, /** @type {number} */ at) => all.slice(at * 150, (at + 1) * 150);
      const all = whole.layers[layer].attention ?? {};
      assert.deepEqual(row(attention[2], i), row(all[2], position), `layer ${layer}, position ${position}`);
      assert.deepEqual(lens[i], whole.layers[layer].lens?.[position].slice(0, 1));
    }
  }
});

test('with no layers, inside() returns the tokens of any prompt, even a too long one, and keeps the KV cache', async (t) => {
  const model = await open(t, 'tiny', { contextLength: 64 });
  const messages = [{ role: /** @type {const} */ ('user'), content: 'some words' }];
  await model.generate(messages, { maxTokens: 1 }).result();
  const { tokens, layers } = await model.debug.inside(messages, { layers: [] });
  assert.deepEqual(layers, []);
  assert.equal(tokens.length, await model.countTokens(messages));
  assert.deepEqual(tokens[0], { id: model.info.bosToken, text: '<bos>' });
  const { usage } = await model.generate(messages, { maxTokens: 1 }).result();
  assert.equal(usage.reusedTokens, tokens.length - 1, 'inside() leaves the KV cache usable');
  assert.equal((await model.debug.inside('a b '.repeat(99), { layers: [] })).tokens.length > 64, true);
});

test("the last layer's lens gives the model's own probabilities, and inside() changes no later answer", async (t) => {
  for (const name of ['tiny', 'gemma2-q8_0', 'qwen3-q4_k_m', 'gemma4-q4_0']) {
    const model = await open(t, name, { threads: 2 });
    const text = 'some words, and more of them';
    const before = await model.generate(text, { maxTokens: 1, temperature: 0, logprobs: 4 }).result();
    const { layers } = await model.debug.inside(text, { layers: [model.info.layers - 1], positions: [-1], lens: 4 });
    const [lens] = layers[0].lens ?? [];
    assert.deepEqual(
      lens.map(({ id }) => id),
      before.logprobs?.[0].top.map(({ id }) => id),
    );
    assert.deepEqual(
      lens.map(({ probability }) => probability),
      before.logprobs?.[0].top.map((one) => Math.exp(one.logprob)),
    );
    const after = await model.generate(text, { maxTokens: 8, temperature: 0 }).result();
    const fresh = await open(t, name);
    assert.deepEqual(after.tokens, (await fresh.generate(text, { maxTokens: 8, temperature: 0 }).result()).tokens);
  }
});

test('attention weights have the same bits with any number of threads, for each type of the KV cache', async (t) => {
  const ids = Array.from({ length: 200 }, (_, i) => (i * i + 5) % 320);
  for (const kvType of /** @type {const} */ (['f32', 'i16', 'q8_0'])) {
    /** @type {any} */ let first;
    for (const threads of [1, 3]) {
      const model = await open(t, 'llama-q4_0', { threads, kvType });
      const { layers } = await model.debug.inside(ids, { heads: [1], layers: [3], positions: [199, 64] });
      first ??= layers;
      assert.deepEqual(layers, first);
      const sum = layers[0].attention?.[1].subarray(0, 200).reduce((a, b) => a + b, 0) ?? 0;
      assert.ok(Math.abs(sum - 1) < 1e-5);
    }
  }
});

test('embedding models show attention to tokens on both sides', async (t) => {
  const model = await open(t, 'embed-f32', { threads: 2 });
  const text = 'etaoin '.repeat(12);
  const { tokens, layers } = await model.debug.inside(text, { heads: [1], norms: true });
  const n = tokens.length;
  assert.ok(n > 64, 'the text has more tokens than a batch');
  for (const { kind, attention = {}, norms = [] } of layers) {
    for (let i = 0; i < n; i++) {
      const row = attention[1].subarray(i * n, (i + 1) * n);
      assert.ok(Math.abs(row.reduce((a, b) => a + b, 0) - 1) < 1e-5);
      row.forEach((weight, j) =>
        assert.equal(weight > 0, kind === 'global' || Math.abs(i - j) <= 12, `${kind} ${i} ${j}`),
      );
      assert.ok([0, 1, 2].every((k) => norms[3 * i + k] > 0));
    }
  }
  await refuses(model.debug.inside(text, { lens: 3 }), 'bad-option');
});

test('inside() rejects invalid options, and can be aborted', async (t) => {
  const model = await open(t, 'tiny');
  for (const options of [
    { layers: [6] },
    { heads: [4] },
    { heads: 'some' },
    { positions: [3000] },
    { lens: -1 },
    { lens: 65 },
    { norms: 1 },
    { depth: 1 },
  ]) {
    await refuses(model.debug.inside('a text', /** @type {any} */ (options)), 'bad-option');
  }
  await refuses(model.debug.inside([5, 6], { positions: [2] }), 'bad-option', /-2 to 1/);
  const abort = new AbortController();
  const ids = Array.from({ length: 500 }, (_, i) => 300 + i);
  setTimeout(() => abort.abort(), 20);
  await refuses(model.debug.inside(ids, { heads: 'all', lens: 8, signal: abort.signal }), 'aborted');
  assert.ok((await model.generate('x', { maxTokens: 2 }).result()).tokens.length > 0);
  const messages = await model.debug.inside([{ role: 'user', content: 'Hi' }], { layers: [0], norms: true });
  assert.ok(messages.tokens.length > 5);
});

for (const name of ['tiny', 'llama-f32']) {
  test(`${name}: inside() and embed() do not change later answers, bit for bit`, async (t) => {
    const [model, other] = await Promise.all([open(t, name), open(t, name)]);
    const options = { seed: 3, maxTokens: 30, logprobs: 2, logitBias: { 1: -Infinity } };
    const long = someIds(120, model.info.vocabSize);
    /** @param {typeof model} one @param {() => Promise<unknown>} between */
    const talk = async (one, between) => {
      const answers = [];
      const ids = long.slice(0, 60);
      for (let turn = 0; turn < 4; turn++) {
        const { tokens, logprobs, usage } = await one.generate(ids, options).result();
        answers.push({ tokens, logprobs, usage });
        await between();
        if (turn !== 1) ids.push(...tokens, 5 + turn); // Turn 2 repeats the prompt of turn 1.
      }
      return answers;
    };
    const expected = await talk(model, async () => {});
    const heap = await other.debug.heapBytes();
    assert.ok(
      expected.slice(1).every(({ usage }) => usage.reusedTokens >= 59),
      JSON.stringify(expected.map(({ usage }) => usage)),
    );
    const found = await talk(other, async () => {
      await other.debug.inside(long, { heads: [0], lens: 2, norms: true });
      await other.embed(['one text', 'and another one, which is longer'], { pooling: 'mean' });
      const end = new AbortController();
      const aborted = other.debug.inside(long, { lens: 2, signal: end.signal });
      end.abort();
      await refuses(aborted, 'aborted');
    });
    assert.deepEqual(found, expected);
    assert.equal(await other.debug.heapBytes(), heap);
  });
}
