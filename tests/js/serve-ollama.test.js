/* Tests Ollama's API: every response matches the schema that Ollama publishes (tests/vectors/ollama-api.md), and
 * requests have their effect. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { Ajv } from 'ajv';
import { loadModel } from '../../js/index.node.js';
import { createOllamaHandler } from '../../js/serve/ollama.js';
import { STORYTELLER, testModel } from './models.js';

const ajv = new Ajv({ strict: false });
ajv.addSchema(JSON.parse(readFileSync(new URL('../vectors/ollama-api.json', import.meta.url), 'utf8')), 'ollama');
const MESSAGES = [{ role: 'user', content: 'Tell me a story about a cat.' }];
const PERSON = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['name', 'age'],
  additionalProperties: false,
};
const parameters = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 8 } },
  required: ['city'],
  additionalProperties: false,
};
const TOOLS = [{ type: 'function', function: { name: 'weather', description: 'Weather of a city', parameters } }];

const models = {
  story: await loadModel(STORYTELLER, { threads: 1 }),
  thinker: await loadModel(await testModel('qwen3-thinking'), { threads: 1 }),
  embedder: await loadModel(await testModel('embed-q8_0'), { threads: 1 }),
};
after(() => Promise.all(Object.values(models).map((model) => model.dispose())));
const handler = createOllamaHandler(models);

/** @param {string} name @param {any} value @param {string} [missing] */
function follows(name, value, missing = '') {
  const validate = /** @type {import('ajv').ValidateFunction} */ (ajv.getSchema(`ollama#/$defs/${name}`));
  assert.ok(validate(value), `${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`);
  const { properties } = /** @type {any} */ (validate.schema);
  const lacks = Object.keys(properties).filter((key) => !(key in value) && !missing.split(' ').includes(key));
  assert.deepEqual(lacks, [], JSON.stringify(value));
}

/** @param {string} path @param {object} [body] sent with POST; without it, GET */
async function call(path, body) {
  const init = body && { method: 'POST', body: JSON.stringify(body) };
  const response = await handler(new Request(`http://localhost/api/${path}`, init));
  const lines = (await response.text()).split('\n').filter(Boolean);
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    lines: lines.map((l) => JSON.parse(l)),
  };
}

/** @param {string} path @param {object} [body] @returns {Promise<any>} */
async function only(path, body) {
  const { status, lines } = await call(path, body);
  assert.equal(status, 200, JSON.stringify(lines));
  assert.equal(lines.length, 1);
  return lines[0];
}

/** @param {any} [more] */
const asked = ({ options, ...more } = {}) => ({
  model: 'story',
  messages: MESSAGES,
  options: { num_predict: 20, seed: 1, ...options },
  ...more,
});

test('chat responds with one object, or with a line for each piece', async () => {
  const whole = await only('chat', asked({ stream: false }));
  follows('ChatResponse', whole, 'logprobs');
  assert.deepEqual([whole.done_reason, whole.eval_count], ['length', 20]);
  assert.ok(whole.total_duration >= whole.eval_duration && whole.eval_duration > 1e5, 'nanoseconds');
  const { type, lines } = await call('chat', asked());
  assert.equal(type, 'application/x-ndjson');
  for (const line of lines.slice(0, -1)) {
    follows('ChatStreamEvent', line);
    assert.equal(line.done, false);
  }
  const last = lines[lines.length - 1];
  follows('ChatResponse', last, 'logprobs');
  assert.equal(lines.map(({ message }) => message.content).join(''), whole.message.content);
  assert.equal(last.prompt_eval_count, whole.prompt_eval_count);
});

test('options have their effect', async () => {
  const text = async (/** @type {object} */ options) => {
    return (await only('chat', asked({ stream: false, options }))).message.content;
  };
  assert.equal(await text({ seed: 5 }), await text({ seed: 5 }));
  assert.notEqual(await text({ seed: 5 }), await text({ seed: 6 }));
  assert.equal(await text({ temperature: 0, seed: 1 }), await text({ top_k: 1, seed: 2 }));
  const stopped = await only(
    'chat',
    asked({ stream: false, options: { stop: ['.'], num_predict: 200, temperature: 0 } }),
  );
  assert.deepEqual([stopped.done_reason, stopped.message.content.includes('.')], ['stop', false]);
  await text({ num_ctx: 8192, num_gpu: 1, repeat_last_n: -1, repeat_penalty: 1.1, seed: -1 });
});

test('format constrains answers', async () => {
  const { message } = await only('chat', asked({ stream: false, format: PERSON, options: { num_predict: 200 } }));
  assert.ok(ajv.validate(PERSON, JSON.parse(message.content)));
  const { response, done_reason } = await only('generate', {
    ...{ model: 'story', prompt: 'A person', format: 'json', stream: false },
    options: { num_predict: 300, temperature: 0 },
  });
  if (done_reason === 'stop') JSON.parse(response);
  assert.match(response, /^\s*["[{\dtfn-]/);
});

test('tools are called, and their results are accepted', async () => {
  let seed = 0;
  for (; seed < 20; seed++) {
    const { lines } = await call('chat', asked({ tools: TOOLS, options: { num_predict: 200, seed } }));
    const found = lines.find(({ message }) => message.tool_calls);
    if (!found) continue;
    follows('ChatStreamEvent', found);
    follows('ToolCall', found.message.tool_calls[0]);
    assert.ok(ajv.validate(parameters, found.message.tool_calls[0].function.arguments));
    const messages = [...MESSAGES, found.message, { role: 'tool', tool_name: 'weather', content: '18 degrees' }];
    await only('chat', asked({ stream: false, tools: TOOLS, messages }));
    messages[1] = { ...found.message, content: null };
    // Old clients of Ollama send tool results without the tool's name.
    messages[messages.length - 1] = { role: 'tool', content: '18 degrees' };
    await only('chat', asked({ stream: false, tools: TOOLS, messages }));
    break;
  }
  assert.ok(seed < 20, 'the model called the tool');
});

test('thoughts are separate from the answer', async () => {
  const { thinker } = models;
  const [begin, end] = await thinker.tokenize('<think></think>', { special: true });
  const generate = thinker.generate.bind(thinker);
  /** @type {any[]} */
  const calls = [];
  // A model with random weights does not think by itself, so a grammar forces thoughts and answer.
  Object.assign(thinker, {
    generate: (/** @type {any} */ messages, /** @type {any} */ options) => {
      calls.push({ thinking: options.thinking, messages });
      const thought = options.thinking === false ? '' : `<[${begin}]> "\\nhm ha\\n" <[${end}]> "\\n\\n" `;
      return generate(messages, { ...options, format: { grammar: `root ::= ${thought}"Yes."` } });
    },
  });
  const { lines } = await call('chat', asked({ model: 'thinker', think: true }));
  const joined = (/** @type {string} */ name) => lines.map(({ message }) => message[name] ?? '').join('');
  assert.deepEqual([joined('thinking'), joined('content')], ['hm ha', 'Yes.']);
  for (const line of lines.slice(0, -1)) follows('ChatStreamEvent', line);
  const messages = [...MESSAGES, { role: 'assistant', content: 'Yes.', thinking: 'hm ha' }, ...MESSAGES, ...MESSAGES];
  const off = await only('chat', asked({ model: 'thinker', think: false, messages, stream: false }));
  assert.deepEqual(off.message, { role: 'assistant', content: 'Yes.' });
  const whole = await only('generate', { model: 'thinker', prompt: 'Why?', think: 'high', stream: false });
  assert.deepEqual([whole.thinking, whole.response], ['hm ha', 'Yes.']);
  assert.deepEqual(
    calls.map(({ thinking }) => thinking),
    [true, false, true],
  );
  // As in Ollama, successive messages with the same role count as one.
  assert.deepEqual([calls[1].messages[1].thoughts, calls[1].messages.length], ['hm ha', 3]);
  const { capabilities } = await only('show', { model: 'thinker' });
  assert.deepEqual(capabilities, ['completion', 'tools', 'thinking']);
});

test('generate accepts a prompt or raw text', async () => {
  const raw = { model: 'story', prompt: 'Once upon a', raw: true, options: { num_predict: 1, temperature: 0 } };
  const whole = await only('generate', { ...raw, stream: false, logprobs: true, top_logprobs: 2 });
  follows('GenerateResponse', whole, 'thinking');
  assert.equal(whole.response, ' time');
  follows('Logprob', whole.logprobs[0]);
  assert.equal(whole.logprobs[0].token, ' time');
  const split = await only('generate', {
    ...{ ...raw, stream: false, logprobs: true, format: { const: '😀' } },
    options: { num_predict: 20 },
  });
  /** @type {number[][]} */
  const bytes = split.logprobs.map((/** @type {any} */ one) => one.bytes);
  assert.equal(Buffer.from(bytes.flat()).toString(), split.response);
  assert.ok(
    bytes.length > 3 && bytes.every(({ length }) => length),
    'each token has bytes, even if they are a part of a character',
  );
  const { lines } = await call('generate', {
    model: 'story',
    prompt: 'A story',
    system: 'Short.',
    options: { num_predict: 5 },
  });
  const late =
    'thinking done_reason total_duration load_duration prompt_eval_count prompt_eval_duration eval_count eval_duration';
  for (const line of lines.slice(0, -1)) follows('GenerateStreamEvent', line, late);
  follows('GenerateStreamEvent', lines[lines.length - 1], 'thinking');
  for (const prompt of ['', null]) {
    assert.equal((await only('generate', { model: 'story', prompt })).done_reason, 'load');
  }
  assert.equal((await only('chat', { model: 'story', messages: [], keep_alive: 0 })).done_reason, 'unload');
});

test('embed returns the vectors of model.embed()', async () => {
  const texts = ['a cat', 'a dog'];
  const found = await only('embed', { model: 'embedder', input: texts });
  follows('EmbedResponse', found);
  const own = await models.embedder.embed(texts);
  assert.deepEqual(
    found.embeddings.map((/** @type {number[]} */ vector) => Float32Array.from(vector)),
    own,
  );
  assert.equal((await only('embed', { model: 'embedder', input: 'a', dimensions: 16 })).embeddings[0].length, 16);
  const { embedding } = await only('embeddings', { model: 'embedder', prompt: 'a cat' });
  assert.deepEqual(Float32Array.from(embedding), own[0]);
});

test('tags, ps, show and version describe the models', async () => {
  const list = await only('tags');
  follows('ListResponse', list);
  for (const model of list.models) follows('ModelSummary', model, 'remote_model remote_host');
  const running = await only('ps');
  follows('PsResponse', running);
  for (const model of running.models) follows('Ps', model);
  const shown = await only('show', { model: 'story' });
  follows('ShowResponse', shown, 'license');
  assert.equal(shown.model_info['gemma3.context_length'], 2048);
  assert.match(shown.template, /start_of_turn/);
  assert.deepEqual((await only('show', { model: 'embedder:latest' })).capabilities, ['embedding']);
  follows('VersionResponse', await only('version'));
});

test('unsupported and invalid requests are rejected with a reason', async () => {
  const cases = /** @type {[number, RegExp, string, object?][]} */ ([
    [404, /model 'none' not found/, 'chat', asked({ model: 'none' })],
    [404, /model '__proto__' not found/, 'chat', asked({ model: '__proto__' })],
    [400, /`model` is required/, 'chat', { messages: MESSAGES }],
    [400, /role/, 'chat', asked({ messages: [{ role: 'king', content: 'x' }] })],
    [400, /name/, 'chat', asked({ messages: [{ role: 'assistant', tool_calls: [null] }] })],
    [400, /`content`/, 'chat', asked({ messages: [{ role: 'user', content: 7 }] })],
    [400, /`messages` must be an array/, 'chat', asked({ messages: 'x' })],
    [400, /`images` is not supported/, 'chat', asked({ messages: [{ role: 'user', content: 'x', images: ['aGk='] }] })],
    [400, /does not support thinking/, 'chat', asked({ think: true })],
    [400, /`top_p`/, 'chat', asked({ options: { top_p: 7 } })],
    [400, /`num_predict`/, 'chat', asked({ options: { num_predict: 'many' } })],
    [400, /There is no option "mirostat"/, 'chat', asked({ options: { mirostat: 2 } })],
    [400, /`format` must be/, 'chat', asked({ format: 'xml' })],
    [400, /context/, 'chat', asked({ messages: [{ role: 'user', content: 'word '.repeat(5000) }] })],
    [400, /`suffix` is not supported/, 'generate', { model: 'story', prompt: 'x', suffix: 'y' }],
    [400, /`system` must be a string/, 'generate', { model: 'story', prompt: 'x', system: 5 }],
    [400, /Write its text into `prompt`/, 'generate', { model: 'story', prompt: 'x', raw: true, system: 'y' }],
    [400, /only computes embeddings/, 'generate', { model: 'embedder', prompt: 'x' }],
    [400, /`input` is required/, 'embed', { model: 'embedder' }],
    [400, /string/, 'embed', { model: 'embedder', input: [7] }],
    [400, /Shorten it/, 'embed', { model: 'embedder', input: 'word '.repeat(5000), truncate: false }],
    [501, /not supported/, 'pull', { model: 'x' }],
    [404, /There is no endpoint POST/, 'nothing', {}],
    [405, /takes POST requests only/, 'chat'],
  ]);
  for (const [status, message, path, body] of cases) {
    const found = await call(path, body);
    assert.equal(found.status, status, `${path} ${JSON.stringify(body)?.slice(0, 80)}: ${JSON.stringify(found.lines)}`);
    follows('ErrorResponse', found.lines[0]);
    assert.match(found.lines[0].error, message);
  }
  const response = await handler(
    new Request('http://localhost/api/chat', { method: 'POST', body: '{"secret": nonsense' }),
  );
  assert.deepEqual([response.status, /secret/.test(await response.text())], [400, false]);
});
