/* Tests the Responses API with OpenAI's client. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { createHandler } from '../../js/openai.js';
import { ResponseStore } from '../../js/openai/response-store.js';
import { startServer } from '../../js/serve/server.js';
import { failedCalls } from '../support/responses-calls.js';
import { open, wrong } from './helpers.js';
import { clientOf, thinker, watched } from './openai-client.js';

test("all calls of OpenAI's client to a server work", async (t) => {
  const server = await startServer({ local: await open(t, 'qwen3-tools') }, { port: 0 });
  t.after(() => server.close(0));
  const client = new OpenAI({ apiKey: 'x', baseURL: `${server.url}/v1`, maxRetries: 0 });
  assert.deepEqual(await failedCalls({ client, model: 'local' }), []);
  assert.equal(server.running(), 0);
});

test("all calls of OpenAI's client work in process", async (t) => {
  const client = clientOf(await open(t, 'generic-tools'));
  assert.deepEqual(await failedCalls({ client, model: 'any' }), []);
});

test('parse() returns the parsed values of formats and of tool calls', async (t) => {
  const client = clientOf(await open(t, 'qwen3-tools'));
  const Point = z.object({ x: z.int().min(0).max(9), kind: z.enum(['dot', 'star']) });
  const text = { format: zodTextFormat(Point, 'point') };
  const response = await client.responses.parse({ model: 'any', input: 'Where?', text });
  assert.deepEqual(Point.parse(response.output_parsed), JSON.parse(response.output_text));

  const tools = [zodResponsesFunction({ name: 'draw', parameters: Point })];
  const asked = { model: 'any', input: 'Draw', tools, tool_choice: /** @type {const} */ ('required') };
  const { output } = await client.responses.parse({ ...asked, parallel_tool_calls: false });
  const [call] = output;
  assert.ok(call.type === 'function_call' && output.length === 1);
  assert.deepEqual(Point.parse(call.parsed_arguments), JSON.parse(call.arguments));
});

test('thoughts are reasoning items, and `effort` limits them', async (t) => {
  const { model, asked } = await thinker(await open(t, 'qwen3-thinking'));
  const client = clientOf(model);
  const question = { model: 'any', input: 'Hi', reasoning: { effort: /** @type {const} */ ('low') } };
  const whole = await client.responses.create(question);
  const shown = (/** @type {any} */ { output }) =>
    output.map((/** @type {any} */ { type, status, content: [part] }) => [type, status, part.type, part.text]);
  const items = [
    ['reasoning', 'completed', 'reasoning_text', 'hm ha'],
    ['message', 'completed', 'output_text', 'Yes.'],
  ];
  assert.deepEqual([shown(whole), whole.output_text], [items, 'Yes.']);
  assert.ok(Number(whole.usage?.output_tokens_details.reasoning_tokens) > 2);
  const stream = client.responses.stream(question);
  const types = /** @type {string[]} */ ([]);
  for await (const { type } of stream) if (types.at(-1) !== type) types.push(type);
  assert.deepEqual(shown(await stream.finalResponse()), items);
  const part = (/** @type {string} */ text) => [
    ...['response.output_item.added', 'response.content_part.added', `response.${text}.delta`],
    ...[`response.${text}.done`, 'response.content_part.done', 'response.output_item.done'],
  ];
  const ends = ['response.created', 'response.in_progress', 'response.completed'];
  assert.deepEqual(types, [...ends.slice(0, 2), ...part('reasoning_text'), ...part('output_text'), ends[2]]);

  await client.responses.create({ ...question, reasoning: { effort: 'none' } });
  await client.responses.create({ ...question, reasoning: { effort: 'high' }, previous_response_id: whole.id });
  await client.responses.create({ model: 'any', input: 'Hi' });
  assert.deepEqual(
    asked.map(({ thinking }) => thinking),
    [{ budget: 256 }, { budget: 256 }, false, true, undefined],
  );
  assert.deepEqual(asked[3].messages, [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Yes.', thoughts: 'hm ha' },
    { role: 'user', content: 'Hi' },
  ]);
  const { responses } = clientOf(await open(t, 'gemma4-tools'));
  const counts = [];
  for (const effort of /** @type {const} */ (['none', 'high'])) {
    const counted = { model: 'any', input: 'Hi', reasoning: { effort } };
    const { input_tokens: tokens } = await responses.inputTokens.count(counted);
    const { usage } = await responses.create({ ...counted, max_output_tokens: 1 });
    assert.equal(tokens, usage?.input_tokens);
    counts.push(tokens);
  }
  assert.notEqual(counts[0], counts[1]);
  const extreme = { ...question, reasoning: wrong({ effort: 'extreme' }) };
  const error = await client.responses.create(extreme).catch((error) => error);
  assert.deepEqual([error.status, error.param], [400, 'reasoning.effort']);
});

test('errors before the answer set the status, even of streams; later errors end the stream', async (t) => {
  const model = await open(t, 'qwen3-tools');
  const client = clientOf(model);
  const asked = { model: 'any', input: 'word '.repeat(5000) };
  for (const stream of [false, true]) {
    const error = await client.responses.create({ ...asked, stream }).catch((error) => error);
    assert.deepEqual([error.status, error.code, error.param], [400, 'context_length_exceeded', 'input']);
  }
  const failing = {
    info: model.info,
    generate: () => ({
      steps: async function* () {
        yield { kind: 'text', text: 'Hi', ids: [1], forced: false };
        throw new Error('lost');
      },
      calls: () => [],
    }),
  };
  const handler = createHandler(wrong(failing));
  const body = JSON.stringify({ input: 'x', stream: true });
  const response = await handler('http://local/v1/responses', { method: 'POST', body });
  const names = [...(await response.text()).matchAll(/^event: (.*)/gm)].map(([, name]) => name);
  assert.deepEqual(names.slice(-3), ['response.output_text.delta', 'error', 'response.failed']);
  const whole = await handler('http://local/v1/responses', { method: 'POST', body: JSON.stringify({ input: 'x' }) });
  assert.equal(whole.status, 500);
});

test('a response that was cut off inside a call cannot be continued, and the error says so', async () => {
  const cut = {
    info: { name: 'cut', contextLength: 9, defaults: {} },
    generate: () => ({
      steps: async function* () {
        yield { kind: 'text', text: '', ids: [1], forced: false };
      },
      calls: () => [{ name: 'f', arguments: { a: 'x' }, done: false }],
      result: async () => ({ text: '', finishReason: 'length', usage: {}, toolCalls: [] }),
    }),
  };
  const { responses } = clientOf(wrong(cut));
  const { id, status } = await responses.create({ model: 'any', input: 'x' });
  assert.equal(status, 'incomplete');
  const next = responses.create({ model: 'any', input: 'x', previous_response_id: id });
  await assert.rejects(next, { status: 400, message: /cut off inside the call/ });
});

test('aborting a request and leaving its stream end the answer', async (t) => {
  const { model, begun } = watched(await open(t, 'deep'));
  const handler = createHandler(model);
  const asked = { input: 'Hello', seed: 1, stream: true, max_output_tokens: 8000 };
  for (const leave of /** @type {const} */ (['abort', 'cancel'])) {
    const control = new AbortController();
    const init = { method: 'POST', body: JSON.stringify(asked), signal: control.signal };
    const { body } = await handler('http://local/v1/responses', init);
    const reader = /** @type {ReadableStream} */ (body).getReader();
    await reader.read();
    const left = performance.now();
    if (leave === 'abort') control.abort();
    else await reader.cancel();
    const { finishReason } = await /** @type {Generation} */ (begun.pop()).result();
    assert.equal(finishReason, 'aborted');
    t.diagnostic(`${leave}: ended after ${(performance.now() - left).toFixed(1)} ms`);
  }
});

test('stored responses are bounded in number and bytes; the least recently used go first', () => {
  const store = new ResponseStore(3, 2000);
  const put = (/** @type {string} */ id, size = 0) =>
    store.put({ response: { id, output: [{ id: `${id}-out` }] }, input: [{ id: `${id}-in`, text: 'x'.repeat(size) }] });
  for (const id of ['a', 'b', 'c']) put(id);
  store.get('a');
  put('d');
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((id) => Boolean(store.get(id))),
    [true, false, true, true],
  );
  // Clients choose the ids of a request's input items, so a stored item cannot be found by such an id.
  assert.deepEqual([store.item('a-out'), store.item('a-in')], [{ id: 'a-out' }, undefined]);
  put('large', 780);
  assert.deepEqual(
    ['a', 'c', 'd', 'large'].map((id) => Boolean(store.get(id))),
    [false, false, true, true],
  );
  put('huge', 5000);
  assert.deepEqual([Boolean(store.get('huge')), Boolean(store.get('large'))], [false, true]);
  assert.deepEqual([store.delete('large'), store.delete('large'), store.item('large-out')], [true, false, undefined]);
});

/** @param {any} value @returns {string[][]} */
const pathsIn = (value) =>
  typeof value === 'object' && value
    ? Object.keys(value).flatMap((name) => [[name], ...pathsIn(value[name]).map((path) => [name, ...path])])
    : [];

test('a request with a member of any type is answered or rejected with status 400', async (t) => {
  const handler = createHandler(await open(t, 'qwen3-tools'));
  const tool = {
    type: 'function',
    name: 'f',
    description: 'd',
    parameters: { type: 'object', properties: {} },
    strict: true,
  };
  const request = {
    ...{ model: 'any', instructions: 'a', max_output_tokens: 2, truncation: 'disabled', store: true, stream: false },
    ...{ input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }], previous_response_id: null },
    ...{ tools: [tool], tool_choice: 'none', parallel_tool_calls: true, text: { format: { type: 'text' } } },
    ...{ metadata: { a: 'b' }, include: [], top_logprobs: 0, reasoning: { effort: 'low' }, temperature: 1 },
  };
  const statuses = new Map();
  for (const path of pathsIn(request)) {
    for (const odd of [null, 'x', [null]]) {
      const copy = /** @type {any} */ (structuredClone(request));
      const [last] = path.slice(-1);
      path.slice(0, -1).reduce((value, name) => value[name], copy)[last] = odd;
      const { status } = await handler('http://local/v1/responses', { method: 'POST', body: JSON.stringify(copy) });
      assert.ok(status === 200 || status === 400, `${path.join('.')} = ${JSON.stringify(odd)}: ${status}`);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  assert.ok(statuses.get(200) > 20 && statuses.get(400) > 40, JSON.stringify([...statuses]));
});

test('the example of docs/openai.md for responses runs', async (t) => {
  const guide = readFileSync(new URL('../../docs/openai.md', import.meta.url), 'utf8');
  const [, code] = /\n## Responses\n[^]*?```js\n([^]*?)```/.exec(guide) ?? [];
  const model = await open(t, 'generic-tools');
  // A model with random weights does not end its answers.
  const brief = {
    info: model.info,
    generate: (/** @type {any} */ messages, /** @type {object} */ options) =>
      model.generate(messages, { ...options, maxTokens: 9 }),
  };
  const client = clientOf({ gemma: wrong(brief) });
  const AsyncFunction = /** @type {any} */ (Object.getPrototypeOf(async () => {}).constructor);
  const shown = /** @type {string[][]} */ ([]);
  await new AsyncFunction('client', 'show', code)(client, (/** @type {string[]} */ ...texts) => shown.push(texts));
  assert.deepEqual([shown.length, shown[0].length], [1, 2]);
});
