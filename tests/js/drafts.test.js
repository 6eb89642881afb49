/* Tests speculative decoding: answers are the same with and without draft tokens, with every sampling, limit and stop
 * sequence; draft tokens are accepted in repeated text, and drafting pauses if drafts save no time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Drafts } from '../../js/engine/drafts.js';
import { generate } from '../../js/engine/jobs.js';
import { PromptEncoder } from '../../js/engine/prompt-encoder.js';
import { Runner } from '../../js/engine/runner.js';
import { postable } from '../../js/options.js';
import { loadedEngine } from './bare-engine.js';
import { open } from './helpers.js';
import { STORYTELLER } from './models.js';

/** @param {number} vocab @param {number} seed */
function repeated(vocab, seed) {
  const base = Array.from({ length: 12 + (seed % 9) }, (_, i) => 5 + ((i * 7919 + seed * 104729) % (vocab - 10)));
  return [...base, ...base, ...base.slice(0, 4 + (seed % 5))];
}

for (const name of ['storyteller', 'parity-q4_0', 'gemma4-q4_0']) {
  test(`${name}: answers are the same with and without drafts`, async (t) => {
    let accepted = 0;
    let wrong = 0;
    for (const threads of [1, 2]) {
      const model = await open(t, name, { threads });
      for (let seed = 0; seed < 2; seed++) {
        const ids = repeated(model.info.vocabSize, seed);
        for (const sampling of [
          { temperature: 0 },
          { temperature: 0, frequencyPenalty: 0.5, presencePenalty: 0.5 },
          { temperature: 1, seed },
          { temperature: 0.4, topK: 0, topP: 1, seed, repetitionPenalty: 1.2, logitBias: { 9: 3 } },
        ]) {
          const options = { ...sampling, maxTokens: 60 };
          const plain = await model.generate(ids, options).result();
          const { tokens, text, finishReason, timings } = await model
            .generate(ids, { ...options, draft: true })
            .result();
          assert.deepEqual([tokens, text, finishReason], [plain.tokens, plain.text, plain.finishReason]);
          assert.equal(plain.timings.draftedTokens, undefined);
          accepted += timings.acceptedTokens ?? 0;
          wrong += (timings.draftedTokens ?? 0) - (timings.acceptedTokens ?? 0);
        }
      }
    }
    if (name !== 'gemma4-q4_0') assert.ok(accepted > 0 && wrong > 0, `${accepted} right, ${wrong} wrong`);
  });
}

/** Returns 30 schemas, under which a model's keys and punctuation are jump-forward tokens. */
function schemas() {
  const values = [
    { type: 'boolean' },
    { type: 'integer', minimum: 0, maximum: 99 },
    { enum: ['a red ball', 'a big dog', 'the little girl'] },
    { type: 'string', maxLength: 6 },
    { type: 'array', items: { enum: ['happy', 'sad'] }, minItems: 1, maxItems: 2 },
    { const: 'Once upon a time' },
  ];
  const keys = [
    ['name'],
    ['the little girl', 'b'],
    ['ball', 'dog', 'tree'],
    ['One day', 'in the park'],
    ['x', 'happy'],
  ];
  return keys.flatMap((names) =>
    values.map((_, i) => ({
      type: 'object',
      properties: Object.fromEntries(names.map((name, j) => [name, values[(i + j) % values.length]])),
      required: names,
      additionalProperties: false,
    })),
  );
}

// The storyteller model runs with all schemas. The model with Gemma's large vocabulary runs with every fifth schema,
// because its token masks take longer.
for (const [name, every] of /** @type {const} */ ([
  ['storyteller', 1],
  ['gemma-vocab-tiny', 5],
])) {
  test(`${name}: answers under ${30 / every} schemas are the same with and without drafts`, async (t) => {
    const model = await open(t, name, { threads: 2 });
    const drafted = [0, 0];
    const accepted = [0, 0];
    const counts = [0, 0];
    for (const [seed, schema] of schemas().entries()) {
      if (seed % every) continue;
      for (const [i, temperature] of [0, 1].entries()) {
        const options = { temperature, seed, maxTokens: 48, format: { schema }, jumpForward: false };
        const plain = await model.generate('Once upon a time', options).result();
        const answer = await model.generate('Once upon a time', { ...options, draft: true }).result();
        const about = JSON.stringify(schema);
        assert.deepEqual([answer.tokens, answer.text], [plain.tokens, plain.text], about);
        assert.equal(answer.finishReason, plain.finishReason, about);
        drafted[i] += answer.timings.draftedTokens ?? 0;
        accepted[i] += answer.timings.acceptedTokens ?? 0;
        counts[i] += answer.tokens.length;
      }
    }
    t.diagnostic(`${accepted} of ${drafted} draft tokens were accepted, of ${counts} tokens (greedy, sampled)`);
    assert.ok(Math.min(...drafted) > 0 && accepted[0] + accepted[1] > 0, `${accepted} of ${drafted}`);
    if (name === 'storyteller') assert.ok(Math.min(...accepted) > 0, `${accepted}`);
  });
}

for (const name of ['storyteller', 'gemma-vocab-tiny']) {
  test(`${name}: drafts do not change answers with jump-forward tokens`, async (t) => {
    const model = await open(t, name, { threads: 2 });
    const properties = { animal: { enum: ['dog', 'cat', 'red fox'] }, name: { type: 'string', maxLength: 6 } };
    const item = { type: 'object', properties, required: ['animal', 'name'], additionalProperties: false };
    const format = { schema: { type: 'array', items: item, minItems: 4, maxItems: 4 } };
    const text = '[{"animal": "dog", "name": "Tim"}, {"animal": "red fox", "name": "Tim"}]';
    const sum = { accepted: 0, wrong: 0 };
    for (let seed = 0; seed < 6; seed++) {
      for (const maxTokens of [300, 20 + seed]) {
        const options = { temperature: seed % 2, seed, maxTokens, format };
        const plain = await model.generate(text, options).result();
        const { timings, ...answer } = await model.generate(text, { ...options, draft: true }).result();
        assert.deepEqual([answer.tokens, answer.finishReason], [plain.tokens, plain.finishReason]);
        sum.accepted += timings.acceptedTokens ?? 0;
        sum.wrong += (timings.draftedTokens ?? 0) - (timings.acceptedTokens ?? 0);
      }
    }
    assert.ok(sum.accepted > 0 && sum.wrong > 0, JSON.stringify(sum));
  });
}

test('an answer with drafts ends at maxTokens, at a stop sequence, at the end of the context, and on an abort', async (t) => {
  const model = await open(t, 'storyteller', { contextLength: 128 });
  const prompt = 'One day, a little girl named Lily found a red ball. One day, a little girl named';
  let draftTokens = 0;
  for (const options of [
    ...[1, 2, 3, 4, 5, 17].map((maxTokens) => ({ maxTokens })),
    { stop: ['ball'], maxTokens: 60 },
    { stop: ['y f'], maxTokens: 60 },
    { maxTokens: 1000 },
  ]) {
    const plain = await model.generate(prompt, { temperature: 0, ...options }).result();
    const drafted = await model.generate(prompt, { temperature: 0, draft: true, ...options }).result();
    draftTokens += drafted.timings.draftedTokens ?? 0;
    for (const key of /** @type {const} */ (['tokens', 'text', 'finishReason', 'stopSequence'])) {
      assert.deepEqual(drafted[key], plain[key], `${key} of ${JSON.stringify(options)}`);
    }
  }
  assert.ok(draftTokens > 0);
  const asked = { temperature: 0, maxTokens: 40, draft: true };
  const whole = await model.generate(prompt, asked).result();
  const control = new AbortController();
  const cut = model.generate(prompt, { ...asked, signal: control.signal });
  let count = 0;
  for await (const _ of cut) if (++count === 6) control.abort();
  assert.ok(whole.text.startsWith((await cut.result()).text));
  assert.equal((await model.generate(prompt, asked).result()).text, whole.text);
});

/** Returns a model that has loaded the module for draft tokens. Answers do not wait for this module, so the first
 * ones may be generated without drafts. @param {TestContext} t @param {string} name */
async function openWithDrafts(t, name) {
  const model = await open(t, name);
  for (let drafts; drafts === undefined; ) {
    drafts = (await model.generate('a', { maxTokens: 5, draft: true }).result()).timings.draftedTokens;
  }
  return model;
}

test('a chat with drafts has the same answers and saved cache as one without', async (t) => {
  const model = await openWithDrafts(t, 'parity-q4_0');
  const talk = async (/** @type {boolean} */ draft) => {
    const options = { temperature: 0, frequencyPenalty: -0.5, maxTokens: 40, draft }; // favours repeated words
    const chat = model.chat(options);
    const first = await chat.send('a b c d a b c d a b c').text();
    const second = await chat.send('a b c d a b c d').result();
    const again = model.chat({ ...options, saved: await chat.save() });
    const { tokens } = await again.restored;
    const third = await again.send('a b c').result();
    const accepted = [second, third].map(({ timings }) => timings.acceptedTokens ?? 0);
    assert.ok(!draft || Math.min(...accepted) > 0, `accepted: ${accepted}`);
    return [first, second.text, tokens, third.text];
  };
  assert.deepEqual(await talk(true), await talk(false));
});

test('a thinking model uses drafts, too, unless its thoughts have a budget', async (t) => {
  const model = await openWithDrafts(t, 'gemma4-tools');
  const text = 'a b c d e a b c d e a b c';
  for (const thinking of [true, false]) {
    const options = { temperature: 0, maxTokens: 50, thinking };
    const messages = [{ role: /** @type {const} */ ('user'), content: text }];
    const plain = await model.generate(messages, options).result();
    const drafted = await model.generate(messages, { ...options, draft: true }).result();
    assert.deepEqual([drafted.tokens, drafted.thoughts], [plain.tokens, plain.thoughts]);
    assert.equal(typeof drafted.timings.draftedTokens, 'number');
  }
  const options = { maxTokens: 20, draft: true, thinking: { budget: 4 } };
  const { timings } = await model.generate([{ role: 'user', content: text }], options).result();
  assert.equal(timings.draftedTokens, undefined);
});

/** Returns a Drafts object that knows the duration of a step without draft tokens, so that it drafts at once.
 * @param {number[]} prompt */
function measuredDrafts(prompt) {
  const drafts = new Drafts(prompt);
  drafts.measured(1, 10);
  return drafts;
}

test('drafts continue the last occurrence of the latest tokens', () => {
  const drafts = measuredDrafts([1, 2, 3, 4, 5, 6, 1, 2, 3]);
  assert.deepEqual(drafts.draft(10), [4, 5, 6]);
  assert.equal(drafts.add([4]), 1);
  assert.equal(drafts.add([9]), 0);
  assert.equal(drafts.end(), 2);
  assert.deepEqual([drafts.drafted, drafts.accepted], [3, 1]);
  drafts.add([1, 2]);
  assert.deepEqual(drafts.draft(10), []);
  drafts.add([3]);
  assert.deepEqual(drafts.draft(1), [4]);
});

test('drafts continue a repetition whose period is shorter than the draft', () => {
  assert.deepEqual(measuredDrafts([7, 7, 7, 7]).draft(10), [7, 7, 7]);
  assert.deepEqual(measuredDrafts([1, 2, 1, 2, 1]).draft(10), [2, 1, 2]);
});

test('after a wrong draft token, jump-forward tokens are not compared with the rest of the draft', () => {
  const drafts = measuredDrafts([1, 2, 3, 4, 5, 6, 1, 2, 3]);
  drafts.draft(10);
  assert.equal(drafts.add([4, 9, 5]), 1);
  assert.equal(drafts.end(), 2);
  assert.equal(drafts.accepted, 1);
});

test('if drafts save no time, drafting pauses, for longer each time', () => {
  const drafts = new Drafts(Array.from({ length: 9 }, (_, i) => i % 3));
  let count = 0;
  for (let i = 0; i < 600; i++) {
    const { length } = drafts.draft(3);
    drafts.measured(1 + length, length ? 30 : 10);
    count += Number(length > 0);
    drafts.end();
  }
  assert.ok(count > 0 && count < 20, `${count} drafts`);
});

test('a step without draft tokens is measured again and again', () => {
  const drafts = new Drafts([7, 7, 7, 7]);
  const single = Array.from({ length: 200 }, () => {
    const [id] = drafts.draft(1);
    drafts.measured(id === undefined ? 1 : 2, 10);
    drafts.add([7]);
    drafts.end();
    return Number(id === undefined);
  });
  assert.deepEqual([single[0], single[1], single.reduce((a, b) => a + b)], [1, 0, 4]);
});

test('steps during which other answers run are not measured', async () => {
  const native = await loadedEngine(STORYTELLER);
  const shared = { before: false, after: false };
  let isAfter = false;
  const runner = new Runner(native, /** @type {any} */ ({ yield: async () => {} }));
  const { settle } = runner;
  Object.assign(runner, {
    isShared: () => (isAfter ? shared.after : shared.before),
    async settle(/** @type {any} */ job, /** @type {any} */ hooks) {
      await settle.call(runner, job, hooks);
      isAfter = hooks === undefined; // the evaluation of the prompt passes `hooks`, decoding does not
    },
    async pause() {
      isAfter = false;
    },
  });
  /** @type {number[]} */
  const measured = [];
  class Recorded extends Drafts {
    /** @param {number} tokens @param {number} ms */
    measured(tokens, ms) {
      measured.push(tokens);
      super.measured(tokens, ms);
    }
  }
  const encoder = new PromptEncoder(
    native,
    async () => {},
    () => {},
  );
  const context = { runner, encoder, contextLength: 512, chatCacheBytes: 0, load: async () => ({ Drafts: Recorded }) };
  const job = { id: 0, aborted: false, unacked: 0, post() {}, stalled: async () => {}, othersWait: () => true };
  const args = {
    ...postable({ maxTokens: 12, temperature: 0, seed: 1, draft: true }),
    prompt: { ids: [2, 5, 9, 300] },
  };
  for (const [before, after] of [
    [false, false],
    [true, true],
    [true, false],
    [false, true],
  ]) {
    Object.assign(shared, { before, after });
    measured.length = 0;
    await generate(/** @type {any} */ (context), /** @type {any} */ (job), args);
    assert.equal(measured.length > 0, !before && !after, `${before} ${after}: ${measured}`);
  }
  native.close();
});
