/* Tests tools: prompts of templates with and without support for tools, and parsing calls from ids: every call that is
 * written parses to the same values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget, compile } from '../../js/grammar/index.js';
import { partsOf } from '../../js/grammar/nodes.js';
import { mapped } from '../../js/grammar/ordered.js';
import { spacing } from '../../js/tool-calling/build.js';
import { CallReader } from '../../js/tool-calling/index.js';
import { accepts } from '../support/acceptor.js';
import { randoms } from '../support/random.js';
import { vocabularyOf } from './vocabularies.js';

const WEATHER = {
  name: 'get_weather',
  description: 'Get current weather for a location',
  parameters: {
    type: 'object',
    properties: { location: { type: 'string', description: 'City name' } },
    required: ['location'],
  },
};
/** Token ids that llama.cpp computes for a prompt of FunctionGemma. */
const FUNCTION_GEMMA_IDS = [
  2, 105, 55060, 107, 3048, 659, 496, 2028, 600, 740, 776, 1292, 11687, 607, 506, 2269, 5151, 46, 163688, 236787, 828,
  236779, 19323, 236782, 7777, 236787, 52, 3407, 1873, 7606, 573, 496, 4563, 52, 236764, 19031, 29616, 15921, 29616,
  7125, 29616, 7777, 236787, 52, 17698, 1463, 52, 236764, 2084, 236787, 52, 35410, 52, 5237, 15979, 24845, 52, 7125, 52,
  1604, 2084, 236787, 52, 60688, 52, 1807, 47, 106, 107, 105, 2364, 107, 3689, 236789, 236751, 506, 7606, 528, 9079,
  236881, 106, 107, 105, 4368, 107,
];
const QUESTION = { role: 'user', content: "What's the weather in Paris?" };

test("FunctionGemma: the prompt has llama.cpp's ids, whether developer or system sends its trained sentence", async () => {
  const vocabulary = await vocabularyOf('functiongemma');
  assert.equal((await vocabulary.dialect()).name, 'functiongemma');
  const told = 'You are a model that can do function calling with the following functions';
  for (const messages of [[QUESTION], ...['developer', 'system'].map((role) => [{ role, content: told }, QUESTION])]) {
    assert.deepEqual((await vocabulary.prompted({ messages, tools: [WEATHER] })).ids, FUNCTION_GEMMA_IDS);
  }
});

test('FunctionGemma: the template gets one type per value, and a malformed call breaks nothing', async () => {
  const dialect = await (await vocabularyOf('functiongemma')).dialect();
  const type = ['null', 'string'];
  const list = { type: 'array', items: { type } };
  const kind = { enum: [['a', 'b']] };
  const properties = {
    type: { type },
    list,
    kind,
    any: true,
    in: { type: ['object'], properties: { none: { type: ['null'] } } },
  };
  const [tool] = dialect.render([QUESTION], [{ name: 'f', parameters: { properties } }]).tools ?? [];
  const { type: own, properties: told } = Object(tool).function.parameters;
  assert.deepEqual(
    [own, told.type.type, told.list.items.type, told.kind, told.any],
    ['object', 'string', 'string', { ...kind, type: '' }, { type: '' }],
  );
  assert.deepEqual(told.in, { type: 'object', properties: { none: { type: 'null' } } });
  const items = [mark('<start_function_call>'), said('call:f{a:1,b c}'), mark('<end_function_call>')];
  assert.deepEqual(dialect.parse(items, []).calls, [{ name: 'f', arguments: { a: 1 }, done: true }]);
});

const NOTE = {
  name: 'take-note',
  description: 'Keep "this" <escape>',
  parameters: {
    type: 'object',
    properties: {
      text: { type: 'string' },
      Title: { type: 'string' },
      count: { type: 'integer' },
      ratio: { type: 'number' },
      sure: { type: 'boolean' },
      'odd key': { type: 'string' },
      kind: { enum: ['plain', 'a "b"', '{c:d}'] },
      list: { type: 'array', items: { type: 'string' } },
      nothing: { type: 'null' },
      in: {
        type: 'object',
        properties: { who: { type: 'string' }, n: { type: 'array', items: { type: 'number' } } },
        required: ['who'],
        additionalProperties: false,
      },
    },
    required: ['text'],
    additionalProperties: false,
  },
};
const ODD = [
  ...`" \\ { } [] : , <escape> <end_function_call> <start_function_call> <|"|> <|tool_call> <tool_call|> </tool_call>
    <|eot_id|> <end_of_turn> "}} 👩‍👩‍👧 😀 \u202e é call:take-note{ ' null 12`.split(/\s+/),
  ...['\n', '\t', ' ', '\u0001', '<tool_call>\n{"name": "x"}', 'שלום عليكم', 'plain words', '; '],
];

/** @param {number} seed */
function randomly(seed) {
  const next = randoms(seed);
  const text = () => Array.from({ length: next(5) }, () => ODD[next(ODD.length)]).join('');
  const some = (/** @type {() => any} */ make) => Array.from({ length: next(4) }, make);
  const number = () => [0, -1, 12.5, 1e21, 0.001, -7e-9][next(6)];
  return { next, text, some, number };
}

/** @param {number} seed */
function argumentsOf(seed) {
  const { next, text, some, number } = randomly(seed);
  const all = {
    text: text(),
    Title: text(),
    count: next(1000) - 500,
    ratio: number(),
    sure: next(2) === 1,
    'odd key': text(),
    kind: ['plain', 'a "b"', '{c:d}'][next(3)],
    list: some(text),
    nothing: null,
    in: { who: text(), ...(next(2) && { n: some(number) }) },
  };
  return Object.fromEntries(Object.entries(all).filter(([name]) => name === 'text' || next(2)));
}

test('generic: a message with text and calls keeps both', async () => {
  const { render } = await (await vocabularyOf('tiny')).dialect();
  const toolCalls = [{ id: 'a', name: 'f', arguments: {} }];
  const { messages } = render([{ role: 'assistant', content: 'I look.', thoughts: 'Hm', toolCalls }], []);
  const content = 'I look.\n{"tool_call":{"name":"f","arguments":{}}}';
  assert.deepEqual(messages, [{ role: 'assistant', content, thoughts: 'Hm' }]);
});

test('results of parallel calls are rendered in the order of the calls', async () => {
  const toolCalls = ['a', 'b'].map((id) => ({ id, name: 'get_weather', arguments: { location: id } }));
  const results = ['a', 'b'].map((id) => ({ role: 'tool', name: 'get_weather', id, content: { of: id } }));
  const called = { role: 'assistant', content: '', toolCalls };
  for (const name of Object.keys(WRITERS)) {
    const vocabulary = await vocabularyOf(name);
    const ids = async (/** @type {any[]} */ ...said) =>
      (await vocabulary.prompted({ messages: [QUESTION, called, ...said], tools: [WEATHER] })).ids;
    const right = await ids(...results);
    assert.deepEqual(await ids(results[1], results[0]), right, name);
    assert.deepEqual(await ids(results[0], { ...results[1], id: undefined }), right, name);
  }
});

/** @typedef {{ mark?: string, text?: string }} Item */
const mark = (/** @type {string} */ name) => ({ mark: name });
const said = (/** @type {string} */ text) => ({ text });
/** Returns a value as JSON with the spacing of Python's json.dumps(). @param {unknown} value */
const spaced = (value) =>
  JSON.stringify(value, null, 1)
    .replace(/\n */g, '\u0000')
    .replace(/,\u0000/g, ', ')
    .replaceAll('\u0000', '');
/** Returns a value in the syntax of FunctionGemma and Gemma 4: strings between quote tokens, and other values as JSON.
 * @param {any} value @param {string} quote @returns {Item[]} */
function bare(value, quote) {
  if (typeof value === 'string') return [mark(quote), said(value), mark(quote)];
  if (typeof value !== 'object' || value === null) return [said(JSON.stringify(value))];
  const list = Array.isArray(value);
  const folded = (/** @type {string} */ name) => name.toLowerCase();
  const names = Object.keys(value).sort((a, b) => (folded(a) < folded(b) ? -1 : 1));
  const parts = list
    ? value.map((one) => bare(one, quote))
    : names.map((name) => [...key(name, quote), said(':'), ...bare(value[name], quote)]);
  return [
    said(list ? '[' : '{'),
    ...parts.flatMap((part, i) => (i ? [said(','), ...part] : part)),
    said(list ? ']' : '}'),
  ];
}
/** @param {string} name @param {string} quote */
const key = (name, quote) => (name === 'odd key' ? bare(name, quote) : [said(name)]);
/** @param {string} start @param {string} end @param {string} quote */
const unquoted = (start, end, quote) => (/** @type {{ name: string, arguments: object }[]} */ calls) =>
  calls.flatMap(({ name, arguments: args }) => [mark(start), said(`call:${name}`), ...bare(args, quote), mark(end)]);

/** Functions that write tool calls as the model of each family does, as items of text and of tokens.
 * @type {Record<string, (calls: { name: string, arguments: object }[]) => Item[]>} */
const WRITERS = {
  functiongemma: unquoted('<start_function_call>', '<end_function_call>', '<escape>'),
  'gemma4-tools': unquoted('<|tool_call>', '<tool_call|>', '<|"|>'),
  'qwen3-tools': (calls) =>
    calls.flatMap(({ name, arguments: args }, i) => [
      ...(i ? [said('\n')] : []),
      mark('<tool_call>'),
      said(`\n{"name": "${name}", "arguments": ${spaced(args)}}\n`),
      mark('</tool_call>'),
    ]),
  'llama3-tools': (calls) => [
    said(calls.map(({ name, arguments: args }) => `{"name": "${name}", "parameters": ${spaced(args)}}`).join('; ')),
  ],
  tiny: (calls) => {
    const written = calls.map(({ name, arguments: args }) => `{"name": "${name}", "arguments": ${spaced(args)}}`);
    return [said(calls.length > 1 ? `{"tool_calls": [${written.join(', ')}]}` : `{"tool_call": ${written}}`)];
  },
};
/** @type {Record<string, string>} */
const NAMES = {
  functiongemma: 'functiongemma',
  'gemma4-tools': 'gemma4',
  'qwen3-tools': 'hermes',
  'llama3-tools': 'llama3',
  tiny: 'generic',
};

/** @param {any} vocabulary @param {any[]} items */
function tokensOf(vocabulary, items) {
  return items.flatMap((item) => ('mark' in item ? [vocabulary.idOf(item.mark)] : vocabulary.encode(item.text)));
}

/** @param {any} vocabulary @param {any} dialect @param {number[]} ids */
function read(vocabulary, dialect, ids) {
  const reader = new CallReader(dialect, (name) => vocabulary.idOf(name));
  let shown = '';
  const states = ids.map((id, i) => {
    shown += reader.add(id, vocabulary.bytes(id, ids[i - 1] ?? -1));
    return structuredClone(reader.parsed);
  });
  assert.equal(shown, reader.parsed.text);
  return { states, ...reader.parsed };
}

const FAMILIES = await Promise.all(
  Object.entries(WRITERS).map(async ([name, write]) => {
    const vocabulary = await vocabularyOf(name);
    return { name, write, vocabulary, dialect: await vocabulary.dialect() };
  }),
);

for (const { name, write, vocabulary, dialect } of FAMILIES) {
  test(`${NAMES[name]}: 100 calls parse back to equal objects, and grow while they come`, () => {
    assert.equal(dialect.name, NAMES[name]);
    for (let seed = 0, calls = []; seed < 100; seed += calls.length) {
      calls = Array.from({ length: 1 + (seed % 3) }, (_, i) => ({
        name: 'take-note',
        arguments: argumentsOf(seed + i),
        done: true,
      }));
      const answer = read(vocabulary, dialect, tokensOf(vocabulary, write(calls)));
      assert.deepEqual(answer.calls, calls);
      assert.equal(answer.text, '');
      let before = 0;
      for (const state of answer.states) {
        assert.ok(
          state.calls.length >= before && state.calls.every((call, i) => call.done || i === state.calls.length - 1),
        );
        before = state.calls.length;
      }
    }
  });

  test(`${NAMES[name]}: text that reads like a call is text`, () => {
    const like = write([{ name: 'take-note', arguments: { text: 'x' } }])
      .map((item) => item.mark ?? item.text)
      .join('');
    const answer = name === 'tiny' ? JSON.stringify({ response: like }) : `So: ${like}`;
    // Tokenizes each character alone, so that the name of a control token is spelled out and does not become that
    // token.
    const ids = [...answer].flatMap((c) => vocabulary.encode(c));
    const { text, calls } = read(vocabulary, dialect, ids);
    assert.deepEqual(calls, []);
    assert.equal(text, name === 'tiny' ? like : answer);
  });
}

const HERMES = await (await vocabularyOf('qwen3-tools')).dialect();

test('Hermes: the beginning of a delimiter without a token is shown only if no call follows', () => {
  for (const [answer, words] of [
    ['So <b>, <tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', 'So <b>, '],
    ['So <tool', 'So <tool'],
  ]) {
    const reader = new CallReader(HERMES, () => null);
    const shown = [...answer].map((letter) => reader.add(0, new TextEncoder().encode(letter))).join('') + reader.end();
    assert.deepEqual([shown, reader.parsed.text], [words, words]);
  }
});

test('ids of calls continue those of the conversation, whatever ids it has', () => {
  const reader = new CallReader(HERMES, () => null);
  const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
  reader.add(0, new TextEncoder().encode(call + call));
  const next = (/** @type {any[]} */ ...ids) =>
    reader
      .completeCalls([
        { role: 'assistant', content: '', toolCalls: ids.map((id) => ({ id, name: 'f', arguments: {} })) },
      ])
      .map(({ id }) => id);
  assert.deepEqual(next(), ['call_0', 'call_1']);
  assert.deepEqual(next('call_3', 'call_1', 'x'), ['call_6', 'call_7']);
  assert.deepEqual(next('call_1719876543210123456'), ['call_1', 'call_2']);
  assert.deepEqual(next(5), ['call_1', 'call_2']);
});

const SIGN = 0x100000;
/** Replaces the tokens in a grammar by characters that no text contains, so that an acceptor of texts can check the
 * grammar. @param {any} node @returns {any} */
function asText(node) {
  if ('chars' in node)
    return { chars: node.chars.map((/** @type {number[]} */ [lo, hi]) => [lo, Math.min(hi, SIGN - 1)]) };
  if ('jsonString' in node) return { jsonString: asText(node.jsonString) };
  return 'token' in node ? { literal: String.fromCodePoint(SIGN + node.token) } : mapped(node, asText);
}

/** @param {any} vocabulary @param {any} dialect @param {any} choice @param {any[]} items */
function accepted(vocabulary, dialect, choice, items, tools = /** @type {any[]} */ ([NOTE, WEATHER])) {
  const { rules, start } = dialect.grammar({
    tools,
    choice,
    budget: new Budget(),
    id: (/** @type {string} */ name) => vocabulary.idOf(name),
    control: (/** @type {number} */ id) => vocabulary.isControl(id),
    schema: (/** @type {unknown} */ schema) => compile({ schema }),
  });
  const texts = Object.fromEntries(Object.entries(rules).map(([name, node]) => [name, asText(node)]));
  const text = items.map((item) => item.text ?? String.fromCodePoint(SIGN + vocabulary.idOf(item.mark))).join('');
  return accepts({ rules: texts, start }, text);
}

test('FunctionGemma: properties without a name are left out; an error names a tool that requires them', async () => {
  const vocabulary = await vocabularyOf('functiongemma');
  const dialect = await vocabulary.dialect();
  const items = [mark('<start_function_call>'), said('call:f{a:{}}'), mark('<end_function_call>')];
  const free = { type: 'object', additionalProperties: { type: 'string' } };
  const judge = (/** @type {object} */ a) =>
    accepted(vocabulary, dialect, 'auto', items, [{ name: 'f', parameters: { properties: { a }, required: ['a'] } }]);
  assert.ok(judge(free));
  assert.throws(() => judge({ ...free, minProperties: 1 }), /the tool f requires .*#\/tools\/0\/parameters/);
});

for (const { name, write, vocabulary, dialect } of FAMILIES) {
  test(`${NAMES[name]}: with a format, only text that begins like a call of a tool is parsed as a call`, () => {
    const readerOf = () => new CallReader(dialect, (mark) => vocabulary.idOf(mark), dialect.openings([NOTE, WEATHER]));
    const call = { name: 'get_weather', arguments: { location: 'Paris' } };
    const reader = readerOf();
    let shown = '';
    for (const id of tokensOf(vocabulary, write([call]))) shown += reader.add(id, vocabulary.bytes(id, -1));
    assert.deepEqual([shown + reader.end(), reader.parsed.calls], ['', [{ ...call, done: true }]]);
    const other = '{"name": "other", "parameters": {}, "arguments": {}}';
    for (const text of [
      '',
      '{',
      '{"name": "get_wea',
      '{"name":"get_weather","parameters":{}}',
      other,
      'x {"tool_call": 1}',
    ]) {
      const reader = readerOf();
      const pieces = vocabulary.encode(text).map((id) => reader.add(id, vocabulary.bytes(id, id)));
      assert.deepEqual([pieces.join('') + reader.end(), reader.parsed.calls], [text, []]);
      // The reader of tool calls holds text back only as long as the text could begin a call.
      if (text === other || text.startsWith('x')) assert.equal(pieces.join(''), text);
    }
  });

  test(`${NAMES[name]}: the grammar accepts calls of the tools, and no others`, () => {
    const judge = (/** @type {string | { name: string }} */ choice, /** @type {Item[]} */ items) =>
      accepted(vocabulary, dialect, choice, items);
    for (let seed = 0; seed < 12; seed++) {
      const calls = Array.from({ length: 1 + (seed % 3) }, (_, i) => ({
        name: 'take-note',
        arguments: argumentsOf(seed + i),
      }));
      const items = write(calls);
      for (const choice of ['auto', 'required']) assert.ok(judge(choice, items), `${choice}: ${JSON.stringify(items)}`);
      assert.equal(judge({ name: 'take-note' }, items), calls.length === 1);
      assert.ok(!judge({ name: 'get_weather' }, items));
    }
    for (const wrong of [
      {},
      { text: 5 },
      { text: 'a', more: 1 },
      { text: 'a', count: 1.5 },
      { text: 'a', kind: 'other' },
    ]) {
      assert.ok(!judge('auto', write([{ name: 'take-note', arguments: wrong }])), JSON.stringify(wrong));
    }
    assert.ok(!judge('auto', write([{ name: 'unknown', arguments: { text: 'a' } }])));
    const words = name === 'tiny' ? [said('{"response": "Hi {there}"}')] : [said('Hi {there}')];
    assert.deepEqual(
      ['auto', 'required', { name: 'take-note' }].map((choice) => judge(choice, words)),
      [true, false, false],
    );
  });
}

test('nodes that rules share are copied once when spaces are added', () => {
  const spaced = spacing();
  const shared = { choice: [{ literal: ',' }, { literal: 'a' }] };
  assert.deepEqual(spaced(shared), { choice: [{ literal: ', ' }, { literal: 'a' }] });
  const [first] = partsOf(spaced({ choice: [shared, shared] }));
  assert.equal(first, spaced(shared));
});
