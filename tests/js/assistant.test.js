/* Tests assistants such as Gemma 4's: draft models whose layers use the keys and values of their target. Drafts match
 * transformers, answers are the same with and without them, and files that do not fit the target are refused. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { RUN } from '../../js/engine/engine.js';
import { DraftModel } from '../../js/engine/draft-model.js';
import { inspectModel } from '../../js/index.node.js';
import { GGML_TYPES } from '../../tools/models/gguf-write.js';
import { makeModel } from '../../tools/models/make-model.js';
import { FREE, RUNNING, SAMPLINGS, answering, idsOf, pair, platform, talk } from './drafting.js';
import { newFolder, open, refuses } from './helpers.js';
import { MODELS, testModel, weightsSha256 } from './models.js';

/** Largest allowed NMSE (normalised mean squared error) of the logits of a draft token. */
const LARGEST = 1e-6;

const vectors = new URL('../vectors/', import.meta.url);
/** @type {Record<string, { target: string, weightsSha256: string, targetSha256: string, ids: number[],
 *   chains: { evaluated: number, drafts: number[] }[] }>} */
const KNOWN = JSON.parse(fs.readFileSync(new URL('assistant.json', vectors), 'utf8')).models;
const TRUTH = new Float32Array(new Uint8Array(fs.readFileSync(new URL('assistant.bin', vectors))).buffer);

/** Returns the NMSE of the logits of a draft token. In transformers, all tokens of unlikely groups have the same
 * logit, which is lower than all others. These tokens are not compared.
 * @param {Float32Array} logits @param {Float32Array} truth */
function nmse(logits, truth) {
  const least = Math.min(...truth);
  const masked = truth.filter((x) => x === least).length > 1;
  let [error, size] = [0, 0];
  for (const [i, x] of truth.entries()) {
    if (masked && x === least) continue;
    error += (logits[i] - x) ** 2;
    size += x ** 2;
  }
  return error / size;
}

/** @param {Engine} native @param {number[]} ids */
function evaluate(native, ids) {
  native.sync(ids);
  while (native.call('run', 0) !== RUN.DONE);
}

/** @typedef {import('../../js/engine/engine.js').Engine} Engine */

test('drafts and their logits match transformers', async (t) => {
  let row = 0;
  for (const [name, { target, ids, chains, ...digests }] of Object.entries(KNOWN)) {
    const paths = [await testModel(target), await testModel(name)];
    const found = paths.map((path) => weightsSha256(fs.readFileSync(path)));
    assert.deepEqual(found, [digests.targetSha256, digests.weightsSha256]);
    const { native, draft } = await pair(t, paths[0], paths[1], 2, 256);
    const vocab = native.number('n_vocab');
    let most = 0;
    for (const { evaluated, drafts } of chains) {
      evaluate(native, ids.slice(0, evaluated));
      for (const [i, expected] of drafts.entries()) {
        const id = draft.call('draft', i ? drafts[i - 1] : ids[evaluated], Number(i > 0));
        assert.equal(id, expected, `${name} after ${evaluated} ids`);
        most = Math.max(most, nmse(draft.logits(), TRUTH.subarray(row, (row += vocab))));
      }
    }
    t.diagnostic(`${name}: largest NMSE ${most.toExponential(2)}`);
    assert.ok(most <= LARGEST, `${name}: ${most}`);
  }
  assert.equal(row, TRUTH.length);
});

test('drafts are the same for tokens evaluated together and one by one, and after rejected tokens', async (t) => {
  for (const [name, assistant] of [
    ['gemma4-q4_0', 'assistant-q4_0'],
    ['gemma4-q8_0', 'assistant-dense-q8_0'],
  ]) {
    const { native, draft } = await pair(t, await testModel(name), await testModel(assistant));
    const model = new DraftModel(draft, platform, native.number('n_vocab'), true);
    const ids = idsOf(60);
    const drafts = (/** @type {number} */ n) => model.draft(ids.slice(0, n + 1), { ...FREE, position: n }, RUNNING);
    evaluate(native, ids.slice(0, 50));
    const expected = [await drafts(50)];
    for (let n = 51; n < 54; n++) {
      native.call('append', ids[n - 1]);
      evaluate(native, ids.slice(0, n));
      expected.push(await drafts(n));
    }
    assert.equal(new Set(expected.map(String)).size, 4);
    // Four tokens in a step, as for drafts: the hidden state of each is kept, and rejected tokens are removed.
    evaluate(native, ids.slice(0, 49));
    native.call('want_last', 4);
    for (const id of ids.slice(49, 53)) native.call('append', id);
    while (native.call('run', 0) !== RUN.DONE);
    for (let n = 53; n >= 50; n--) {
      native.call('truncate', n);
      assert.deepEqual(await drafts(n), expected[n - 50], `${name} after ${n} ids`);
    }
  }
});

for (const [name, assistant] of [
  ['gemma4-q4_0', 'assistant-q4_0'],
  ['gemma4-q8_0', 'assistant-dense-q8_0'],
  ['gemma4-values-f32', 'assistant-dense-f32'],
]) {
  test(`${name}: answers are the same with and without drafts of ${assistant}`, async (t) => {
    for (const threads of [1, 2]) {
      const { answer, draftModel } = await answering(t, await testModel(name), await testModel(assistant), threads);
      for (let seed = 0; seed < 2; seed++) {
        const ids = idsOf(3 + 57 * seed, seed);
        for (const sampling of SAMPLINGS) {
          const plain = await answer({ ids }, { seed, ...sampling, draft: false });
          const drafted = await answer({ ids }, { seed, ...sampling }, { draftModel });
          assert.deepEqual(drafted, plain, `${threads} threads, seed ${seed}, ${JSON.stringify(sampling)}`);
        }
      }
      assert.ok(draftModel.drafted > 100);
    }
  });
}

/** Changes an assistant so that it drafts the token that most often follows the last token: its layers add nothing, and
 * pre_projection maps the embedding of a token to that of the next. @param {string} path of an assistant in F32
 * @param {string} target path of its target in F32 @param {Map<number, number>} next ids by the ids before them */
async function taught(path, target, next) {
  const file = await readFile(path);
  const tensorsOf = async (/** @type {string} */ from) => (await inspectModel(from)).tensors;
  const values = (/** @type {Buffer} */ bytes, /** @type {{ offset: number, bytes: number }} */ tensor) =>
    new Float32Array(bytes.buffer, bytes.byteOffset + tensor.offset, tensor.bytes / 4);
  const named = (/** @type {{ name: string }[]} */ list, /** @type {string} */ name) =>
    /** @type {any} */ (list.find((one) => one.name === name));
  const tensors = await tensorsOf(path);
  for (const one of tensors) if (/post_(attention|ffw)_norm/.test(one.name)) values(file, one).fill(0);
  const own = values(file, named(tensors, 'token_embd.weight'));
  const theirs = values(await readFile(target), named(await tensorsOf(target), 'token_embd.weight'));
  const weights = values(file, named(tensors, 'nextn.pre_projection.weight')).fill(0);
  const [width, targetWidth] = [own.length / 320, theirs.length / 320];
  for (const [id, following] of next) {
    for (let i = 0; i < width; i++) {
      const by = own[following * width + i];
      for (let j = 0; j < targetWidth; j++) weights[i * 2 * targetWidth + j] += by * theirs[id * targetWidth + j];
    }
  }
  return file;
}

test('drafts of an assistant that knows the answers are accepted', async (t) => {
  const target = await testModel('gemma4-f32');
  const path = join(newFolder(t), 'assistant.gguf');
  await makeModel({ ...MODELS['assistant-dense-q8_0'], type: 'F32' }, path);
  /** @type {Map<number, number>} */
  const next = new Map();
  const prompts = Array.from({ length: 8 }, (_, seed) => idsOf(20 + seed, seed));
  const options = { temperature: 0, maxTokens: 40 };
  const plain = await answering(t, target, path);
  const expected = [];
  for (const ids of prompts) {
    const { tokens } = await plain.answer({ ids }, { ...options, draft: false });
    expected.push(tokens);
    for (const [i, id] of tokens.entries()) next.set(i ? tokens[i - 1] : (ids.at(-1) ?? 0), id);
  }
  fs.writeFileSync(path, await taught(path, target, next));
  for (const threads of [1, 2]) {
    const { answer, draftModel } = await answering(t, target, path, threads);
    for (const [i, ids] of prompts.entries()) {
      assert.deepEqual((await answer({ ids }, options, { draftModel })).tokens, expected[i]);
    }
    const { accepted, drafted } = draftModel;
    t.diagnostic(`${threads} threads: ${accepted} of ${drafted} draft tokens were accepted`);
    assert.ok(accepted > drafted / 4 && accepted < drafted, `${accepted} of ${drafted}`);
  }
});

test('answers under a format are the same with and without an assistant', async (t) => {
  const { answer, draftModel } = await answering(
    t,
    await testModel('gemma4-q4_0'),
    await testModel('assistant-q4_0'),
    2,
  );
  const properties = { name: { type: 'string', maxLength: 8 }, animal: { enum: ['dog', 'cat', 'red fox'] } };
  const schema = { type: 'object', properties, required: ['name', 'animal'], additionalProperties: false };
  for (let seed = 0; seed < 6; seed++) {
    for (const format of [{ schema }, { regex: '[a-z ]{5,40}\\.' }]) {
      const options = { seed, temperature: seed % 2, format, jumpForward: seed % 3 > 0, maxTokens: 48 };
      const plain = await answer({ text: 'Once upon a time' }, { ...options, draft: false });
      assert.deepEqual(await answer({ text: 'Once upon a time' }, options, { draftModel }), plain);
    }
  }
  assert.ok(draftModel.drafted > 0);
});

test('chats, aborted answers and answers at the same time are the same with an assistant', async (t) => {
  const draftModel = await testModel('assistant-q4_0');
  const models = [
    await open(t, 'gemma4-q4_0', { sequences: 2 }),
    await open(t, 'gemma4-q4_0', { sequences: 2, draftModel }),
  ];
  assert.equal(models[1].info.draftModel?.architecture, 'gemma4-assistant');
  const [plain, assisted] = await Promise.all(models.map(talk));
  assert.deepEqual(assisted.texts, plain.texts);
  assert.ok(assisted.draftedTokens > 0);
});

test("the token ids of an assistant's centroids may be stored as floats", async (t) => {
  const target = await testModel('gemma4-f32');
  const path = join(newFolder(t), 'assistant.gguf');
  /** @type {import('../../tools/models/make-model.js').ModelSpec['edit']} */
  const edit = ({ tensors }) => {
    const tensor = tensors.find(({ name }) => name === 'masked_embd_ordering') ?? assert.fail();
    tensor.type = GGML_TYPES.F32.id;
  };
  await makeModel({ ...MODELS['assistant-f32'], edit }, path);
  const file = await readFile(path);
  const { offset } =
    (await inspectModel(path)).tensors.find((one) => one.name === 'masked_embd_ordering') ?? assert.fail();
  for (let at = offset; at < offset + 4 * 320; at += 4) file.writeFloatLE(file.readInt32LE(at), at);
  fs.writeFileSync(path, file);
  const found = [];
  for (const assistant of [path, await testModel('assistant-f32')]) {
    const { native, draft } = await pair(t, target, assistant);
    evaluate(native, idsOf(30));
    found.push([draft.call('draft', 7, 0), ...draft.logits()]);
  }
  assert.deepEqual(found[0], found[1]);
});

test('an assistant cannot be loaded as a model, or with a model that is not its target', async (t) => {
  const file = await testModel('assistant-f32');
  await refuses(
    open(t, 'assistant-f32', {}),
    'unsupported-architecture',
    /cannot be loaded alone, only as the `draftModel` of another model/,
  );
  const { info } = await inspectModel(file);
  assert.deepEqual([info.architecture, info.embedding], ['gemma4-assistant', null]);
  const belongs =
    /This draft model is made for another model: it needs a model with embedding_length 256, a window of 24/;
  await refuses(open(t, 'gemma4-values-f32', { draftModel: file }), 'bad-option', belongs);
  await refuses(open(t, 'parity-f32', { draftModel: file }), 'bad-option', /must have the vocabulary of the model/);
});

test('the engine refuses to draft if it has no hidden state of the last token', async (t) => {
  const { native, draft } = await pair(t, await testModel('gemma4-f32'), await testModel('assistant-f32'), 1, 64);
  const drafts = async (/** @type {number} */ id) => draft.call('draft', id, 0);
  await refuses(drafts(5), 'bad-state', /no hidden state for drafting the token after the id 5\./);
  const ids = idsOf(70);
  evaluate(native, ids.slice(0, 63));
  assert.ok((await drafts(5)) >= 0);
  for (const id of [-1, 320]) await refuses(drafts(id), 'bad-state', /no hidden state/);
  native.call('truncate', 60);
  await refuses(drafts(5), 'bad-state', /no hidden state/);
  evaluate(native, ids.slice(0, 64)); // the ids fill the assistant's context
  await refuses(drafts(5), 'bad-state', /no hidden state/);
});

test('files of assistants with wrong keys or tensors are refused', async (t) => {
  const name = (/** @type {string} */ key) => `gemma4-assistant.${key}`;
  /** @typedef {Parameters<NonNullable<import('../../tools/models/make-model.js').ModelSpec['edit']>>[0]} Header */
  const setKey =
    (/** @type {string} */ key, /** @type {any} */ value) =>
    (/** @type {Header} */ { metadata }) => {
      const entry = metadata.find(([one]) => one === name(key)) ?? assert.fail(key);
      entry[2] = value;
    };
  const tensor = (/** @type {Header} */ file, /** @type {string} */ one) =>
    file.tensors.find((found) => found.name === one) ?? assert.fail(one);
  const without = (/** @type {string} */ one) => (/** @type {Header} */ file) => {
    file.tensors.splice(file.tensors.indexOf(tensor(file, one)), 1);
  };
  for (const [edit, code, message] of /** @type {[(file: Header) => void, any, RegExp][]} */ ([
    [setKey('embedding_length_out', 252), 'bad-metadata', /embedding_length_out must be a multiple of 8 \(got 252\)/],
    [setKey('embedding_length_out', 0), 'bad-metadata', /embedding_length_out must be a whole number from 8/],
    [setKey('embedding_length_out', 264), 'bad-shape', /nextn\.pre_projection\.weight must have the shape \[528, 64\]/],
    [setKey('attention.sliding_window', 1), 'bad-metadata', /sliding_window must be a whole number from 2/],
    [setKey('attention.sliding_window', 25), 'bad-option', /a window of 25 tokens/],
    [without('masked_embd_ordering'), 'missing-tensor', /masked_embd_ordering is missing/],
    [without('masked_embd_centroids.weight'), 'missing-tensor', /masked_embd_centroids\.weight is missing/],
    [without('nextn.post_projection.weight'), 'missing-tensor', /nextn\.post_projection\.weight is missing/],
    [without('blk.2.attn_q.weight'), 'missing-tensor', /blk\.2\.attn_q\.weight is missing/],
    [(file) => (tensor(file, 'output_norm.weight').type = 26), 'unsupported-type', /type I32; it can be F32/],
    [
      (file) => (tensor(file, 'masked_embd_centroids.weight').shape = [64, 81]),
      'bad-shape',
      /must have the shape \[64, a divisor of 320\] \(got \[64, 81, 1, 1\]\)/,
    ],
  ])) {
    const path = join(newFolder(t), 'assistant.gguf');
    await makeModel({ ...MODELS['assistant-f32'], edit }, path);
    const draftModel = await readFile(path);
    await refuses(open(t, 'gemma4-f32', { draftModel }), code, message);
  }
  const path = await testModel('assistant-f32');
  const { tensors } = await inspectModel(path);
  const { offset } = tensors.find((one) => one.name === 'masked_embd_ordering') ?? assert.fail();
  for (const id of [320, -1, 0x7fffffff]) {
    const draftModel = await readFile(path);
    draftModel.writeInt32LE(id, offset + 4 * 17);
    await refuses(
      open(t, 'gemma4-f32', { draftModel }),
      'bad-token',
      /Item 17 of tensor masked_embd_ordering must be a token id below 320/,
    );
  }
});
