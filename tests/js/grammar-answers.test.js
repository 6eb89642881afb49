/* Answers under a grammar in the engine: every sampler ends with a text of the grammar; jump-forward tokens change
 * greedy answers only where the same text is tokenized differently; the worker sends heartbeats while it compiles. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { before, test } from 'node:test';
import { Host } from '../../js/engine/host.js';
import { Runner } from '../../js/engine/runner.js';
import { compile } from '../../js/grammar/index.js';
import { postable } from '../../js/options.js';
import { testModel } from './models.js';
import { accepts } from '../support/acceptor.js';

/** @type {(method: string, args: any) => Promise<{ value: any, steps: any[] }>} */
let call;
let beats = 0;

async function hosted() {
  /** @type {Map<number, (message: any) => void>} */
  const waiting = new Map();
  /** @type {any[]} */
  let steps = [];
  const host = new Host(
    (message) => {
      const { kind, id } = /** @type {any} */ (message);
      if (kind === 'steps') {
        steps.push(.../** @type {any} */ (message).steps);
        queueMicrotask(() => host.receive({ kind: 'ack', id, count: /** @type {any} */ (message).steps.length }));
      } else if (kind === 'beat') beats++;
      else if (kind !== 'progress') waiting.get(id)?.(message);
    },
    /** @type {any} */ ({
      compile: async (/** @type {string} */ name) => {
        return WebAssembly.compile(await readFile(new URL(`../../js/${name}`, import.meta.url)));
      },
      parallelism: () => 1,
      load: () => import('../../js/grammar.js'),
      yield: () =>
        new Promise((resolve) => {
          setImmediate(resolve);
        }),
      openFile(/** @type {string} */ path) {
        const file = openSync(path, 'r');
        return {
          size: fstatSync(file).size,
          read: (/** @type {Uint8Array} */ into) => readSync(file, into, 0, into.length, null),
          close: () => closeSync(file),
        };
      },
    }),
  );
  let last = 0;
  const send = (/** @type {any} */ message) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, (answer) => (answer.kind === 'done' ? resolve(answer.value) : reject(answer.error)));
      steps = [];
      host.receive({ ...message, id: last });
    });
  await send({
    kind: 'open',
    source: [{ kind: 'path', path: await testModel('tiny') }],
    options: { variant: 'simd128', threads: 1, place: undefined },
  });
  return async (/** @type {string} */ method, /** @type {any} */ args) => {
    const value = await send({ kind: 'call', method, args });
    return { value, steps };
  };
}

before(async () => {
  call = await hosted();
});

const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    city: { enum: ['Paris', 'Berlin'] },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    ok: { type: 'boolean' },
  },
  required: ['name', 'city', 'age', 'ok'],
  additionalProperties: false,
};

/** @param {object} options @param {boolean} forced */
async function answer(options, forced) {
  const format = { schema: SCHEMA };
  const prompt = { text: 'Hello' };
  const args = { ...postable({ maxTokens: 200, ...options }), prompt, format, jumpForward: forced };
  const { value, steps } = await call('generate', args);
  assert.equal(value.finishReason, 'stop', value.text);
  assert.ok(accepts(compile(format), value.text), value.text);
  return { ...value, forced: steps.filter((step) => step.forced).length };
}

test('with every sampler, answers match the grammar, with and without jump-forward', async () => {
  for (const options of [
    { temperature: 0 },
    { temperature: 1, seed: 1 },
    { temperature: 5, topK: 0, topP: 1, seed: 2 },
    { temperature: 1, topK: 3, minP: 0.1, repetitionPenalty: 1.3, seed: 3 },
    { temperature: 0, logprobs: 2 },
    { temperature: 0, logitBias: { 300: 5, 301: -Infinity } },
  ]) {
    for (const forced of [true, false]) {
      const value = await answer(options, forced);
      assert.ok(JSON.parse(value.text).age <= 150);
      if (!forced || 'logprobs' in options) assert.equal(value.forced, 0);
      else assert.ok(value.forced > 0, value.text);
    }
  }
});

/** Constraints under which answers have many jump-forward tokens between sampled tokens. */
const CONSTRAINTS = [
  SCHEMA,
  { const: { who: 'a "b" \\u00e9', list: [1, 22, 333] } },
  { type: 'array', items: { enum: ['north', 'northern', 'south'] }, minItems: 3, maxItems: 3 },
  {
    type: 'object',
    properties: {
      tool: { const: 'get_weather' },
      city: { type: 'string', maxLength: 5 },
      unit: { enum: ['celsius', 'fahrenheit'] },
    },
    required: ['tool', 'city', 'unit'],
    additionalProperties: false,
  },
];

/** Returns the ids of a greedy answer under a schema, and which of them are jump-forward tokens. @param {any} schema
 * @param {boolean} forced @param {[number, number][]} [bias] */
async function greedy(schema, forced, bias = []) {
  const options = { temperature: 0, maxTokens: 200, logitBias: Object.fromEntries(bias) };
  const { value, steps } = await call('generate', {
    ...postable(options),
    prompt: { text: 'Hello' },
    format: { schema },
    jumpForward: forced,
  });
  const own = steps.filter((step) => step.ids.length);
  return {
    text: value.text,
    ids: own.flatMap((step) => step.ids),
    forced: own.map((step) => step.forced),
    lengths: own.map((step) => step.text.length),
  };
}

test('greedy answers with and without jump-forward are equal, or first differ at a jump-forward token', async () => {
  let whole = 0;
  let apart = 0;
  for (const schema of CONSTRAINTS) {
    const on = await greedy(schema, true);
    const off = await greedy(schema, false);
    assert.ok(on.forced.includes(true) && !off.forced.includes(true), on.text);
    const at = on.ids.findIndex((id, i) => id !== off.ids[i]);
    if (at < 0) {
      assert.deepEqual(off.ids, on.ids);
      whole++;
      continue;
    }
    // Answers with and without jump-forward may differ only in the tokens of jump-forward text: without it, the model
    // may choose other tokens for this text than the tokenizer.
    apart++;
    assert.ok(on.forced[at], `token ${at} of ${on.ids} and ${off.ids}`);
  }
  assert.ok(whole + apart === CONSTRAINTS.length && apart > 0, `${whole} equal, ${apart} apart`);
});

test("greedy answers with and without jump-forward are equal if the model prefers the tokenizer's segmentation", async () => {
  for (const schema of CONSTRAINTS) {
    const first = await greedy(schema, true);
    // Imitates a model that has learned the tokenizer's segmentation: longer tokens are likelier.
    let bias = /** @type {[number, number][]} */ ([]);
    for (let round = 0; round < 4; round++) {
      const { ids, forced, lengths } = round ? await greedy(schema, true, bias) : first;
      const liked = new Map(bias);
      ids.forEach((id, i) => forced[i] && liked.set(id, 40 * lengths[i]));
      bias = [...liked];
    }
    const on = await greedy(schema, true, bias);
    const off = await greedy(schema, false, bias);
    assert.deepEqual(off.ids, on.ids, on.text);
    assert.ok(on.forced.filter(Boolean).length > 3 && !off.forced.includes(true));
  }
});

test('jump-forward tokens are evaluated with the prompt or the token before them, not in a separate step', async (t) => {
  const settle = t.mock.method(Runner.prototype, 'settle').mock;
  for (const schema of CONSTRAINTS) {
    const before = settle.callCount();
    const { forced } = await greedy(schema, true);
    const drawn = forced.filter((is) => !is).length;
    // The engine evaluates the prompt in one step, and each sampled token in another step, except the last, which is
    // not evaluated.
    assert.equal(settle.callCount() - before, drawn, `${forced}`);
  }
});

test('greedy and top-k answers are the same as from all logits', async () => {
  const draws = [{ temperature: 0 }, { temperature: 1.5, topK: 40, seed: 5 }];
  for (const [schema, draw] of CONSTRAINTS.flatMap((one) => draws.map((draw) => /** @type {const} */ ([one, draw])))) {
    const args = { prompt: { text: 'Hello' }, format: { schema } };
    const [some, all] = [{}, { logprobs: 0 }].map((more) => postable({ ...draw, maxTokens: 200, ...more }));
    const {
      value: { tokens },
    } = await call('generate', { ...some, ...args, jumpForward: false });
    assert.deepEqual((await call('generate', { ...all, ...args, jumpForward: false })).value.tokens, tokens);
  }
});

test('log probabilities are those of the masked distribution', async () => {
  const { logprobs } = await answer({ temperature: 0, logprobs: 4 }, true);
  for (const { logprob, top } of logprobs) {
    assert.ok(logprob <= 0 && top.every((/** @type {any} */ one) => one.logprob <= 0 || one.logprob === -Infinity));
    assert.equal(top[0].logprob, Math.fround(logprob));
  }
  const none = logprobs.some((/** @type {any} */ one) =>
    one.top.some((/** @type {any} */ two) => two.logprob === -Infinity),
  );
  assert.ok(none, 'at no step were fewer than four tokens allowed');
});

/* A worker receives no messages while it compiles a format. Without heartbeats, a slow compilation would count as a
 * lost worker. */
test('a worker sends heartbeats while it compiles a format', async (t) => {
  const schema = { type: 'array', items: { enum: Array.from({ length: 300 }, (_, i) => `item ${i}`) } };
  const now = performance.now.bind(performance);
  let hours = 0;
  t.mock.method(performance, 'now', () => now() + 3_600_000 * hours); // Heartbeats have a minimum interval.
  for (const [method, args] of /** @type {[string, any][]} */ ([
    ['match', { format: { schema }, texts: ['[]'] }],
    ['generate', { ...postable({ maxTokens: 1 }), prompt: { text: 'Hello' }, format: { schema } }],
  ])) {
    hours++;
    beats = 0;
    await call(method, args);
    assert.ok(beats > 0, method);
  }
});
