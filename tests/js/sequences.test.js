/* Tests sequences: answers that are generated together equal those of the same calls one after another, however the
 * calls are interleaved, and whatever fails or is aborted meanwhile. GW_ROUNDS is the number of random
 * interleavings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHandler } from '../../js/openai.js';
import { inspectModel } from '../../js/index.node.js';
import { PAGE, Pace } from '../../js/engine/sequences.js';
import { startServer } from '../../js/serve/server.js';
import { MAX_SEQUENCES } from '../../js/protocol.js';
import { valueOf } from '../../tools/release/readme/limits.js';
import { randoms } from '../support/random.js';
import { open, refuses, sleep, someIds } from './helpers.js';
import { testModel } from './models.js';

const ROUNDS = Number(process.env.GW_ROUNDS ?? 1);

/** @typedef {{ prompt: any, options: any }} Call */

/** Returns calls of every kind: their prompts share prefixes or not, and are shorter or longer than the windows.
 * @param {Model} model */
function callsFor({ info: { vocabSize, contextLength } }) {
  const common = someIds(150, vocabSize);
  const own = (/** @type {number} */ n, /** @type {number} */ from) => [2, ...someIds(n, vocabSize).reverse(), from];
  const sampled = { temperature: 1, topK: 40, topP: 0.95 };
  const schema = {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 8 }, old: { type: 'boolean' } },
    required: ['name', 'old'],
  };
  return /** @type {Call[]} */ ([
    { prompt: common, options: { temperature: 0, maxTokens: 30 } },
    { prompt: [...common, 301], options: { ...sampled, seed: 1, maxTokens: 40 } },
    { prompt: [...common.slice(0, 100), 302, 303], options: { ...sampled, seed: 2, maxTokens: 25, logprobs: 2 } },
    { prompt: common, options: { ...sampled, seed: 3, maxTokens: 30, repetitionPenalty: 1.2, penaltyWindow: 20 } },
    { prompt: own(5, 304), options: { temperature: 0.5, topK: 0, seed: 4, maxTokens: 60, logitBias: { 9: 2 } } },
    { prompt: own(200, 305), options: { temperature: 0, maxTokens: 10, draft: true } },
    { prompt: [...common, ...common.slice(0, 50)], options: { temperature: 0, maxTokens: 50, draft: true } },
    { prompt: 'Once upon a time', options: { ...sampled, seed: 5, maxTokens: 40, format: { schema } } },
    {
      prompt: 'Once',
      options: { ...sampled, seed: 6, maxTokens: 30, format: { regex: '[a-z ]{5,40}\\.' }, draft: true },
    },
    { prompt: 'A little girl', options: { ...sampled, seed: 7, maxTokens: 60, stop: ['.', 'e'] } },
    { prompt: 'A little dog', options: { temperature: 0, maxTokens: 0 } },
    { prompt: [2], options: { ...sampled, seed: 8, maxTokens: 45, jumpForward: false, format: 'json', draft: true } },
    { prompt: someIds(contextLength - 7, vocabSize), options: { temperature: 0, maxTokens: 30 } },
  ]);
}

/** @param {any} result */
const essence = ({ text, tokens, finishReason, logprobs, value, seed }) => {
  return { text, tokens, finishReason, logprobs, value, seed };
};

/** @param {Model} model @param {Call} call @param {AbortSignal} [signal] */
async function answer(model, { prompt, options }, signal) {
  return essence(await model.generate(prompt, { seed: 0, ...options, signal }).result());
}

/** Makes 12 calls at random moments. Some of the calls are aborted, have an invalid format or too many tokens, or
 * compute logits. @param {Model} model @param {Call[]} calls @param {any[]} expected
 * @param {(n: number) => number} random */
async function interleave(model, calls, expected, random) {
  const logits = await model.debug.logits([2, 301, 302]);
  const running = Array.from({ length: 12 }, async () => {
    await sleep(random(3) ? random(60) : 0);
    const kind = random(12);
    if (kind === 0) return refuses(model.generate('x', { format: { regex: '(' } }).result(), 'bad-format');
    if (kind === 1)
      return refuses(
        model.generate(someIds(model.info.contextLength + 1, model.info.vocabSize), {}).result(),
        'context-exceeded',
      );
    if (kind === 2) return assert.deepEqual(await model.debug.logits([2, 301, 302]), logits);
    const i = random(calls.length);
    if (kind > 5) return assert.deepEqual(await answer(model, calls[i]), expected[i], `call ${i}`);
    const control = new AbortController();
    setTimeout(() => control.abort(), random(40));
    const { text, tokens, finishReason } = await answer(model, calls[i], control.signal);
    if (finishReason !== 'aborted') return assert.deepEqual(tokens, expected[i].tokens);
    assert.deepEqual(tokens, expected[i].tokens.slice(0, tokens.length));
    return assert.ok(expected[i].text.startsWith(text.replace(/\ufffd+$/, '')), `${text} of ${expected[i].text}`);
  });
  await Promise.all(running);
}

for (const [name, threads, sequences, room] of /** @type {[string, number, number, number][]} */ ([
  ['storyteller', 1, 4, 4],
  ['parity-q4_0', 2, 2, 1],
  ['parity-q4_0', 3, 5, 1.5],
  ['gemma4-q4_0', 1, 3, 2],
])) {
  test(`${name}, ${threads} threads, ${sequences} sequences, room for ${room} contexts: randomly interleaved calls give the same answers as calls in turn`, async (t) => {
    const alone = await open(t, name, { threads });
    const calls = callsFor(alone);
    const expected = [];
    for (const call of calls) expected.push(await answer(alone, call));
    const kvTokens = Math.ceil(alone.info.contextLength * room);
    const model = await open(t, name, { threads, sequences, kvTokens });
    assert.equal(model.info.sequences, sequences);
    for (let round = 0; round < ROUNDS; round++) {
      await interleave(model, calls, expected, randoms(100 * round + sequences));
    }
    const all = () => Promise.all(calls.map((call) => answer(model, call)));
    assert.deepEqual(await all(), expected);
    const heap = await model.debug.heapBytes();
    await all();
    assert.equal(await model.debug.heapBytes(), heap);
  });
}

test('chats keep their own KV caches, and can be saved and restored beside other answers', async (t) => {
  const alone = await open(t);
  const model = await open(t, 'tiny', { sequences: 3 });
  const options = { temperature: 0, maxTokens: 8 };
  const system = 'Answer in one word. '.repeat(5);
  const talk = async (/** @type {Model} */ from, /** @type {boolean} */ together) => {
    const first = from.chat({ system, ...options });
    await first.send('Hello').text();
    const chats = [first, first.clone(), first.clone()];
    const used = [];
    for (let turn = 0; turn < 3; turn++) {
      const ask = (/** @type {Chat} */ chat, /** @type {number} */ i) => chat.send(`${i}, ${turn}?`).result();
      const results = together ? await Promise.all(chats.map(ask)) : [];
      if (!together) for (const [i, chat] of chats.entries()) results.push(await ask(chat, i));
      used.push(results.map(({ usage }) => usage));
    }
    return { chats, used, messages: chats.map(({ messages }) => messages) };
  };
  const expected = await talk(alone, false);
  const { chats, used, messages } = await talk(model, true);
  assert.deepEqual(messages, expected.messages);
  // Each chat evaluates only its new turn, although all chats share the model.
  for (const { promptTokens, reusedTokens } of used.slice(1).flat()) {
    assert.ok(promptTokens - reusedTokens < 40, `${reusedTokens} of ${promptTokens} tokens reused`);
  }
  const busy = model.generate(someIds(100), { temperature: 0, maxTokens: 100 }).result();
  const saved = await chats[1].save();
  const restored = model.chat({ saved });
  const { tokens } = await restored.restored;
  assert.ok(tokens > 50, `${tokens} tokens restored`);
  const next = await Promise.all([restored, chats[1]].map((chat) => chat.send('And now?').result()));
  assert.deepEqual(next[0].tokens, next[1].tokens);
  assert.ok(next.every(({ usage }) => usage.promptTokens - usage.reusedTokens < 40));
  assert.match((await busy).finishReason, /length|stop/);
});

test('sequences take turns while a joint step takes longer than single ones', () => {
  const share = (/** @type {Pace} */ pace, /** @type {number} */ ms) => {
    let joint = 0;
    for (let i = 0; i < 1000; i++) {
      const isJoint = pace.next();
      pace.measured(isJoint ? 4 : 1, isJoint ? ms : 10);
      if (isJoint) joint++;
    }
    return joint / 1000;
  };
  assert.equal(new Pace().next(), false, 'the first step evaluates one sequence, to measure its duration');
  const pace = new Pace();
  assert.ok(share(pace, 39) > 0.98);
  assert.ok(share(pace, 45) < 0.05);
  assert.ok(share(pace, 20) > 0.9);
});

test('several answers to one prompt evaluate it once', async (t) => {
  const model = await open(t, 'storyteller', { sequences: 4 });
  const prompt = 'Once upon a time there was a little girl. '.repeat(10);
  const handler = createHandler(model);
  const body = { model: 'x', prompt, n: 4, temperature: 1, seed: 3, max_tokens: 20 };
  const ask = (/** @type {object} */ more) => {
    const init = { method: 'POST', body: JSON.stringify({ ...body, ...more }) };
    return handler('http://localhost/v1/completions', init).then((response) => response.json());
  };
  const all = await Promise.all(
    [0, 1, 2, 3].map((seed) => model.generate(`${prompt}But`, { seed, maxTokens: 5 }).result()),
  );
  const evaluated = all.map(({ usage }) => usage.promptTokens - usage.reusedTokens).sort((a, b) => a - b);
  assert.deepEqual(evaluated.slice(0, 3), [1, 1, 1]);
  const { choices } = await ask({});
  for (const [i, { text }] of choices.entries()) {
    assert.equal(text, (await ask({ n: 1, seed: 3 + i })).choices[0].text);
  }
});

test('answers run together, and more calls than sequences wait', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 2 });
  const options = {
    temperature: 0,
    maxTokens: 60,
    logitBias: Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity])),
  };
  /** @type {string[]} */
  const events = [];
  const one = async (/** @type {string} */ name) => {
    for await (const step of model.generate(`${name} once`, options).steps()) if (step.ids.length) events.push(name);
  };
  await Promise.all(['a', 'b', 'c'].map(one));
  const first = (/** @type {string} */ name) => events.indexOf(name);
  const last = (/** @type {string} */ name) => events.lastIndexOf(name);
  assert.ok(first('a') < last('b') && first('b') < last('a'), 'the steps of a and b alternate');
  assert.ok(first('c') > Math.min(last('a'), last('b')), 'c waits');
  assert.equal(events.length, 180);
});

test('with kvTokens, answers share the room for the beginning of their prompts, and otherwise wait for room', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 3, contextLength: 256, kvTokens: 256 });
  const options = {
    temperature: 0,
    maxTokens: 10,
    logitBias: Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity])),
  };
  /** Returns the number of each answer that made a step, in the order of the steps.
   * @param {(i: number) => number[]} promptOf */
  const stepsOf = async (promptOf) => {
    /** @type {number[]} */
    const steps = [];
    const one = async (/** @type {number} */ i) => {
      for await (const step of model.generate(promptOf(i), options).steps()) if (step.ids.length) steps.push(i);
    };
    await Promise.all([0, 1, 2].map(one));
    return steps;
  };
  // 139 tokens need 5 of the KV cache's 8 pages. Answers whose first 128 tokens are the same need one page more each.
  const together = await stepsOf((i) => [...someIds(128, model.info.vocabSize), 301 + i]);
  const inTurn = await stepsOf((i) => [301 + i, ...someIds(128, model.info.vocabSize)]);
  const turns = (/** @type {number[]} */ steps) => steps.filter((i, k) => i !== steps[k - 1]).length;
  assert.equal(together.length, 30);
  assert.ok(turns(together) > 3, `${together}`);
  assert.deepEqual(
    inTurn,
    [0, 1, 2].flatMap((i) => Array(10).fill(i)),
  );
  await refuses(open(t, 'parity-q4_0', { sequences: 3, contextLength: 256, kvTokens: 255 }), 'bad-option', /256.*255/);
  const plan = async (/** @type {object} */ more) =>
    (await inspectModel(await testModel('parity-q4_0'), { sequences: 3, contextLength: 512, ...more })).info.memory.kv;
  assert.ok((await plan({ kvTokens: 512 })) < (await plan({})));
});

test('with kvTokens, a call that waits for room does not wait for the reader of another answer', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 2, contextLength: 256, kvTokens: 256 });
  const options = {
    temperature: 0,
    maxTokens: 200,
    logitBias: Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity])),
  };
  let tokens = 0;
  for await (const step of model.generate('Once', options).steps()) {
    if (!tokens) assert.equal((await model.generate('The', options).result()).tokens.length, 200);
    tokens += step.ids.length;
  }
  assert.equal(tokens, 200);
});

test('with kvTokens, an abort of a call that waits for room takes no room of a running one', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 2, contextLength: 256, kvTokens: 256 });
  const options = {
    temperature: 0,
    maxTokens: 31,
    logitBias: Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity])),
  };
  const prompt = someIds(225, model.info.vocabSize); // the answer fills the last page of the KV cache
  /** @type {Promise<any> | undefined} */
  let waiting;
  let tokens = 0;
  for await (const step of model.generate(prompt, options).steps()) {
    tokens += step.ids.length;
    if (waiting) continue;
    const control = new AbortController();
    waiting = model.generate([...prompt, 301], { ...options, signal: control.signal }).result();
    setTimeout(() => control.abort(), 5);
  }
  assert.equal((await waiting).finishReason, 'aborted');
  assert.equal(tokens, 31);
});

test('with kvTokens, the logits of all ids have room beside a longer context', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 2, contextLength: 256, kvTokens: 256 });
  const ids = someIds(190, model.info.vocabSize);
  const expected = await model.debug.logits(ids.slice(0, 150), { all: true });
  await model.generate(ids, { maxTokens: 0 }).result();
  assert.deepEqual(await model.debug.logits(ids.slice(0, 150), { all: true }), expected);
});

test('an abort ends one answer before its end, and no other', async (t) => {
  const model = await open(t, 'parity-q4_0', { sequences: 3 });
  const long = { maxTokens: 300, temperature: 0 };
  const others = ['a', 'b'].map((prompt) => model.generate(prompt, long).result());
  for (const prompt of [someIds(400, model.info.vocabSize), 'c']) {
    const control = new AbortController();
    const call = model.generate(prompt, { ...long, signal: control.signal }).result();
    await sleep(5);
    control.abort();
    assert.equal((await call).finishReason, 'aborted');
  }
  for (const other of others) assert.match((await other).finishReason, /length|stop/);
});

test('a request that disconnects or joins does not change the answers of the others', async (t) => {
  const models = [];
  for (const sequences of [1, 4]) {
    const model = await open(t, 'storyteller', { sequences });
    const server = await startServer({ x: model }, { port: 0 });
    t.after(() => server.close(0));
    models.push(server);
  }
  const [alone, together] = models;
  const ask = async (
    /** @type {{ url: string }} */ { url },
    /** @type {number} */ i,
    /** @type {AbortSignal} */ signal,
  ) => {
    const prompt = `${'Once upon a time '.repeat(1 + 10 * (i % 3))}there was a ${i}`;
    const body = JSON.stringify({ model: 'x', prompt, temperature: 1, seed: i, max_tokens: 60, stream: i % 2 > 0 });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', body, headers, signal });
    const lines = (await response.text()).split('\n').map((line) => line.replace('data: ', ''));
    const parts = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
    return parts.map(({ choices }) => choices[0]?.text ?? '').join('');
  };
  const { signal } = new AbortController();
  const expected = [];
  for (let i = 0; i < 6; i++) expected.push(await ask(alone, i, signal));
  assert.ok(expected.every((text) => text.length > 40));
  const leaving = new AbortController();
  const gone = ask(together, 9, leaving.signal);
  const first = [0, 1, 2].map((i) => ask(together, i, signal));
  await sleep(20);
  const joining = [3, 4, 5].map((i) => ask(together, i, signal));
  leaving.abort();
  await assert.rejects(gone, { name: 'AbortError' });
  assert.deepEqual(await Promise.all([...first, ...joining]), expected);
});

test('the memory plan counts the caches of all sequences', async (t) => {
  const file = await testModel('tiny');
  const [one, four] = await Promise.all(
    [1, 4].map((sequences) => inspectModel(file, { sequences, contextLength: 512 })),
  );
  assert.equal(one.info.sequences, 1);
  assert.equal(four.info.sequences, 4);
  assert.ok(Math.abs(four.info.memory.kv / one.info.memory.kv - 4) < 0.01);
  const model = await open(t, 'tiny', { sequences: 4 });
  assert.deepEqual(model.info.memory, { ...four.info.memory, heap: model.info.memory.heap });
  assert.equal(MAX_SEQUENCES, valueOf('src/run/session.h', 'GW_SEQUENCES'));
  assert.equal(PAGE, valueOf('src/kernels/kernels.h', 'GW_KEYS'));
});
