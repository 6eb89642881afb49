/* Tests gemma-wasm/openai as a function from requests to responses: routes, bodies, aborts, and models that are loaded
 * on demand. openai.test.js tests it through OpenAI's client. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createHandler } from '../../js/openai.js';
import { open, refuses, sleep, until, wrong } from './helpers.js';
import { watched } from './openai-client.js';

const CHAT = 'http://local/v1/chat/completions';
const MESSAGES = [{ role: 'user', content: 'Hi' }];
const LONG = { messages: MESSAGES, temperature: 2, top_p: 1, top_k: 0, max_tokens: 1900, seed: 1 };

/** @param {object} body @param {RequestInit} [more] @returns {RequestInit} */
const post = (body, more) => ({ method: 'POST', body: JSON.stringify(body), ...more });

test('the handler accepts a Request, or the arguments of fetch()', async (t) => {
  const handle = createHandler(await open(t));
  const one = await handle(new Request(CHAT, post({ messages: MESSAGES, max_tokens: 2 })));
  const two = await handle(CHAT, post({ messages: MESSAGES, max_tokens: 2 }));
  for (const response of [one, two]) {
    assert.equal(response.status, 200);
    assert.match(response.headers.get('x-request-id') ?? '', /^req_\w{24}$/);
    assert.equal((await response.json()).choices[0].finish_reason, 'length');
  }
  await assert.rejects(handle('/v1/models'), TypeError, 'an invalid URL rejects, as with fetch(), instead of throwing');
});

test('answers unknown paths and methods, bad and large bodies with OpenAI’s errors', async (t) => {
  const handle = createHandler(await open(t), { maxBodyBytes: 1000 });
  const large = { messages: [{ role: 'user', content: 'x'.repeat(1000) }] };
  const pieces = () =>
    new ReadableStream({
      start(controller) {
        for (let i = 0; i < 3; i++) controller.enqueue(new Uint8Array(500));
        controller.close();
      },
    });
  /** @type {[string, any, number, string | null][]} */
  const cases = [
    ['/', {}, 404, 'unknown_url'],
    ['/v1/chat', {}, 404, 'unknown_url'],
    ['/v1/chat/completions/', post({ messages: MESSAGES, max_tokens: 1 }), 200, null],
    ['/v1/chat/completions', {}, 405, 'method_not_supported'],
    ['/v1/models', post({}), 405, 'method_not_supported'],
    ['/v1/chat/completions', { method: 'POST', body: '{"messages": "secret' }, 400, null],
    ['/v1/chat/completions', { method: 'POST', body: '[]' }, 400, null],
    ['/v1/chat/completions', { method: 'POST' }, 400, 'missing_required_parameter'],
    ['/v1/chat/completions', post({}), 400, 'missing_required_parameter'],
    ['/v1/chat/completions', post(large), 413, 'request_too_large'],
    ['/v1/chat/completions', { method: 'POST', body: pieces(), duplex: 'half' }, 413, 'request_too_large'],
    ['/v1/completions', post({}), 400, 'missing_required_parameter'],
    ['/v1/embeddings', post({}), 400, 'missing_required_parameter'],
  ];
  for (const [path, init, status, code] of cases) {
    const response = await handle(`http://local${path}`, init);
    const { error } = await response.json();
    assert.deepEqual([response.status, error?.code ?? null], [status, code], `${path} ${JSON.stringify(error)}`);
    assert.ok(!JSON.stringify(error ?? {}).includes('secret'));
  }
});

test('a single model answers under every id, and is listed under the name of its file', async (t) => {
  const model = await open(t);
  const handle = createHandler(model);
  const { data } = await (await handle('http://local/v1/models')).json();
  assert.deepEqual(
    data.map((/** @type {any} */ { id }) => id),
    [model.info.name],
  );
  for (const asked of ['gpt-5.5', undefined]) {
    const response = await handle(CHAT, post({ model: asked, messages: MESSAGES, max_tokens: 1 }));
    assert.equal((await response.json()).model, model.info.name);
  }
});

test('a function loads its model once, and again if it failed', async (t) => {
  const model = await open(t);
  let calls = 0;
  const handle = createHandler({
    'org/one': async () => {
      if (++calls === 1) throw new Error('no network');
      return model;
    },
  });
  const listed = await (await handle('http://local/v1/models/org%2Fone')).json();
  assert.deepEqual([listed.id, calls], ['org/one', 0]);
  const asked = post({ model: 'org/one', messages: MESSAGES, max_tokens: 1 });
  const failed = await handle(CHAT, asked);
  assert.equal(failed.status, 500);
  assert.match((await failed.json()).error.message, /no network/);
  const all = await Promise.all([handle(CHAT, asked), handle(CHAT, asked), handle(CHAT, asked)]);
  assert.deepEqual([...all.map(({ status }) => status), calls], [200, 200, 200, 2]);
  for (const [url, body] of /** @type {[string, object][]} */ ([
    [CHAT, { messages: MESSAGES }],
    ['http://local/v1/responses/input_tokens', { model: null, input: 'Hi' }],
  ])) {
    const missing = await handle(url, post(body));
    assert.equal((await missing.json()).error.code, 'missing_required_parameter');
  }
});

test('createHandler() rejects values that are not models', async (t) => {
  for (const models of [undefined, null, {}, { a: 1 }, 'model.gguf']) {
    await refuses(() => createHandler(wrong(models)), 'bad-option');
  }
  const model = await open(t);
  for (const options of [null, { maxBodyBytes: -1 }, { maxBodyBytes: '9' }, { maxBody: 9 }]) {
    await refuses(() => createHandler(model, wrong(options)), 'bad-option');
  }
});

test('a function of `models` that returns no model fails each request until it returns one', async (t) => {
  const model = await open(t);
  const results = [undefined, 5, model];
  const handle = createHandler({ late: wrong(() => results.shift()) });
  const ask = () => handle(CHAT, post({ model: 'late', messages: MESSAGES, max_tokens: 1 }));
  for (const got of ['undefined', '5']) {
    const response = await ask();
    assert.equal(response.status, 500);
    assert.match((await response.json()).error.message, new RegExp(`the function for \`late\` returned ${got}`));
  }
  assert.equal((await ask()).status, 200);
});

test('an abort rejects immediately with its reason, and ends all answers', async (t) => {
  const { model, begun } = watched(await open(t));
  const handle = createHandler(model);
  const control = new AbortController();
  const reason = new Error('enough');
  const response = handle(CHAT, post({ ...LONG, n: 5 }, { signal: control.signal }));
  await until(() => begun.length === 5);
  const before = performance.now();
  control.abort(reason);
  await assert.rejects(response, (error) => error === reason);
  t.diagnostic(`rejected after ${(performance.now() - before).toFixed(1)} ms`);
  for (const generation of begun) assert.equal((await generation.result()).finishReason, 'aborted');
  await assert.rejects(handle(CHAT, post(LONG, { signal: control.signal })), (error) => error === reason);
  assert.equal(begun.length, 5);
});

test('cancelling a stream, or aborting its request, ends the answer', async (t) => {
  const { model, begun } = watched(await open(t));
  const handle = createHandler(model);
  const cancelled = await handle(CHAT, post({ ...LONG, stream: true }));
  const reader = /** @type {ReadableStream<Uint8Array>} */ (cancelled.body).getReader();
  await reader.read();
  await reader.cancel();
  assert.equal((await begun[0].result()).finishReason, 'aborted');
  const control = new AbortController();
  const aborted = await handle(CHAT, post({ ...LONG, stream: true }, { signal: control.signal }));
  const other = /** @type {ReadableStream<Uint8Array>} */ (aborted.body).getReader();
  await other.read();
  // Node stops forwarding aborts to the signal of a Request that is garbage-collected.
  setFlagsFromString('--expose-gc');
  for (let i = 0; i < 3; i++) {
    runInNewContext('gc')();
    await sleep(1);
  }
  control.abort();
  await assert.rejects(
    async () => {
      while (!(await other.read()).done);
    },
    { name: 'AbortError' },
  );
  assert.equal((await begun[1].result()).finishReason, 'aborted');
});

test('an error after the first chunk is the last event of the stream', async (t) => {
  const model = await open(t);
  const handle = createHandler(model);
  const response = await handle(CHAT, post({ ...LONG, stream: true }));
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const { value } = await reader.read();
  assert.match(new TextDecoder().decode(value), /^data: \{.*"role":"assistant"/);
  await model.dispose();
  let text = '';
  for (let part; !(part = await reader.read()).done; ) text += new TextDecoder().decode(part.value);
  const last = JSON.parse(text.trim().split('\n\n').at(-1)?.slice(6) ?? '');
  assert.deepEqual([last.error.type, last.error.code], ['server_error', 'disposed']);
  const after = await handle(CHAT, post(LONG));
  assert.deepEqual([after.status, after.headers.get('x-should-retry')], [503, 'false']);
});

/** Returns a tool whose parameters have these names and, in this order, the types string, integer, array, object, enum.
 * @param {string[]} names */
function odd([text, number, list, object, word]) {
  const properties = {
    [text]: { type: 'string', maxLength: 12 },
    [number]: { type: 'integer', minimum: -99, maximum: 99 },
    [list]: { type: 'array', items: { type: 'string', maxLength: 4 }, minItems: 1, maxItems: 3 },
    [object]: { type: 'object', properties: { a: { type: 'boolean' } }, required: ['a'], additionalProperties: false },
    [word]: { enum: ['}', '"', '\\', ']'] },
  };
  const required = [text, number, list, object, word];
  const parameters = { type: 'object', properties, required, additionalProperties: false };
  return { type: 'function', function: { name: 'odd', parameters } };
}
/** Names of a tool's five parameters. JavaScript objects move names that are integers to the front. */
const NAMES = [
  ['text', 'n', 'list', 'o', 'a "b"'],
  ['text', '20', 'list', '3', 'a "b"'],
];

for (const name of ['functiongemma', 'qwen3-tools', 'llama3-tools', 'generic-tools', 'gemma4-tools']) {
  test(`${name}: the streamed pieces of arguments add up to the arguments`, async (t) => {
    const handle = createHandler(await open(t, name));
    const choice = { type: 'function', function: { name: 'odd' } };
    let most = 0;
    for (const [seed, names] of [...NAMES, ...NAMES].entries()) {
      const asked = { ...LONG, max_tokens: 600, seed, tools: [odd(names)], tool_choice: choice };
      const whole = (await (await handle(CHAT, post(asked))).json()).choices[0];
      assert.equal(whole.finish_reason, 'tool_calls');
      const text = await (await handle(CHAT, post({ ...asked, stream: true }))).text();
      const pieces = text
        .split('\n\n')
        .filter((event) => event.startsWith('data: {'))
        .flatMap((event) => JSON.parse(event.slice(6)).choices[0].delta.tool_calls ?? [])
        .map((call) => call.function.arguments);
      most = Math.max(most, pieces.length);
      const value = JSON.parse(pieces.join(''));
      assert.deepEqual(value, JSON.parse(whole.message.tool_calls[0].function.arguments));
      assert.deepEqual(Object.keys(value).sort(), [...names].sort());
    }
    // Pieces that arrive together are joined, so the number of streamed pieces depends on timing.
    assert.ok(most > 1, `${most} pieces`);
  });
}
