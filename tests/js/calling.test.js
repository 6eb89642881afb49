/* Tests tools in conversations: the model's calls are constrained by the tools' schemas, executed and answered; models
 * with random weights call when a call is required. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { postable } from '../../js/options.js';
import { open, refuses } from './helpers.js';

const ADD = {
  name: 'add',
  description: 'Adds two numbers',
  parameters: {
    type: 'object',
    required: ['a', 'b'],
    additionalProperties: false,
    properties: {
      a: { type: 'integer', minimum: -99, maximum: 99 },
      b: { type: 'integer', minimum: -99, maximum: 99 },
    },
  },
};
const SAY = {
  name: 'say',
  parameters: {
    type: 'object',
    properties: { what: { type: 'string', maxLength: 8 } },
    required: ['what'],
    additionalProperties: false,
  },
};
/** Test models, each with the dialect of its tool calls, and how a call begins. */
const MODELS = [
  { name: 'functiongemma', dialect: 'functiongemma', opening: '<start_function_call>' },
  { name: 'gemma4-tools', dialect: 'gemma4', opening: '<|tool_call>' },
  { name: 'qwen3-tools', dialect: 'hermes', opening: '<tool_call>' },
  { name: 'llama3-tools', dialect: 'llama3', opening: '{' },
  { name: 'generic-tools', dialect: 'generic', opening: '{' },
];
const WILD = { temperature: 2, topK: 0, topP: 1, maxTokens: 400 };

/** @param {import('../../js/protocol.js').ToolCall} call */
function assertFits({ id, name, arguments: args }) {
  assert.match(id, /^call_\d+$/);
  if (name === 'say') return assert.ok(Object.keys(args).join() === 'what' && [...args.what].length <= 8);
  assert.equal(name, 'add');
  assert.deepEqual(Object.keys(args).sort(), ['a', 'b']);
  for (const value of Object.values(args)) assert.ok(Number.isInteger(value) && Math.abs(value) <= 99);
}

for (const { name, dialect, opening } of MODELS) {
  test(`${dialect}: required calls match their schemas and grow while they stream; results can be sent back`, async (t) => {
    const model = await open(t, name);
    const chat = model.chat({ tools: [ADD, SAY], ...WILD });
    for (const [i, called] of ['add', 'say', 'add'].entries()) {
      const [seed, toolChoice] = [i + 1, { name: called }];
      const out = chat.send('Now what?', { toolChoice, seed });
      let shown = '';
      for await (const piece of out) shown += piece;
      const { text, toolCalls = [], finishReason } = await out.result();
      assert.deepEqual([finishReason, shown, text, toolCalls.length], ['tool-calls', '', '', 1]);
      assert.equal(toolCalls[0].name, toolChoice.name);
      assertFits(toolCalls[0]);
      assert.deepEqual(out.calls(), [{ name: toolCalls[0].name, arguments: toolCalls[0].arguments, done: true }]);
      assert.deepEqual(chat.messages.at(-1), { role: 'assistant', content: '', toolCalls });
      const result = { role: /** @type {const} */ ('tool'), id: toolCalls[0].id, content: { sum: 5 } };
      await refuses(chat.continue({ toolChoice: 'none' }).result(), 'bad-state');
      const said = await chat.sendToolResults([result], { toolChoice: 'none', seed, maxTokens: 5 }).result();
      assert.deepEqual(chat.messages.slice(-2), [
        { ...result, name: toolChoice.name },
        { role: 'assistant', content: said.text },
      ]);
    }
    assert.equal(new Set(chat.messages.flatMap((m) => m.toolCalls ?? []).map(({ id }) => id)).size, 3);
    const [{ content }] = chat.messages.slice(-1);
    const options = { toolChoice: /** @type {const} */ ('none'), seed: 1, maxTokens: 5 };
    await refuses(() => chat.continue({ seed: 1 }), 'bad-option');
    const { text, usage } = await chat.continue(options).result();
    assert.equal(chat.messages.at(-1)?.content, content + text);
    assert.ok(usage.reusedTokens > 0);
  });

  test(`${dialect}: tools with execute() run in each round, up to maxRounds`, async (t) => {
    const model = await open(t, name);
    const done = [];
    const execute = (/** @type {{ a: number, b: number }} */ { a, b }, /** @type {{ id: string }} */ { id }) => {
      done.push(id);
      if (a > b) throw new Error('no');
      return { sum: a + b };
    };
    const chat = model.chat({
      tools: [
        { ...ADD, execute },
        { ...SAY, execute: async () => 'said' },
      ],
      ...WILD,
      seed: 4,
    });
    const out = chat.send('Add', { toolChoice: { name: 'add', everyRound: true }, maxRounds: 2 });
    const { toolCalls = [], finishReason } = await out.result();
    // With `everyRound` each answer must call a tool. The third call exceeds `maxRounds`, so it is not executed.
    assert.deepEqual([finishReason, toolCalls.length, done.length], ['tool-calls', 3, 2]);
    toolCalls.forEach((call, i) => {
      assertFits(call);
      const { a, b } = call.arguments;
      if (i === 2) assert.ok(!('result' in call) && !('error' in call));
      else if (a > b) assert.equal(Object(call.error).message, 'no');
      else assert.deepEqual(call.result, { sum: a + b });
    });
    assert.deepEqual(
      chat.messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant'],
    );
    assert.deepEqual(
      out.calls().map(({ arguments: args }) => args),
      toolCalls.map((call) => call.arguments),
    );
  });

  test(`${dialect}: auto allows text or calls; required forces one or more calls`, async (t) => {
    const model = await open(t, name);
    const chat = model.chat({ tools: [ADD, SAY], ...WILD, maxTokens: 80 });
    const [token] = await model.tokenize(opening, { special: true });
    const { text: begun, toolCalls: firsts = [] } = await chat
      .clone()
      .send('Hi', { seed: 1, logitBias: { [token]: 1000 } })
      .result();
    firsts.forEach(assertFits);
    // The bias favours only the first token of a call, so the answer begins with a call, whose other tokens the grammar
    // constrains.
    if (dialect !== 'generic') assert.ok(firsts.length > 0 && begun === '', begun);
    for (let seed = 1; seed <= 4; seed++) {
      const toolChoice = seed % 2 ? 'auto' : 'required';
      const { text, toolCalls = [], finishReason } = await chat.clone().send('Hi', { seed, toolChoice }).result();
      toolCalls.forEach(assertFits);
      if (finishReason === 'tool-calls') assert.ok(toolCalls.length > 0);
      if (finishReason === 'stop') assert.ok(!toolCalls.length && toolChoice === 'auto');
      if (toolChoice === 'required') assert.equal(text, '');
    }
  });

  test(`${dialect}: with a format, auto gives calls or matching text; after tool results, the format applies`, async (t) => {
    const model = await open(t, name);
    const format = { schema: { type: 'object', properties: { sky: { enum: ['blue', 'grey'] } }, required: ['sky'] } };
    const bounded = { ...format, maxProperties: 1, maxLength: 4 };
    const chat = model.chat({ tools: [ADD, SAY], ...WILD, maxTokens: 120 });
    const seen = new Set();
    for (let seed = 1; seed <= 30 && (seen.size < 2 || seed <= 4); seed++) {
      const out = chat.clone().send('Hi', { seed, format: bounded });
      let shown = '';
      for await (const piece of out) shown += piece;
      const { text, value, toolCalls = [], finishReason } = await out.result();
      assert.equal(shown, text);
      toolCalls.forEach(assertFits);
      if (finishReason === 'tool-calls') assert.deepEqual([toolCalls.length > 0, text, value], [true, '', undefined]);
      if (finishReason === 'stop') {
        assert.deepEqual([toolCalls, value], [[], JSON.parse(text)]);
        assert.match(value.sky, /^(blue|grey)$/);
      }
      seen.add(finishReason).delete('length');
    }
    assert.deepEqual([...seen].sort(), ['stop', 'tool-calls']);

    const demand = { toolChoice: { name: 'add' }, seed: 1 };
    const { toolCalls = [] } = await chat.send('Add', { ...demand, format: bounded }).result();
    toolCalls.forEach(assertFits);
    const results = toolCalls.map(({ id }) => ({ id, content: 5 }));
    const { value, text } = await chat
      .sendToolResults(results, { toolChoice: 'none', seed: 1, format: bounded })
      .result();
    assert.deepEqual([value, ['blue', 'grey'].includes(value.sky)], [JSON.parse(text), true]);
  });
}

/** @param {any} model @param {any} parameters */
async function called(model, parameters) {
  const tools = [{ name: 'f', parameters }];
  const toolChoice = { name: 'f' };
  const { toolCalls } = await model
    .generate([{ role: 'user', content: 'x' }], { tools, toolChoice, ...WILD, seed: 1 })
    .result();
  return toolCalls.map((/** @type {import('../../js/protocol.js').ToolCall} */ call) => call.arguments);
}

/** @param {any} properties */
const closed = (properties) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

test('functiongemma: names keep backslashes and control characters; the first of several types is shown', async (t) => {
  const model = await open(t, 'functiongemma');
  for (const name of ['a\\d', 'a\\b', '\\', 'a\u0001', "'é"]) {
    assert.deepEqual(await called(model, closed({ [name]: { const: true } })), [{ [name]: true }]);
  }
  assert.deepEqual(await called(model, closed({ c: { type: ['null', 'boolean'], enum: [null] } })), [{ c: null }]);
});

test('functiongemma: an answer with calls can end where the model expects the first result', async (t) => {
  const model = await open(t, 'functiongemma');
  const [token] = await model.tokenize('<start_function_response>', { special: true });
  const chat = model.chat({ tools: [SAY], toolChoice: 'required', ...WILD, logitBias: { [token]: 1000 } });
  const { toolCalls = [], finishReason } = await chat.send('Hi', { seed: 1 }).result();
  assert.deepEqual([toolCalls.length, finishReason], [1, 'tool-calls']);
});

test('parameters without a type are treated as an object', async (t) => {
  for (const name of ['functiongemma', 'qwen3-tools']) {
    const model = await open(t, name);
    const { type, ...untyped } = closed({ a: { enum: ['x'] } });
    assert.deepEqual(await called(model, untyped), [{ a: 'x' }]);
    assert.deepEqual(await called(model, { maxProperties: 0 }), [{}]);
    const tools = [{ name: 'pick', parameters: { city: { type: 'string' } } }];
    const refused = model.chat().send('x', { tools }).result();
    await refuses(refused, 'bad-format', /\(only city\).*#\/tools\/0\/parameters\)/);
  }
});

test('errors name the position of an invalid tool; tools without messages are rejected', async (t) => {
  const model = await open(t, 'generic-tools');
  const chat = model.chat();
  const bad = { name: 'bad', parameters: { type: 'object', properties: { x: { type: 'wrong' } } } };
  const error = await refuses(chat.send('x', { tools: [ADD, bad] }).result(), 'bad-format');
  assert.match(`${error.got}`, /\/tools\/1\/parameters\/properties\/x/);
  for (const type of ['string', ['object', 'null']]) {
    await refuses(
      chat.send('x', { tools: [ADD, { name: 'odd', parameters: { type } }] }).result(),
      'bad-format',
      /the tool odd .*#\/tools\/1\/parameters\/type/,
    );
  }
  await refuses(() => chat.send('x', { tools: [ADD], toolChoice: { name: 'sub' } }), 'bad-option');
  await refuses(
    () => chat.send('x', { toolChoice: { name: 'sub' } }),
    'bad-option',
    /needs a tool of `tools` \(got "sub"\)/,
  );
  for (const toolChoice of /** @type {const} */ (['required', { everyRound: true }])) {
    await refuses(
      () => chat.send('x', { tools: [], toolChoice }),
      'bad-option',
      /needs a tool of `tools` \(got "required"\)/,
    );
  }
  await refuses(chat.sendToolResults([{ id: 'lost', content: 5 }]).result(), 'bad-option', /\bid\b.*"lost"/);
  await refuses(() => model.generate('x', { tools: [ADD] }), 'bad-option');
  await refuses(() => chat.sendToolResults([]), 'bad-option');
  await refuses(chat.sendToolResults([{ id: 'call_7', content: 1 }]).result(), 'bad-option');
  assert.deepEqual(chat.messages, []);
  assert.ok((await chat.send('x', { maxTokens: 2 }).result()).tokens.length);
});

test('a stop sequence ends the answer, even in text that is held back because it could begin a call', async (t) => {
  const model = await open(t, 'generic-tools');
  const logitBias = Object.fromEntries(model.info.endTokens.map((id) => [id, 1000]));
  const options = { ...WILD, tools: [ADD], format: { regex: '\\{"tool' }, logitBias, seed: 1 };
  const plain = await model.chat().send('Hi', options).result();
  assert.deepEqual([plain.text, plain.finishReason, plain.stopSequence], ['{"tool', 'stop', undefined]);
  const out = model.chat().send('Hi', { ...options, stop: ['"to'] });
  let shown = '';
  for await (const piece of out) shown += piece;
  const { text, finishReason, stopSequence } = await out.result();
  assert.deepEqual([shown, text, finishReason, stopSequence], ['{', '{', 'stop-sequence', '"to']);
});

test('an abort while a tool runs ends the answer and drops the turn', async (t) => {
  const model = await open(t, 'generic-tools');
  const abort = new AbortController();
  let told = false;
  const execute = (/** @type {unknown} */ _, /** @type {{ signal: AbortSignal }} */ { signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        told = true;
        reject(new Error('left'));
      });
      setTimeout(() => abort.abort(), 10);
    });
  const chat = model.chat({ tools: [{ ...ADD, execute }], toolChoice: 'required', ...WILD, seed: 4 });
  const { finishReason } = await chat.send('Add', { signal: abort.signal }).result();
  assert.deepEqual([finishReason, told, chat.messages], ['aborted', true, []]);
});

test('a tool without parameters gets an empty object; a schema library validates arguments before the tool runs', async (t) => {
  const model = await open(t, 'generic-tools');
  const seen = /** @type {any[]} */ ([]);
  const now = {
    name: 'now',
    execute: (/** @type {any} */ args) => {
      seen.push(args);
      return 1;
    },
  };
  const digit = z.int().min(1).max(9);
  const double = { ...now, name: 'double', parameters: z.object({ n: digit.transform((n) => 2 * n) }) };
  // ArkType's schemas are functions.
  const callable = Object.assign(() => {}, { '~standard': double.parameters['~standard'] });
  for (const tool of [now, double, { ...double, parameters: callable }]) {
    for (const seed of [1, 2, 3]) {
      await model
        .chat({ tools: [tool], ...WILD, seed, maxRounds: 1 })
        .send('Now what?', { toolChoice: { name: tool.name } })
        .result();
    }
  }
  assert.deepEqual(seen.slice(0, 3), [{}, {}, {}]);
  assert.ok(seen.length >= 9 && seen.slice(3).every(({ n }) => n % 2 === 0 && n <= 18), JSON.stringify(seen));
  const never = { ...double, parameters: z.object({ n: digit.refine(() => false, 'not today') }) };
  const { toolCalls } = await model
    .chat({ tools: [never], ...WILD, maxRounds: 1 })
    .send('Now what?', { toolChoice: { name: 'double' } })
    .result();
  assert.match(String(toolCalls?.[0].error), /The arguments are invalid: not today/);
});

test('a result that JSON cannot represent is an error for the model and for the caller', async (t) => {
  const model = await open(t, 'generic-tools');
  const loop = /** @type {any} */ ({});
  loop.loop = loop;
  for (const [result, what] of [
    [loop, /circular/],
    [{ n: 1n }, /`n` is a bigint/],
    [() => 1, /the value is a function/],
    [new Map([[1, 2]]), /class Map/],
    [{ n: NaN }, /`n` is NaN/],
    [[undefined], /item 0 of an array is undefined/],
  ]) {
    const chat = model.chat({ tools: [{ name: 'odd', execute: () => result }], ...WILD, maxRounds: 1 });
    const { toolCalls } = await chat.send('Now what?', { toolChoice: { name: 'odd' } }).result();
    const said = chat.messages.find(({ role }) => role === 'tool')?.content.error;
    assert.match(said, /^The result of the tool odd is not JSON: /);
    assert.match(said, /** @type {RegExp} */ (what));
    assert.equal(/** @type {any} */ (toolCalls?.[0].error).message, said);
  }
});

test('rejects results and arguments in messages that JSON cannot represent, and arguments that are not an object', async (t) => {
  const model = await open(t, 'generic-tools');
  const loop = /** @type {any} */ ({});
  loop.loop = loop;
  let deep = /** @type {any} */ ([]);
  for (let i = 0; i < 50_000; i++) deep = [deep];
  for (const [value, what] of [
    [loop, /circular/],
    [{ f: () => 1 }, /`f` is a function/],
    [{ n: NaN }, /`n` is NaN/],
    [{ n: 1n }, /`n` is a bigint/],
    [{ m: new Map([[1, 2]]) }, /class Map/],
    [{ list: [1, undefined] }, /item 1 of an array is undefined/],
    [{ deep }, /nested too deeply/],
  ]) {
    const isRefused = (/** @type {any} */ error) => {
      assert.equal(error.code, 'bad-option');
      assert.match(error.message, /^The (content|arguments) of .* must be JSON: .*\. Pass only JSON values\.$/);
      assert.match(error.message, /** @type {RegExp} */ (what));
      return true;
    };
    const chat = model.chat({ messages: [{ role: 'user', content: 'x' }] });
    await assert.rejects(chat.sendToolResults([{ name: 'odd', content: value }]).result(), isRefused);
    const toolCalls = [{ id: 'a', name: 'odd', arguments: value }];
    assert.throws(() => model.chat({ messages: [{ role: 'assistant', content: '', toolCalls }] }), isRefused);
  }
  for (const [value, got] of [
    [null, 'null'],
    [undefined, 'undefined'],
    ['{}', '"{}"'],
  ]) {
    const toolCalls = [{ id: 'a', name: 'odd', arguments: value }];
    assert.throws(() => model.chat({ messages: [{ role: 'assistant', content: '', toolCalls }] }), {
      code: 'bad-option',
      message: `The arguments of \`odd\` in message 0 must be an object (got ${got}).`,
    });
  }
  const { messages } = model.chat({ messages: [{ role: 'tool', name: 'odd', content: { a: undefined, b: [null] } }] });
  assert.deepEqual(messages[0].content, { b: [null] });
});

test("accepts tools in OpenAI's form; `required` applies to the first round only, unless `everyRound` is set", async (t) => {
  const model = await open(t, 'generic-tools');
  const { name, ...rest } = ADD;
  const tool = { type: /** @type {const} */ ('function'), function: { name, ...rest, strict: true }, execute: () => 1 };
  for (const [toolChoice, choice, next] of [
    ['auto', 'auto', 'auto'],
    ['required', 'required', 'auto'],
    [{ everyRound: true }, 'required', 'required'],
    [{ name }, { name }, 'auto'],
    [{ name, everyRound: true }, { name }, { name }],
  ]) {
    const posted = /** @type {any} */ (postable(/** @type {any} */ ({ tools: [tool], toolChoice }))).tools;
    assert.deepEqual([posted.list[0].name, posted.choice, posted.next], [name, choice, next]);
  }
  const ends = new Set();
  for (let seed = 1; seed <= 6; seed++) {
    const chat = model.chat({ tools: [tool], ...WILD, seed, maxTokens: 200, maxRounds: 2 });
    const { toolCalls = [], finishReason } = await chat.send('Add', { toolChoice: { name } }).result();
    assert.ok(toolCalls.length >= 1 && toolCalls[0].result === 1);
    ends.add(finishReason);
  }
  assert.ok(ends.has('stop') || ends.has('length'), `no answer without a call: ${[...ends]}`);
  const chat = model.chat({ tools: [{ ...tool, execute: undefined }], toolChoice: 'required', ...WILD, maxTokens: 60 });
  const { toolCalls: [call] = [] } = await chat.send('Add', { seed: 3 }).result();
  const after = await chat.sendToolResults([{ id: call.id, content: 5 }], { seed: 3, toolChoice: 'none' }).result();
  assert.notEqual(after.finishReason, 'tool-calls');
  assert.deepEqual(chat.messages[2], { role: 'tool', id: call.id, name, content: 5 });
});
