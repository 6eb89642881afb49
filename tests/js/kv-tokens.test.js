/* Tests the option `kvTokens`, a KV cache with less room than all sequences could need: a call begins only if its room
 * is certain, waits without work otherwise, and no cache is dropped without need. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { LOAD } from '../../js/engine/engine.js';
import { Drafts } from '../../js/engine/drafts.js';
import { generate } from '../../js/engine/jobs.js';
import { PromptEncoder } from '../../js/engine/prompt-encoder.js';
import { Runner } from '../../js/engine/runner.js';
import { Sequences } from '../../js/engine/sequences.js';
import { postable } from '../../js/options.js';
import { CREDIT } from '../../js/protocol.js';
import { feed, planned } from './bare-engine.js';
import { idsOf } from './drafting.js';
import { open, sleep, someIds, until } from './helpers.js';
import { testModel } from './models.js';

/** The KV cache has 8 pages of 32 tokens. */
const ROOM = { sequences: 3, contextLength: 256, kvTokens: 256 };

/** Options of an answer with maxTokens tokens. @param {Model} model @param {number} maxTokens */
function whole({ info }, maxTokens) {
  const logitBias = Object.fromEntries(info.endTokens.map((id) => [id, -Infinity]));
  return { temperature: 0, maxTokens, logitBias };
}

/** Returns a function that generates answers in this thread, with the sequences of ROOM. `read` is the number of tokens
 * after which the reader of an answer pauses. @param {TestContext} t @param {object} [more] of the context */
async function inThisThread(t, more) {
  const file = await readFile(await testModel('parity-q4_0'));
  const native = await planned(file);
  for (const name of /** @type {const} */ (['sequences', 'kvTokens'])) native.loadOption(name, `${ROOM[name]}`);
  native.reserve(ROOM.contextLength);
  feed(native, file, LOAD.READY);
  const all = native.number('kv_free');
  const count = { yields: 0 };
  const platform = { yield: () => new Promise((resolve) => setImmediate(resolve, count.yields++)) };
  const runner = /** @type {any} */ (new Runner(native, /** @type {any} */ (platform)));
  t.after(() => {
    while (runner.makeRoom());
    assert.equal(native.number('kv_free'), all, 'no page is lost');
    native.close();
  });
  const load = async () => ({ Drafts });
  const encoder = new PromptEncoder(native, load, () => {});
  const context = { runner, encoder, contextLength: ROOM.contextLength, chatCacheBytes: 0, load, ...more };
  const jobs = /** @type {any[]} */ ([]);
  const sequences = new Sequences(context, runner, () => {
    for (const { wake } of jobs) wake();
  });
  const call = (/** @type {number[]} */ ids, /** @type {object} */ options, { read = Infinity } = {}) => {
    const state = { tokens: 0, isWaiting: false };
    const job = {
      id: jobs.length,
      aborted: false,
      alone: false,
      unacked: CREDIT,
      post: (/** @type {any} */ { steps = [] }) => {
        for (const step of steps) state.tokens += step.ids.length;
      },
      wake() {},
      stalled() {
        state.isWaiting = true;
        return new Promise((resolve) => Object.assign(job, { wake: resolve }));
      },
      othersWait: () => state.tokens < read || sequences.isFull,
      readAll() {
        read = Infinity;
        job.wake();
      },
    };
    jobs.push(job);
    const args = { ...postable(options), prompt: { ids } };
    const result = sequences.run(generate, job, args).then(({ tokens }) => tokens);
    return { result, job, state };
  };
  return { call, count };
}

test('a call that shares a prefix with an answer does not share its rejected draft tokens', async (t) => {
  const model = await open(t, 'parity-q4_0');
  const prompt = idsOf(59);
  const expected = (await model.generate(prompt, whole(model, 37)).result()).tokens;
  const wrong = [0, 1, 2].map((i) => 290 + i + Number(expected[2 + i] === 290 + i));
  let isUsed = false;
  const draftModel = {
    draft: async () => (isUsed ? [] : wrong),
    judge() {
      isUsed = true;
    },
  };
  const { call } = await inThisThread(t, { draftModel });
  // Two tokens are evaluated, the second together with the draft, so the KV cache has 64 tokens: two whole pages.
  const first = call(prompt, whole(model, 37), { read: 3 });
  await until(() => first.state.isWaiting);
  const other = [...prompt, ...expected.slice(0, 2), ...wrong, 300];
  const second = call(other, whole(model, 159), { read: 150 });
  await until(() => second.state.isWaiting);
  first.job.readAll();
  assert.deepEqual(await first.result, expected);
  assert.ok(isUsed);
  second.job.readAll();
  assert.deepEqual(await second.result, (await model.generate(other, whole(model, 159)).result()).tokens);
});

test('a call that waits for room does nothing until another call ends', async (t) => {
  const model = await open(t, 'parity-q4_0');
  const { call, count } = await inThisThread(t);
  const first = call(idsOf(100), whole(model, 100), { read: 3 });
  await until(() => first.state.isWaiting);
  first.job.othersWait = () => false; // keeps the answer from continuing while others wait for its room
  const others = [1, 2].map((i) => call([i, ...idsOf(100)], whole(model, 100)));
  await until(() => others.every(({ state }) => state.isWaiting), 5000);
  const before = count.yields;
  await sleep(50);
  assert.equal(count.yields, before);
  first.job.othersWait = () => true;
  first.job.wake();
  for (const { result } of [first, ...others]) assert.equal((await result).length, 100);
});

test('a call that waits for room drops no cache of an earlier call', async (t) => {
  const model = await open(t, 'parity-q4_0', ROOM);
  const idle = someIds(90, model.info.vocabSize);
  await model.generate(idle, { maxTokens: 0 }).result();
  const control = new AbortController();
  /** @type {Promise<any> | undefined} */
  let waiting;
  let tokens = 0;
  for await (const { ids } of model.generate([301], whole(model, 120)).steps()) {
    waiting ??= model.generate([302], { ...whole(model, 250), signal: control.signal }).result();
    if ((tokens += ids.length) > CREDIT + 10) control.abort(); // by now, the engine has received the other call
  }
  assert.equal((await waiting).finishReason, 'aborted');
  assert.equal((await waiting).usage.promptTokens, 1);
  const { usage } = await model.generate(idle, { maxTokens: 0 }).result();
  assert.equal(usage.reusedTokens, 89);
});

test('saving a conversation drops no cache of another one', async (t) => {
  const model = await open(t, 'parity-q4_0', ROOM);
  const chat = model.chat();
  await chat.send('A '.repeat(20), whole(model, 10)).result();
  const { usage } = await chat.send('B', whole(model, 10)).result();
  const pages = Math.ceil((usage.promptTokens + 10) / 32);
  const other = someIds((8 - pages) * 32, model.info.vocabSize);
  await model.generate(other, { maxTokens: 0 }).result();
  await chat.save();
  assert.equal((await model.generate(other, { maxTokens: 0 }).result()).usage.reusedTokens, other.length - 1);
});
