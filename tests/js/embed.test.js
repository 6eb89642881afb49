/**
 * Tests embed(): vectors match transformers' (tests/vectors/embed.md), and their bits do not depend on other texts of
 * the call or on threads. Also tests tasks, options and rejected inputs.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { open, refuses } from './helpers.js';
import { MODELS, readHeader, testModel, weightsSha256 } from './models.js';

const vectors = new URL('../vectors/', import.meta.url);
const ABOUT = JSON.parse(fs.readFileSync(new URL('embed.json', vectors), 'utf8'));
const BYTES = fs.readFileSync(new URL('embed.bin', vectors));
const ALL = new Float32Array(BYTES.buffer.slice(BYTES.byteOffset, BYTES.byteOffset + BYTES.length));

/** Largest allowed cosine distance (1 - cosine) between a vector and its reference, by the model's name.
 * @type {[RegExp, number][]} */
const LARGEST = [
  [/f32|f16|outliers/, 1e-5],
  [/q8_0|300m/, 1e-3],
  [/q4_0/, 1e-2],
];

/** Names of models that embed the longest reference text, too. */
const WHOLE = /-(f32|q8_0|300m)$/;

/** @param {string} name */
function truthOf(name) {
  const { first, width, texts } = ABOUT.models[name];
  return ABOUT.texts[texts].texts.map((/** @type {unknown} */ _, /** @type {number} */ i) =>
    ALL.subarray(first + i * width, first + (i + 1) * width),
  );
}

/** Returns the cosine distance (1 - cosine) of two vectors, accurately even if they are close to each other.
 * @param {Float32Array} a @param {Float32Array} b */
function apart(a, b) {
  const length = (/** @type {Float32Array} */ v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
  const x = length(a);
  const y = length(b);
  return a.reduce((sum, v, i) => sum + (v / x - b[i] / y) ** 2, 0) / 2;
}

/** @param {Model} model @param {string[]} texts @param {Float32Array[]} truth */
async function distances(model, texts, truth) {
  const vectors = /** @type {Float32Array[]} */ (await model.embed(texts));
  return vectors.map((vector, i) => apart(vector, truth[i]));
}

const mean = (/** @type {number[]} */ list) => list.reduce((a, b) => a + b, 0) / list.length;

for (const [name, { weightsSha256: expected, texts, llama, width }] of Object.entries(ABOUT.models)) {
  test(`${name}: vectors are as close to transformers' as llama.cpp's are`, async (t) => {
    const file = await testModel(name);
    const { ids } = ABOUT.texts[texts];
    const input = ABOUT.texts[texts].texts.slice(0, WHOLE.test(name) ? undefined : -1);
    assert.equal(weightsSha256(fs.readFileSync(file)), expected, 'the reference vectors belong to another model');
    const model = await open(t, name, { threads: 2 });
    const pooling = texts === 'embed-qwen3' ? 'last' : 'mean';
    const dense = texts !== 'embed-mqa' && pooling === 'mean';
    assert.deepEqual(model.info.embedding, { dimensions: width, pooling, dense });
    const bos = pooling === 'mean' ? [model.info.bosToken] : [];
    assert.deepEqual([...bos, ...(await model.tokenize(input[1])), ids[1].at(-1)], ids[1]);
    const far = await distances(model, input, truthOf(name));
    t.diagnostic(`1 - cosine: ${far.map((x) => x.toExponential(1)).join(' ')}; llama.cpp ${llama.join(' ')}`);
    const [, largest] = /** @type {[RegExp, number]} */ (LARGEST.find(([kind]) => kind.test(name)));
    assert.ok(Math.max(...far) <= largest, `the largest distance is ${Math.max(...far)}, limit ${largest}`);
    llama.length = far.length;
    assert.ok(mean(far) <= mean(llama), `mean ${mean(far)}, llama.cpp ${mean(llama)}`);
  });
}

test('Q8_0 files give nearly the same vectors as the float files that they were made from', async (t) => {
  for (const name of ['embed-mqa', 'embed-small']) {
    const model = await open(t, `${name}-q8_0`, { threads: 2 });
    const far = await distances(model, ABOUT.texts[name].texts, truthOf(`${name}-f32`));
    assert.ok(Math.max(...far) <= 1e-3, `${name}: 1 - cosine ${Math.max(...far)}`);
  }
});

const TEXTS = Array.from({ length: 70 }, (_, i) => {
  return `text ${i} ${'of some words, '.repeat((i * 7) % 23 === 0 ? 12 : i % 3)}`;
});
const bitsOf = (/** @type {Float32Array[]} */ list) =>
  list.map((v) => {
    return Buffer.from(v.buffer, v.byteOffset, v.byteLength).toString('hex');
  });

test('a text gives the same bits alone and among others, in any order, with any number of threads', async (t) => {
  for (const name of ['embed-small-f32', 'embed-q8_0', 'embed-mqa-q4_0']) {
    const first = await open(t, name, { threads: 2 });
    const together = bitsOf(await first.embed(TEXTS));
    for (const i of [0, 22, 23, 24, 64]) {
      assert.equal(bitsOf([await first.embed(TEXTS[i])])[0], together[i], `${name} ${i}`);
    }
    assert.deepEqual(bitsOf(await first.embed([...TEXTS].reverse())).reverse(), together, `${name} reversed`);
    for (const threads of [1, 4]) {
      const other = await open(t, name, { threads, contextLength: 250 });
      assert.deepEqual(bitsOf(await other.embed(TEXTS)), together, `${name}: ${threads} threads, another context`);
    }
  }
});

test('with an integer KV cache, a text gives the same bits alone and among others', async (t) => {
  for (const kvType of /** @type {const} */ (['i16', 'q8_0'])) {
    const model = await open(t, 'embed-q8_0', { kvType, threads: 2 });
    const together = bitsOf(await model.embed(TEXTS.slice(0, 26)));
    for (const i of [0, 23, 25]) assert.equal(bitsOf([await model.embed(TEXTS[i])])[0], together[i], `${kvType} ${i}`);
    assert.ok(apart(await model.embed(TEXTS[23]), await (await open(t, 'embed-q8_0')).embed(TEXTS[23])) < 1e-4, kvType);
  }
});

test("the prompts of tasks are those of the model's card", async (t) => {
  const model = await open(t, 'embed-q8_0');
  const text = 'a text';
  const plain = async (/** @type {string} */ whole) => bitsOf([await model.embed(whole)]);
  for (const [options, before] of /** @type {[object, string][]} */ ([
    [{ task: 'query' }, 'task: search result | query: '],
    [{ task: 'document' }, 'title: none | text: '],
    [{ task: 'document', title: 'A title' }, 'title: A title | text: '],
    [{ task: 'similarity' }, 'task: sentence similarity | query: '],
    [{ task: 'classification' }, 'task: classification | query: '],
    [{ task: 'clustering' }, 'task: clustering | query: '],
    [{ task: 'code' }, 'task: code retrieval | query: '],
    [{ task: 'question' }, 'task: question answering | query: '],
    [{ task: 'fact' }, 'task: fact checking | query: '],
    [{ prompt: 'mine: ' }, 'mine: '],
    [{}, ''],
  ])) {
    assert.deepEqual(bitsOf([await model.embed(text, options)]), await plain(before + text), JSON.stringify(options));
  }
  const titles = await model.embed([text, text], { task: 'document', title: ['One', ''] });
  assert.deepEqual(bitsOf(titles), [
    ...(await plain(`title: One | text: ${text}`)),
    ...(await plain(`title: none | text: ${text}`)),
  ]);
  for (const options of [
    { task: 'other' },
    { title: 'x' },
    { task: 'query', title: 'x' },
    { task: 'query', prompt: 'x' },
    { task: 'document', title: ['only one'] },
    { dimensions: 0 },
    { dimensions: 257 },
    { pooling: 'last' },
    { pool: 'mean' },
  ]) {
    await refuses(model.embed(['a', 'b'], /** @type {any} */ (options)), 'bad-option');
  }
  await refuses(model.embed(/** @type {any} */ ([1])), 'bad-option');
});

test('Qwen3-Embedding has two tasks, pools the last token, and rejects generation', async (t) => {
  const model = await open(t, 'embed-qwen3-q8_0');
  const plain = bitsOf([await model.embed('a text')]);
  assert.deepEqual(bitsOf([await model.embed('a text', { task: 'document', pooling: 'last' })]), plain);
  const query = 'Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:a text';
  assert.deepEqual(bitsOf([await model.embed('a text', { task: 'query' })]), bitsOf([await model.embed(query)]));
  for (const options of [{ task: 'code' }, { task: 'document', title: 'x' }, { pooling: 'mean' }]) {
    await refuses(model.embed('a', /** @type {any} */ (options)), 'bad-option');
  }
  await refuses(
    Promise.resolve().then(() => model.generate('a').text()),
    'not-generative',
  );
});

test('vectors have length 1, even with fewer dimensions, unless normalize is false', async (t) => {
  const model = await open(t, 'embed-f32');
  const whole = await model.embed('some text', { normalize: false });
  const length = (/** @type {Float32Array} */ v) => Math.hypot(...v);
  assert.equal(whole.length, 256);
  assert.ok(Math.abs(length(whole) - 1) > 0.01, 'not normalised');
  for (const dimensions of [256, 128, 5]) {
    const cut = await model.embed('some text', { dimensions });
    const part = whole.subarray(0, dimensions);
    assert.equal(cut.length, dimensions);
    assert.ok(Math.abs(length(cut) - 1) < 1e-6);
    assert.ok(apart(cut, part) < 1e-12);
    assert.deepEqual(await model.embed('some text', { dimensions, normalize: false }), part);
  }
  assert.deepEqual(await model.embed([]), []);
  const [alone] = await model.embed(['some text']);
  assert.deepEqual(alone, await model.embed('some text'));
});

test('texts that are too long are rejected, or truncated before the end token', async (t) => {
  const model = await open(t, 'embed-small-f32', { contextLength: 64 });
  const text = 'etaoin'.repeat(30);
  await refuses(model.embed(['short', text]), 'context-exceeded', /Text 1 has \d+ tokens; the model accepts 64/);
  const ids = await model.tokenize(text);
  const kept = await model.detokenize(ids.slice(0, 62));
  assert.equal((await model.tokenize(kept)).length, 62);
  assert.deepEqual(await model.embed(text, { truncate: true }), await model.embed(kept));
});

test('names of control tokens in a text are not encoded as control tokens', async (t) => {
  const model = await open(t, 'embed-f32');
  const seen = await model.debug.inside('a<eos>b');
  assert.deepEqual(
    seen.tokens.filter(({ id }) => id < 3).map(({ text }) => text),
    ['<bos>', '<eos>'],
  );
  assert.equal(seen.tokens.at(-1)?.text, '<eos>');
});

test('embedding reports progress, can be aborted at any time, and leaves the model usable', async (t) => {
  const model = await open(t, 'embed-q8_0');
  const before = await model.embed('a text');
  /** @type {{ done: number, total: number }[]} */
  const seen = [];
  await model.embed(TEXTS, { onProgress: (progress) => seen.push(progress) });
  assert.ok(seen.length > 1);
  assert.deepEqual(seen.at(-1), { done: 70, total: 70 });
  const long = Array.from({ length: 400 }, () => 'many words '.repeat(40));
  for (const wait of [0, 5, 60, 200]) {
    const abort = new AbortController();
    const running = model.embed(long, { signal: abort.signal });
    setTimeout(() => abort.abort(), wait);
    await refuses(running, 'aborted');
    assert.deepEqual(await model.embed('a text'), before);
  }
  await refuses(model.embed('x', { signal: AbortSignal.abort() }), 'aborted');
});

test('an embedding model rejects text generation', async (t) => {
  const model = await open(t, 'embed-q8_0');
  for (const call of [
    () => model.generate('x').text(),
    () => model.chat(),
    () => model.debug.logits([2]),
    () => model.debug.perplexity('a b'),
  ]) {
    await refuses(async () => call(), 'not-generative', /embed/);
  }
  assert.ok((await model.countTokens('a b')) > 0);
});

test('generative models embed texts if `pooling` is given', async (t) => {
  for (const name of ['tiny', 'gpt2-q4_0', 'llama-q4_0']) {
    const model = await open(t, name);
    assert.equal(model.info.embedding, null);
    await refuses(model.embed('a text'), 'bad-option', /'mean' or 'last'/);
    await refuses(model.embed('a text', { pooling: 'mean', task: 'query' }), 'bad-option');
    const text = 'a text of several words, '.repeat(8);
    const last = await model.embed(text, { pooling: 'last' });
    const both = await model.embed([text, 'a'], { pooling: 'mean' });
    assert.equal(last.length, model.info.width);
    assert.ok(apart(last, both[0]) > 1e-4);
    assert.deepEqual(await model.embed(text, { pooling: 'mean' }), both[0]);
    assert.ok((await model.generate(text, { maxTokens: 3, temperature: 0 }).result()).tokens.length > 0);
  }
});

test('causal models embed several texts in one batch, with the same bits as alone', async (t) => {
  const texts = [
    ...Array.from({ length: 24 }, (_, i) => 'word '.repeat(i % 5) + i),
    'a longer text, '.repeat(12),
    'x',
    'y z',
  ];
  for (const [name, options] of /** @type {const} */ ([
    ['tiny', {}],
    ['gpt2-q4_0', { threads: 1 }],
    ['llama-q8_0', { kvType: 'q8_0' }],
    ['gemma2-q4_0', { threads: 2, kvType: 'i16', contextLength: 250 }],
  ])) {
    const model = await open(t, name, options);
    for (const pooling of /** @type {const} */ (['mean', 'last'])) {
      /** @type {number[]} */
      const steps = [];
      const together = bitsOf(await model.embed(texts, { pooling, onProgress: ({ done }) => steps.push(done) }));
      assert.ok(steps.length < texts.length / 2, `${name}: ${steps}`);
      for (const i of [0, 4, 11, 23, 24, 25, 26]) {
        assert.equal(bitsOf([await model.embed(texts[i], { pooling })])[0], together[i], `${name} ${pooling} ${i}`);
      }
    }
    // Later prompts do not reuse the KV cache of an embedded text with the same beginning.
    const prompt = texts.slice(0, 3).join('');
    const fresh = await open(t, name, options);
    assert.deepEqual(
      await model.debug.logits([...(await model.tokenize(prompt))]),
      await fresh.debug.logits([...(await fresh.tokenize(prompt))]),
    );
  }
  const small = await open(t, 'tiny', { contextLength: 24 });
  const few = texts.slice(0, 4);
  const alone = [];
  for (const text of few) alone.push(await small.embed(text, { pooling: 'mean' }));
  assert.deepEqual(await small.embed(few, { pooling: 'mean' }), alone);
});

test('inspectModel() predicts the memory of loading', async (t) => {
  const { info } = await inspectModel(await testModel('embed-q4_0'), { contextLength: 100 });
  const model = await open(t, 'embed-q4_0', { contextLength: 100 });
  for (const part of /** @type {const} */ (['weights', 'kv', 'scratch', 'total'])) {
    assert.equal(model.info.memory[part], info.memory[part], part);
  }
  assert.deepEqual(info.embedding, model.info.embedding);
});

test('invalid headers of embedding models are rejected with an error that names the key or tensor', async (t) => {
  /** @param {NonNullable<ModelSpec['edit']>} edit */
  const edited = (edit) => open(t, { ...MODELS['embed-q8_0'], layers: 1, edit });
  const without = (/** @type {string} */ name) =>
    edited((file) => {
      file.metadata = file.metadata.filter(([key]) => !key.endsWith(name));
      file.tensors = file.tensors.filter((tensor) => tensor.name !== name);
    });
  const withKey = (/** @type {string} */ key, /** @type {any} */ ...entry) =>
    edited((file) => {
      const whole = `gemma-embedding.${key}`;
      file.metadata = [...file.metadata.filter(([name]) => name !== whole), /** @type {any} */ ([whole, ...entry])];
    });
  await refuses(without('dense_3.weight'), 'missing-tensor', /dense_3/);
  await refuses(without('dense_2_feat_out'), 'missing-key', /dense_2_feat_out/);
  await refuses(withKey('pooling_type', 'u32', 2), 'bad-metadata', /pooling_type/);
  await refuses(withKey('dense_2_feat_out', 'u32', 512), ['bad-metadata', 'bad-shape'], /dense/);
  await refuses(withKey('dense_3_feat_out', 'u32', 512), 'bad-metadata', /dense_3_feat_out/);
  await refuses(withKey('attention.causal', 'bool', true), 'bad-metadata', /causal/);
  await withKey('attention.causal', 'bool', false);
});

test('a vector that overflows is reported, and the model stays usable', async (t) => {
  const bytes = fs.readFileSync(await testModel('embed-f32'));
  const { dataOffset, tensors } = readHeader(bytes);
  const norm = tensors.find(({ name }) => name === 'output_norm.weight');
  assert.ok(norm);
  for (let i = 0; i < norm.shape[0]; i++) bytes.writeFloatLE(3e38, dataOffset + norm.offset + 4 * i);
  const model = await loadModel(new Uint8Array(bytes), { threads: 1 });
  t.after(() => model.dispose());
  for (const normalize of [true, false]) {
    await refuses(
      model.embed('some words', { normalize }),
      'not-finite',
      /^The vector of text 0 is not finite: the model's weights overflow float32\. Load another file/,
    );
  }
  assert.ok((await model.tokenize('some words')).length > 0);
});
