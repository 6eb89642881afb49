/* Tests speculative decoding with a draft model: answers are the same with and without it, whatever it drafts and
 * whatever fails or is aborted meanwhile, and drafting pauses if drafts save no time. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { DraftModel } from '../../js/engine/draft-model.js';
import { ModelError } from '../../js/errors.js';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { isCached } from '../../js/cached.js';
import { FREE, RUNNING, SAMPLINGS, TIMES, answering, idsOf, pair, platform, talk } from './drafting.js';
import { essence, newFolder, open, refuses, serveWith, someIds, until } from './helpers.js';
import { MODELS, STORYTELLER, testModel } from './models.js';
import { splitModel } from './split.js';

for (const [name, drafter, least] of /** @type {const} */ ([
  ['storyteller', 'storyteller', 100],
  ['tiny-f32', 'tiny', 20],
  ['parity-q4_0', 'mqa-q4_0', 0],
])) {
  test(`${name}: answers are the same with and without drafts of ${drafter}`, async (t) => {
    for (const threads of [1, 2]) {
      const { answer, draftModel } = await answering(t, await testModel(name), await testModel(drafter), threads);
      for (let seed = 0; seed < 4; seed++) {
        const ids = idsOf(3 + 27 * seed, seed);
        for (const sampling of SAMPLINGS) {
          const plain = await answer({ ids }, { seed, ...sampling, draft: false });
          const drafted = await answer({ ids }, { seed, ...sampling }, { draftModel });
          assert.deepEqual(drafted, plain, `${threads} threads, seed ${seed}, ${JSON.stringify(sampling)}`);
        }
      }
      const { accepted, drafted } = draftModel;
      t.diagnostic(`${threads} threads: ${accepted} of ${drafted} draft tokens were accepted`);
      assert.ok(drafted > 300 && accepted >= least && accepted < drafted, `${accepted} of ${drafted}`);
    }
  });
}

test('answers under a format are the same with and without a draft model', async (t) => {
  const { answer, draftModel } = await answering(t, STORYTELLER, STORYTELLER, 2);
  const properties = { name: { type: 'string', maxLength: 8 }, animal: { enum: ['dog', 'cat', 'red fox'] } };
  const schema = { type: 'object', properties, required: ['name', 'animal'], additionalProperties: false };
  for (let seed = 0; seed < 12; seed++) {
    for (const format of [{ schema }, { regex: '[a-z ]{5,40}\\.' }]) {
      const options = { seed, temperature: seed % 2, format, jumpForward: seed % 3 > 0, maxTokens: 48 };
      const plain = await answer({ text: 'Once upon a time' }, { ...options, draft: false });
      assert.deepEqual(await answer({ text: 'Once upon a time' }, options, { draftModel }), plain);
    }
  }
  assert.ok(draftModel.accepted > 0 && draftModel.accepted < draftModel.drafted);
});

test('a draft model that equals the model drafts its greedy answer', async (t) => {
  const { native, draft } = await pair(t, STORYTELLER, STORYTELLER);
  const { answer } = await answering(t, STORYTELLER, STORYTELLER);
  const prompt = [...native.encode('One day, a little girl named Lily', false)];
  const { tokens } = await answer({ ids: prompt }, { temperature: 0, maxTokens: 40, draft: false });
  const model = new DraftModel(draft, platform, native.number('n_vocab'));
  for (let i = 0; i + 3 <= tokens.length; i++) {
    const ids = await model.draft([...prompt, ...tokens.slice(0, i)], FREE, RUNNING);
    assert.deepEqual(ids, tokens.slice(i, i + 3));
    model.judge(3, 3, TIMES);
  }
  // The context changes: wrong tokens, then a shorter context. Drafts depend only on the current context.
  const other = [...prompt, ...tokens.slice(0, 9), tokens[0], tokens[1]];
  const changed = await model.draft(other, FREE, RUNNING);
  const [first] = await model.draft(prompt, { ...FREE, room: 1 }, RUNNING);
  assert.equal(first, tokens[0]);
  assert.deepEqual(await model.draft(other, FREE, RUNNING), changed);
});

test('a draft model does not draft if the context is too long, or if too much of it is not evaluated yet', async (t) => {
  const { native, draft } = await pair(t, await testModel('tiny'), await testModel('tiny'), 1, 400);
  const model = new DraftModel(draft, platform, native.number('n_vocab'));
  assert.deepEqual(await model.draft(someIds(398), FREE, RUNNING), []);
  assert.deepEqual(await model.draft(someIds(300), FREE, RUNNING), []);
  assert.equal((await model.draft(someIds(300), { ...FREE, answered: 10 }, RUNNING)).length, 3);
  assert.equal((await model.draft([...someIds(300), 7], FREE, RUNNING)).length, 3);
});

test('if drafts of a draft model save no time, drafting pauses, for longer each time', async (t) => {
  const { native, draft } = await pair(t, await testModel('tiny'), await testModel('tiny'));
  const model = new DraftModel(draft, platform, native.number('n_vocab'));
  const ids = someIds(20);
  const slow = { ...FREE, times: [0, 1e-6, 1e-6, 1e-6, 1e-6] }; // each draft token takes longer than a single step
  let count = 0;
  for (let i = 0; i < 300; i++) {
    const { length } = await model.draft(ids, slow, RUNNING);
    if (!length) continue;
    count++;
    model.judge(length, length, slow.times);
  }
  assert.ok(count > 4 && count < 15, `${count} drafts`);
});

test('the number of draft tokens follows their acceptance', async (t) => {
  const { native, draft } = await pair(t, await testModel('tiny'), await testModel('tiny'));
  const model = new DraftModel(draft, platform, native.number('n_vocab'));
  const times = [0, 1e6, 1.5e6, 2e6, 2.5e6];
  const how = { ...FREE, times };
  for (let i = 0; i < 20; i++) model.judge(3, 3, times);
  assert.equal((await model.draft(someIds(20), how, RUNNING)).length, 3);
  for (let i = 0; i < 20; i++) model.judge(3, 0, times);
  let length = 0;
  for (let i = 0; i < 2000 && !length; i++) ({ length } = await model.draft(someIds(20), how, RUNNING));
  assert.equal(length, 1);
});

test('an abort ends a draft, and errors of the draft model only pause it', async (t) => {
  const { native, draft } = await pair(t, STORYTELLER, STORYTELLER);
  const model = new DraftModel(draft, platform, native.number('n_vocab'));
  const ids = someIds(50, 900);
  const expected = await model.draft(ids, FREE, RUNNING);
  await refuses(model.draft([...ids, 5], FREE, { aborted: true }), 'aborted');
  assert.deepEqual(await model.draft(ids, FREE, RUNNING), expected);
  assert.deepEqual(await model.draft([...ids, 1e6], FREE, RUNNING), []);
  assert.deepEqual(await model.draft(ids, FREE, RUNNING), []); // after an error, drafting pauses for one step
  assert.deepEqual(await model.draft(ids, FREE, RUNNING), expected);
  const { draw } = draft;
  draft.draw = () => {
    throw new ModelError('not-finite', 'The logits are not finite.');
  };
  assert.deepEqual(await model.draft(ids, FREE, RUNNING), []);
  draft.draw = () => {
    throw new WebAssembly.RuntimeError('unreachable');
  };
  const trapped = async () => {
    for (let i = 0; i < 9; i++) await model.draft(ids, FREE, RUNNING);
  };
  await assert.rejects(trapped, WebAssembly.RuntimeError);
  draft.draw = draw;
});

test('a model reports its draft model, and counts its bytes in the progress', async (t) => {
  /** @type {any[]} */
  const reports = [];
  const bytes = (await readFile(STORYTELLER)).length;
  const onProgress = (/** @type {any} */ progress) => void reports.push(progress);
  const model = await open(t, 'storyteller', {
    draftModel: await readFile(STORYTELLER),
    onProgress,
    contextLength: 256,
  });
  const { contextLength, parameters, name, memory } = model.info.draftModel ?? assert.fail();
  assert.deepEqual([contextLength, parameters, name], [256, model.info.parameters, model.info.name]);
  assert.equal(memory, model.info.memory.total);
  assert.deepEqual(
    reports.map(({ loaded }) => loaded),
    reports.map(({ loaded }) => loaded).sort((a, b) => a - b),
  );
  assert.deepEqual(
    reports.filter(({ phase }) => phase === 'ready').map(({ loaded, total }) => [loaded, total]),
    [[reports.at(-1).loaded, reports.at(-1).total]],
  );
  const without = await open(t, 'storyteller', { contextLength: 256 });
  assert.equal(without.info.draftModel, undefined);
  assert.equal(reports.at(-1).total, 2 * without.info.fileBytes);
  assert.ok(without.info.fileBytes <= bytes);
  assert.ok(model.info.memory.heap > without.info.memory.heap + memory / 2);
});

test('a loaded model drafts with its draft model, unless `draft` is false, even after a restart', async (t) => {
  const file = await testModel('parity-f32');
  const model = await open(t, 'parity-q4_0', { threads: 2, draftModel: file, restart: true });
  const options = { temperature: 0, maxTokens: 60, seed: 1 };
  const prompt = idsOf(40);
  const plain = await model.generate(prompt, { ...options, draft: false }).result();
  assert.equal(plain.timings.draftedTokens, undefined);
  const drafts = async () => {
    const answer = await model.generate(prompt, options).result();
    assert.deepEqual(essence(answer), essence(plain));
    return answer.timings.draftedTokens;
  };
  await until(drafts);
  await model.restart();
  await until(drafts);
  const before = await model.debug.heapBytes();
  for (let i = 0; i < 20; i++) await drafts();
  assert.equal(await model.debug.heapBytes(), before);
});

test('chats, aborted answers and answers at the same time are the same with a draft model', async (t) => {
  const draftModel = await testModel('parity-f32');
  const models = [
    await open(t, 'parity-q4_0', { sequences: 2 }),
    await open(t, 'parity-q4_0', { sequences: 2, draftModel }),
  ];
  const [plain, drafted] = await Promise.all(models.map(talk));
  assert.deepEqual(drafted.texts, plain.texts);
  assert.ok(drafted.draftedTokens > 0);
});

test('a draft model with another vocabulary, or one that cannot generate, is refused', async (t) => {
  const embedder = await testModel('embed-mqa-q8_0');
  for (const [name, draftModel, code, message] of /** @type {const} */ ([
    ['parity-q4_0', STORYTELLER, 'bad-option', /it has \d+ tokens, not 320/],
    ['parity-q4_0', await testModel('gpt2-q8_0'), 'bad-option', /its token \d+ is ".*", not ".*"\. Use/],
    ['parity-q4_0', embedder, ['not-generative'], /only computes embeddings/],
    ['tiny', new Uint8Array(100), 'bad-magic', /./],
    ['tiny', 7, 'unsupported-source', /got Number/],
  ])) {
    await refuses(open(t, name, { draftModel: /** @type {any} */ (draftModel) }), /** @type {any} */ (code), message);
  }
  await refuses(open(t, 'tiny', { draftModel: '' }), 'bad-option', /`draftModel` must be a model source/);
  const file = await readFile(await testModel('tiny'));
  const url = `${await serveWith(t, (_, response) => void response.end(file))}/model.gguf`;
  const cache = openCache(newFolder(t));
  await refuses(loadModel(url, { cache, threads: 1, draftModel: url }), 'bad-option', /must not be the model itself/);
});

test('a draft model can be a stream, the streams of a split file or a download, and has no digest in `sha256`', async (t) => {
  const file = await readFile(await testModel('parity-f32'));
  const address = await serveWith(t, (_, response) => response.setHeader('etag', '"1"').end(file));
  const url = `${address}/draft.gguf`;
  const path = await testModel('parity-q4_0');
  assert.deepEqual([await isCached(path), await isCached(path, { draftModel: url })], [true, false]);
  const parts = splitModel(file, 3).map((part) => new Blob([new Uint8Array(part)]).stream());
  for (const draftModel of [new Blob([file]).stream(), parts, url]) {
    const model = await open(t, MODELS['parity-q4_0'], { draftModel });
    assert.equal(model.info.draftModel?.quantisation, 'F32');
  }
  assert.equal(await isCached(path, { draftModel: url }), true);
  await refuses(
    open(t, 'parity-q4_0', { draftModel: file, sha256: ['0'.repeat(64), '1'.repeat(64)] }),
    'bad-option',
    /must have 1 digest/,
  );
  await refuses(open(t, 'parity-q4_0', { draftModel: file, sha256: '0'.repeat(64) }), 'sha256-mismatch');
});

test('inspectModel() reports what a draft model needs, and refuses one that cannot be used', async (t) => {
  for (const [name, other, contextLength] of /** @type {const} */ ([
    ['parity-q4_0', 'parity-f32', 50],
    ['gemma4-q4_0', 'assistant-q4_0', undefined],
  ])) {
    const draftModel = await testModel(other);
    const { info } = await inspectModel(await testModel(name), { draftModel, contextLength });
    const loaded = await open(t, name, { draftModel, contextLength });
    assert.deepEqual(info.draftModel, loaded.info.draftModel);
    assert.ok(Number(info.draftModel?.memory) > 10_000);
  }
  const draftModel = await readFile(await testModel('parity-f32'));
  await refuses(inspectModel(STORYTELLER, { draftModel }), 'bad-option', /must have the vocabulary of the model/);
});

test('the headers of a model are sent for its draft model only on the same host', async (t) => {
  const file = await readFile(await testModel('tiny'));
  const asked = /** @type {Set<string>} */ (new Set());
  const serve = () =>
    serveWith(t, ({ url, headers }, response) => {
      asked.add(`${url} ${headers.authorization}`);
      response.end(file);
    });
  const [host, other] = [await serve(), await serve()];
  const load = async (/** @type {string} */ source, /** @type {LoadOptions} */ options) => {
    const model = await loadModel(source, { threads: 1, ...options });
    t.after(() => model.dispose());
  };
  const options = { token: 'SECRET', cache: false };
  await load(`${host}/model`, { ...options, draftModel: `${host}/draft` });
  await load(`${host}/model`, { ...options, draftModel: `${other}/elsewhere` });
  await load(await testModel('tiny'), { ...options, draftModel: `${other}/alone` });
  const secret = 'Bearer SECRET';
  assert.deepEqual([...asked], [`/model ${secret}`, `/draft ${secret}`, '/elsewhere undefined', `/alone ${secret}`]);
});

test('a load is aborted while the draft model is downloaded', async (t) => {
  const file = await readFile(await testModel('parity-f32'));
  const address = await serveWith(t, (_, response) => void response.write(file.subarray(0, file.length / 2)));
  const control = new AbortController();
  const { signal } = control;
  const onProgress = (/** @type {any} */ { loaded }) => void (loaded > 1e5 && control.abort());
  await refuses(
    open(t, 'parity-q4_0', { draftModel: `${address}/draft.gguf`, signal, onProgress, cache: false }),
    'aborted',
  );
});
