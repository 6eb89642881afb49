/* Tests options: their ranges and unknown names. The engine accepts every value that JavaScript accepts. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { z } from 'zod';
import { compile } from '../../js/grammar/index.js';
import { SAMPLING } from '../../js/generated.js';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { GENERATE_OPTIONS, LOAD_OPTIONS, checkOptions, postable } from '../../js/options.js';
import { schemaOf, validated } from '../../js/schemas.js';
import { loadedEngine } from './bare-engine.js';
import { open, refuses, wrong } from './helpers.js';
import { MODELS, modelBytes, testModel } from './models.js';

/** @param {any} options of generate() */
const check = (options) => checkOptions(options, GENERATE_OPTIONS);

/** @param {(range: { min: number, max: number, whole: boolean }) => any[]} values */
const sampling = (values) =>
  Object.fromEntries(Object.entries(SAMPLING).map(([name, option]) => [name, values(option)]));

/** Returns a regular expression with flags that tsc's target does not know. @param {string} flags */
const flagged = (flags) => new RegExp('a', flags);

/** @type {Record<string, unknown[]>} */
const bad = {
  ...sampling(({ min, max, whole }) => [min - 0.5, max + 1, Infinity, NaN, `${min}`, ...(whole ? [min + 0.5] : [])]),
  maxTokens: [-1, 1.5, '5', NaN, 2 ** 31],
  seed: [-1, 2 ** 32, 0.5],
  logprobs: [-1, 65, true],
  stop: ['', [''], 5, ['a', 1]],
  logitBias: [5, { a: 1 }, { '': 1 }, { '0x1': 1 }, { 5: NaN }, { 5: Infinity }, { '-1': 1 }, { [2 ** 32 + 5]: 1 }],
  signal: [{}, true],
  onPrefillProgress: [1],
  format: [
    'xml',
    {},
    { schema: 'x' },
    { schema: {}, regex: 'a' },
    { regex: 5 },
    { regex: /a/m },
    { regex: flagged('v') },
    { grammar: /a/ },
    { choices: [] },
    { choices: [1] },
    { choices: 'a' },
    { regex: 'a', whitespace: 'any' },
    { schema: {}, whitespace: 'wide' },
    { toString: 1 },
    [],
  ],
  jumpForward: [0, 'yes'],
  tools: [
    {},
    [null],
    [{}],
    [{ name: 'a b' }],
    [{ name: 'a' }, { name: 'a' }],
    [{ name: 'a', description: 1 }],
    [{ name: 'a', parameters: 'x' }],
    [{ name: 'a', execute: 1 }],
    [{ name: 'a', parametres: {} }],
    [, { name: 'a' }],
  ],
  thinking: [1, 'on', {}, { budget: -1 }, { budget: 0.5 }],
  draft: ['yes', 1],
  toolChoice: ['any', {}, { name: 1 }, { everyRound: false }],
  maxRounds: [-1, 0.5],
};
const good = {
  ...sampling(({ min, max }) => [min, max]),
  maxTokens: [0, 1],
  seed: [0, 2 ** 32 - 1],
  logprobs: [0, 64],
  stop: ['x', ['x', 'y'], []],
  logitBias: [{}, { 5: -Infinity }, new Map([[5, 1.5]])],
  signal: [new AbortController().signal],
  onPrefillProgress: [() => {}],
  jumpForward: [true, false],
  format: [
    'json',
    { schema: {} },
    { schema: true, whitespace: 'pretty' },
    { regex: 'a+' },
    { regex: /a+/u },
    { grammar: 'root ::= "a"' },
    { choices: ['a', ''] },
  ],
  maxRounds: [0, 3],
  thinking: [true, false, { budget: 0 }],
  draft: [true, false],
  toolChoice: ['auto', 'none', 'required', { name: 'a' }, { name: 'a', everyRound: true }, { everyRound: true }],
  tools: [
    [],
    [{ name: 'get_time' }, { name: 'a-b.c', description: 'x', parameters: { type: 'object' }, execute: () => 1 }],
  ],
};

test('every option of generate() accepts its range and rejects other values', async () => {
  for (const table of [bad, good]) assert.deepEqual(Object.keys(table).sort(), Object.keys(GENERATE_OPTIONS).sort());
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const error = await refuses(() => check({ [name]: value }), 'bad-option');
      assert.ok(error.message.startsWith(`\`${name}\` must be ${error.expected}`), error.message);
    }
  }
  for (const [name, values] of Object.entries(good)) {
    for (const value of [...values, undefined, null]) check({ [name]: value });
  }
});

test('every option of loadModel() rejects invalid values', async () => {
  const wrong = {
    onProgress: ['x'],
    signal: [1],
    threads: [0, 65, 1.5, '2'],
    contextLength: [0, -1, 2 ** 21],
    variant: ['fast', 1],
    quantizeFloats: ['Q8_0', 'q4_0', '', 8],
    kvType: ['f16', 'I16', 'q4_0', '', 16],
    sequences: [0, 17, 1.5, '2'],
    kvTokens: [0, 2 ** 24 + 1, 1.5, '4096'],
    rowsOnDisk: ['yes', '', 0, {}],
    rowsLater: ['yes', 1],
    cache: ['yes', {}, 1],
    draftModel: ['', 0, null],
    sha256: ['abc', 'g'.repeat(64), 5, ['a'.repeat(64), 'x']],
    token: ['', 'a b', 'a\n', 5],
    headers: [{ 'a b': 'c' }, 'x', { a: 'line\nbreak' }],
    restart: ['yes', 1],
    chatCacheBytes: [-1, 0.5, '9'],
    baseUrl: ['', 5, {}],
    hub: ['', 5],
  };
  assert.deepEqual(Object.keys(LOAD_OPTIONS), Object.keys(wrong));
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) await refuses(loadModel('/nowhere', { [name]: value }), 'bad-option');
  }
});

test('errors of tools and formats name the bad part', async () => {
  const tool = { type: 'function', function: { name: 'b', more: 1 } };
  for (const [options, words] of [
    [{ tools: [{ name: 'a' }, tool] }, 'the key "more" in tool 1'],
    [{ tools: [{ name: 'a', parametres: {} }] }, 'the key "parametres" in tool 0'],
    [{ tools: [{ name: 'a b' }] }, 'the name "a b" in tool 0'],
    [{ tools: [{}] }, 'the name undefined in tool 0'],
    [{ tools: [{ name: 'a' }, { name: 'b' }, { name: 'a' }] }, 'two tools named "a"'],
    [{ tools: { name: 'a' } }, '{ name }'],
    [{ format: { regex: flagged('giv') } }, 'a RegExp with the flags v'],
    [{ format: { regexp: 'a' } }, '{ regexp: "a" }'],
    [{ format: { schema: 'x', whitespace: 'any' } }, '{ schema: "x", whitespace: "any" }'],
    [{ format: ['json'] }, '["json"]'],
  ]) {
    const error = await refuses(() => check(options), 'bad-option');
    assert.equal(error.got, words);
  }
});

test('an unknown option is refused with the name that was probably meant', async () => {
  for (const [name, message] of /** @type {[string, RegExp][]} */ ([
    ['max_tokens', /`max_tokens`\. Pass `maxTokens` instead/],
    ['topk', /`topK`/],
    ['zebra', /options are maxTokens/],
    ['toString', /toString/],
  ]))
    await refuses(() => check({ [name]: 5 }), 'bad-option', message);
});

test('the engine accepts the same range of each sampling option as JavaScript', async () => {
  const engine = await loadedEngine(await testModel('tiny'));
  for (const [name, { min, max, whole }] of Object.entries(SAMPLING)) {
    const [[sampler]] = postable({ [name]: min }).sampler;
    for (const value of [min, max]) engine.setOption(sampler, value);
    for (const value of [min - 0.001, max * 1.001, ...(whole ? [min + 0.5] : [])]) {
      assert.throws(() => engine.setOption(sampler, value), { code: 'bad-option' }, `${sampler}: ${value}`);
    }
  }
});

test('invalid prompts and ids are rejected', async (t) => {
  const model = await open(t);
  for (const [prompt, got] of [
    [undefined, 'undefined'],
    [null, 'null'],
    [5, '5'],
    [{}, '{}'],
    [[], '[]'],
  ]) {
    const error = await refuses(() => model.generate(wrong(prompt)), 'bad-option');
    assert.equal(
      error.message,
      `\`prompt\` must be a string, token ids, or messages [{ role, content }] (got ${got}).`,
    );
  }
  for (const ids of [[-1], [1024], [0.5], ['a'], new Float32Array([0.5])]) {
    await refuses(() => model.generate(wrong(ids)), 'bad-token');
    await refuses(model.debug.logits(wrong(ids)), 'bad-token');
    await refuses(model.detokenize(wrong(ids)), 'bad-token');
  }
  await refuses(() => model.generate(wrong([1n])), 'bad-token', /\(got 1n\)/);
  await refuses(model.debug.logits([]), 'bad-option');
  await refuses(model.debug.logits(wrong('abc')), 'bad-option');
  await refuses(() => model.generate([{ role: wrong('boss'), content: 'x' }]), 'bad-option');
  await refuses(() => model.generate([{ role: 'user', content: wrong(5) }]), 'bad-option');
  await refuses(model.tokenize(wrong(5)), 'bad-option');
  await refuses(model.debug.perplexity('some text', { window: 1 }), 'bad-option');
  await refuses(model.debug.perplexity(''), 'bad-option');
  assert.equal(
    (await model.generate('still well', { maxTokens: 3, logitBias: { 1: -Infinity, 8: -Infinity } }).result()).tokens
      .length,
    3,
  );
});

test('a context longer than the model was made for is refused with the range', async () => {
  const file = await testModel('tiny');
  await refuses(loadModel(file, { contextLength: 513 }), 'bad-option', /at most 512.*513/);
});

test('options of tokenize(), logits() and similar calls are checked', async (t) => {
  const model = await open(t);
  for (const options of [null, { bos: Symbol('x') }, { bos: 1 }, { boss: true }].map(wrong)) {
    await refuses(model.tokenize('x', options), 'bad-option');
    await refuses(model.detokenize([5], options), 'bad-option');
    await refuses(model.debug.logits([5], options), 'bad-option');
    await refuses(model.debug.perplexity('some text', options), 'bad-option');
    await refuses(model.countTokens('some text', options), 'bad-option');
    await refuses(model.debug.matches('json', '1', options), 'bad-option');
    await refuses(model.chatCache.get('x', options), 'bad-option');
  }
  await refuses(model.debug.logits([5], { signal: wrong({}) }), 'bad-option');
  assert.deepEqual(await model.tokenize('x', { bos: undefined }), await model.tokenize('x'));
});

test('an object without a prototype is rejected like any other', async (t) => {
  const none = Object.create(null);
  const known = { ...GENERATE_OPTIONS, ...LOAD_OPTIONS };
  for (const name of Object.keys(known)) {
    if (name === 'logitBias' || name === 'headers') continue; // An empty object is valid for these options.
    if (name === 'draftModel') continue; // Draft models are checked like the model's source.
    const error = await refuses(() => checkOptions({ [name]: none }, known), 'bad-option');
    assert.ok(!/convert/.test(error.message), error.message);
    await refuses(() => checkOptions({ [name]: [none] }, known), 'bad-option');
  }
  await refuses(loadModel(none), 'unsupported-source');
  await refuses(loadModel(await testModel('tiny'), { draftModel: none }), 'unsupported-source');
  const model = await open(t);
  await refuses(() => model.generate('x', { stop: none }), 'bad-option');
  await refuses(() => model.generate([{ role: none, content: 'x' }]), 'bad-option');
  await refuses(() => model.generate([2, none]), 'bad-token');
});

test('an array-like of ids is rejected by its length before it is copied', async (t) => {
  const model = await open(t);
  await refuses(() => model.generate({ length: 1e9 }), 'bad-option');
  await refuses(() => model.generate({ length: 1e7 }), 'bad-token');
  for (const length of [1.5, NaN, -1, Infinity]) await refuses(() => model.generate({ length }), 'bad-option');
  await refuses(model.detokenize({ length: 2 ** 40 }), 'bad-option');
  assert.equal(await model.detokenize({ length: 0 }), '');
  assert.equal(await model.detokenize({ 0: 300, 1: 301, length: 2 }), await model.detokenize([300, 301]));
});

function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** A Standard Schema without a library behind it, in the form of Valibot 1. */
const bare = {
  '~standard': { version: 1, vendor: 'valibot', validate: (/** @type {unknown} */ value) => ({ value }) },
};

test('a schema is JSON Schema or is converted by its library; others are rejected with the remedy', () => {
  class Person {
    name = 'x';
  }
  const loop = /** @type {any} */ ({ type: 'object' });
  loop.properties = { loop };
  const message = /^`schema` must be a JSON Schema: .* Pass plain JSON, or an object of a schema library/;
  for (const schema of [
    new Person(),
    { type: 'object', properties: { a: new Person() } },
    loop,
    { type: 'object', properties: { a: () => 1 } },
    () => {},
    { type: 'string', default: 1n },
    { minimum: NaN },
    { properties: new Map() },
    { enum: [undefined, 'a'] },
    { properties: { a: undefined } },
    { $defs: { a: undefined } },
    [],
    revoked(),
    {
      get '~standard'() {
        throw new TypeError('no');
      },
    },
    {
      get '~standard'() {
        throw null;
      },
    },
    {
      get a() {
        throw new Error('no');
      },
    },
  ]) {
    assert.throws(() => schemaOf('`schema`', schema), { code: 'bad-option', message });
  }
  assert.throws(
    () => schemaOf('schema', bare),
    /this schema of valibot cannot convert itself\. .* toStandardJsonSchema\(\)/,
  );
  const typebox = { [Symbol('Kind')]: 'Object', type: 'object', properties: {} };
  assert.deepEqual(
    [true, {}, typebox].map((schema) => schemaOf('schema', schema)),
    [true, {}, { type: 'object', properties: {} }],
  );
  const person = z.object({
    name: z.string().max(5),
    pets: z.array(z.object({ age: z.number() })).optional(),
    note: z.looseObject({}).optional(),
  });
  const { properties, required, additionalProperties } = schemaOf('schema', person);
  assert.deepEqual(
    [properties.name, required, additionalProperties],
    [{ type: 'string', maxLength: 5 }, ['name'], false],
  );
  assert.deepEqual([properties.pets.items.additionalProperties, properties.note.additionalProperties], [false, {}]);
  assert.throws(
    () => schemaOf('The parameters of f', z.object({ at: z.date() })),
    /^ModelError: The parameters of f must be .* Date/,
  );
});

test("a library's functions are called as methods", async () => {
  /** @type {any} */
  const standard = {
    jsonSchema: {
      type: 'string',
      input() {
        return { type: this.type };
      },
    },
    factor: 2,
    validate(/** @type {number} */ value) {
      return { value: value * this.factor };
    },
  };
  assert.deepEqual(schemaOf('schema', { '~standard': standard }), { type: 'string' });
  assert.deepEqual(await validated({ '~standard': standard }, 3), { value: 6 });
});

test('a keyword with the value undefined is ignored', () => {
  assert.deepEqual(schemaOf('schema', { type: 'string', maxLength: undefined }), { type: 'string' });
  const properties = { dependencies: { title: undefined }, properties: { title: undefined } };
  assert.deepEqual(schemaOf('schema', { properties }), { properties: { dependencies: {}, properties: {} } });
});

test('objects of a converted schema allow no other members, unless a part of the schema is an allOf', () => {
  const named = schemaOf('schema', z.object({ allOf: z.string(), deep: z.object({ a: z.literal('allOf') }) }));
  assert.deepEqual([named.additionalProperties, named.properties.deep.additionalProperties], [false, false]);
  const parts = [{ properties: { b: {} } }, { properties: { c: {} } }];
  const json = { properties: { a: { allOf: parts } } };
  const joining = { '~standard': { version: 1, vendor: 'x', jsonSchema: { input: () => json } } };
  assert.deepEqual(schemaOf('schema', joining), json);
});

test('a schema whose proxy is revoked is refused with a code', async (t) => {
  const model = await open(t);
  await refuses(() => model.generate('x', { format: { schema: revoked() } }).text(), 'bad-option');
  await refuses(() => model.generate('x', { format: { schema: [] } }).text(), 'bad-option');
});

test('objects without a keyword of JSON Schema are rejected, because they constrain nothing', () => {
  for (const schema of [
    { name: 'string' },
    { typ: 'object' },
    { foo: 1, bar: { type: 'string' } },
    { title: 'x', fields: {} },
    { id: 'x', name: { type: 'string' } },
    { default: {}, name: 'x' },
    { $defs: { a: {} }, fields: {} },
  ]) {
    assert.throws(() => compile({ schema }), /no keyword of JSON Schema .* describe members in `properties`/);
  }
  for (const schema of [{}, { title: 'x' }, { $comment: 'x' }, { type: 'string', foo: 1 }])
    assert.ok(compile({ schema }));
});

test('schemas and biases that are too large are refused before they are copied to the worker', async (t) => {
  const properties = Object.fromEntries(Array.from({ length: 300_000 }, (_, i) => [`member ${i}`, { type: 'string' }]));
  await refuses(() => schemaOf('schema', { type: 'object', properties }), 'format-too-complex');
  const long = 'a'.repeat(5_000_000);
  await refuses(() => schemaOf('schema', { const: long }), 'format-too-complex');
  await refuses(() => schemaOf('schema', { properties: { [long]: {} } }), 'format-too-complex');
  const logitBias = new Map(Array.from({ length: 1_000_001 }, (_, i) => [i, 1]));
  const model = await open(t);
  await refuses(() => model.generate('x', { logitBias }), 'bad-option');
});

test('later changes of options by the caller have no effect', async (t) => {
  const model = await open(t);
  /** Replaces everything in a value. @param {any} value */
  const spoil = (value) => {
    for (const [key, part] of Object.entries(value)) {
      if (typeof part === 'object') spoil(part);
      else value[key] = 'spoilt';
    }
  };
  for (const format of [
    { choices: ['yes'] },
    { grammar: 'root ::= "yes"' },
    { schema: { type: 'array', items: { const: 'yes' }, minItems: 1, maxItems: 1 } },
  ]) {
    const options = { format, stop: ['never'], logitBias: { 7: -1 }, temperature: 0 };
    const chat = model.chat(options);
    const out = model.generate('x', options);
    spoil(options);
    assert.match((await out.result()).text, /^(\["yes"\]|yes)$/);
    assert.match(await chat.send('x').text(), /^(\["yes"\]|yes)$/);
  }
  const tools = [{ name: 'get', parameters: { properties: { a: { enum: ['b'] } } } }];
  const posted = postable({ tools });
  const before = structuredClone(posted);
  spoil(tools);
  assert.deepEqual(posted, before);
});

test('options may share parts, be cyclic or be deeply nested', async (t) => {
  const model = await open(t);
  /** @type {any} */
  const cyclic = { type: 'object', properties: {} };
  cyclic.properties.a = cyclic;
  /** @type {any} */
  let [doubled, nested] = [{ const: 1 }, { const: 1 }];
  for (let i = 0; i < 40; i++) doubled = { anyOf: [doubled, doubled] };
  for (let i = 0; i < 50_000; i++) nested = { items: nested };
  for (const [schema, code, message] of /** @type {const} */ ([
    [cyclic, 'bad-option', /circular/],
    [doubled, 'format-too-complex', /more than/],
    [nested, 'bad-option', /nested too deeply/],
  ])) {
    await refuses(model.generate('x', { format: { schema } }).result(), code, message);
  }
});

test('objects of another realm are accepted', async (t) => {
  const context = createContext({ bytes: [...(await modelBytes(MODELS.tiny))] });
  const made = (/** @type {string} */ code) => runInContext(code, context);
  const { buffer, view } = made('({ view: Uint8Array.from(bytes), buffer: Uint8Array.from(bytes).buffer })');
  assert.ok(!(buffer instanceof ArrayBuffer) && !(view instanceof Uint8Array));
  for (const source of [buffer, view]) assert.equal((await inspectModel(source)).info.architecture, 'gemma3');
  const model = await open(t);
  const options = made('({ format: { regex: /yes/i }, temperature: 0, stop: ["never"] })');
  assert.match(await model.generate(made('[2, 300]'), options).text(), /^yes$/i);
  await refuses(() => model.generate('x', { format: made('({ regex: /a/m })') }), 'bad-option', /the flags m/);
  const posted = postable({ logitBias: made('new Map([[5, -1]])') });
  assert.deepEqual(posted.bias, [[5, -1]]);
  const bytes = await model.chat({ maxTokens: 1 }).save();
  context.saved = [...bytes];
  assert.deepEqual(model.chat({ saved: made('Uint8Array.from(saved).buffer') }).messages, []);
});

test('signals, URLs and Blobs are recognised by their class name, whatever their prototype', async (t) => {
  const path = await testModel('tiny');
  /** Returns an object with the members of a value, but another prototype. @param {any} value */
  const foreign = (value) =>
    new Proxy(Object.create(null), {
      get: (_, name) => (typeof value[name] === 'function' ? value[name].bind(value) : value[name]),
    });
  const controller = new AbortController();
  const signal = foreign(controller.signal);
  const file = foreign(new File([new Uint8Array(await readFile(path))], 'tiny.gguf'));
  assert.ok(!(signal instanceof AbortSignal) && !(file instanceof Blob));
  for (const source of [foreign(pathToFileURL(path)), file]) {
    assert.equal((await inspectModel(source, { signal })).info.architecture, 'gemma3');
  }
  const model = await open(t);
  const out = model.generate('x', { signal, maxTokens: 1000 });
  controller.abort();
  assert.equal((await out.result()).finishReason, 'aborted');
  checkOptions({ baseUrl: foreign(new URL('https://localhost/')) }, LOAD_OPTIONS);
});

test('null is the same as an option that is not given', () => {
  const nulls = Object.fromEntries(Object.keys(GENERATE_OPTIONS).map((name) => [name, null]));
  check(nulls);
  const { seed, ...some } = postable(wrong(nulls));
  const { seed: other, ...none } = postable({});
  assert.ok(Number.isInteger(seed) && Number.isInteger(other));
  assert.deepEqual(some, none);
});

test('sampling defaults are those of the file, of its model family, or of Gemma', async (t) => {
  /** @type {Record<string, ['f32' | 'i32', number]>} */
  const said = {
    temp: ['f32', 0],
    top_k: ['i32', 7],
    top_p: ['f32', 7],
    min_p: ['f32', 0.05],
    penalty_last_n: ['i32', -1],
  };
  const bytes = await modelBytes({
    ...MODELS.tiny,
    edit({ metadata }) {
      for (const [key, entry] of Object.entries(said)) metadata.push([`general.sampling.${key}`, ...entry]);
    },
  });
  const model = await loadModel(bytes, { threads: 1 });
  t.after(() => model.dispose());
  const { defaults } = model.info;
  assert.deepEqual(
    [defaults.temperature, defaults.topK, defaults.topP, defaults.minP, defaults.penaltyWindow],
    [0, 7, 0.95, 0.05, 64],
    'values out of range are ignored',
  );
  const answer = async (/** @type {object} */ options) =>
    (await model.generate('Hello', { maxTokens: 12, ...options }).result()).tokens;
  assert.deepEqual(await answer({ seed: 1 }), await answer({ seed: 2 }), 'temperature 0 holds');
  assert.notDeepEqual(await answer({ seed: 1, temperature: 5 }), await answer({ seed: 2, temperature: 5 }));
  const of = async (/** @type {string} */ name) => {
    const { temperature, topK, topP } = (await inspectModel(await testModel(name))).info.defaults;
    return [temperature, topK, topP];
  };
  assert.deepEqual(
    [await of('tiny'), await of('qwen3-tools')],
    [
      [1, 64, 0.95],
      [0.6, 20, 0.95],
    ],
  );
});
