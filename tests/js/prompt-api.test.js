/* Tests the Prompt API's LanguageModel (js/prompt-api/): conversions of Web IDL, the states of a session, eviction,
 * constraints, tools, and errors. Expected answers come from the same model through the package's own API.
 * `node tools/check/wpt.js` runs the tests of web-platform-tests in a browser. */
/// <reference types="dom-chromium-ai" />
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { after, test } from 'node:test';
import { readFileSync } from 'node:fs';
import { loadModel, openCache } from '../../js/index.node.js';
import { CreateMonitor, LanguageModel as Session, createLanguageModel, install } from '../../js/prompt-api.node.js';
import { STORYTELLER, testModel } from './models.js';
import { open, refuses, serveWith, sleep, wrong } from './helpers.js';
import { memoryStore } from './memory-store.js';

const ASKED = 'Tell me a story about a dog.';
const MAX = 24;
const RATING = {
  type: 'object',
  required: ['rating'],
  additionalProperties: false,
  properties: { rating: { type: 'integer', minimum: 0, maximum: 5 } },
};

const model = await loadModel(STORYTELLER, { threads: 1, contextLength: 256 });
after(() => model.dispose());
const Local = createLanguageModel(model, { maxTokens: MAX });

/** @param {object} [options] */
const greedy = (options) => Local.create({ samplingMode: 'most-predictable', ...options });
/** @param {string} name of a DOMException */
const dom = (name) => (/** @type {any} */ error) => error instanceof DOMException && error.name === name;
/** @param {string} content */
const user = (content) => ({ role: /** @type {const} */ ('user'), content });
/** @param {string} content @param {boolean} [prefix] */
const assistant = (content, prefix = false) => ({ role: /** @type {const} */ ('assistant'), content, prefix });
/** @param {string} content */
const system = (content) => ({ role: /** @type {const} */ ('system'), content });

/** Makes tsc compare Session with Chrome's type LanguageModel, except for members that only browser extensions have.
 * @satisfies {(session: Session) => Omit<LanguageModel, 'topK' | 'temperature' | 'clone'>} */
const asNative = (session) => session;
/** @satisfies {(made: typeof Local) => Omit<typeof LanguageModel, 'params' | 'prototype' | 'create'>} */
const asNativeClass = (made) => made;
/** @satisfies {(options: LanguageModelCreateOptions) => Parameters<typeof Local.create>[0]} */
const asOptions = (options) => options;

test('answers: prompt() and promptStreaming() answer like a chat of the model, turn after turn', async () => {
  const chat = model.chat({ system: 'Be kind.', temperature: 0, maxTokens: MAX });
  const session = await greedy({ initialPrompts: [system('Be kind.')] });
  for (const text of [ASKED, 'Tell me more.']) {
    const pieces = [];
    for await (const piece of session.promptStreaming(text)) pieces.push(piece);
    assert.equal(pieces.join(''), await chat.send(text).text());
    assert.ok(pieces.length > 3);
  }
  assert.equal(await session.prompt('Thank you.'), await chat.send('Thank you.').text());
  assert.equal(session.contextUsage, await model.countTokens(chat.messages));
});

test('answers: append() and several messages of one author count as one turn', async () => {
  const session = await greedy();
  await session.append([user('Tell me'), user('a story')]);
  const answer = await session.prompt(
    wrong([
      {
        role: 'user',
        content: [
          { type: 'text', value: 'about a ' },
          { type: 'text', value: 'dog.' },
        ],
      },
    ]),
  );
  const expected = model.chat({ temperature: 0, maxTokens: MAX }).send('Tell me\na story\nabout a dog.');
  assert.equal(answer, await expected.text());
});

test('answers: a message with `prefix` begins the answer', async () => {
  const session = await greedy();
  const answer = await session.prompt([user(ASKED), assistant('One day, a cat', true)]);
  const chat = model.chat({ messages: [user(ASKED)], temperature: 0, maxTokens: MAX });
  assert.equal(answer, await chat.continue({ prefix: 'One day, a cat' }).text());
  assert.equal(session.contextUsage, await model.countTokens(chat.messages));
  // The next prompt sees the whole answer, with its prefix.
  assert.equal(await session.prompt('More.'), await chat.send('More.').text());
});

test('answers: an assistant that speaks first, and a system message alone, are conversations too', async () => {
  for (const initialPrompts of [
    [assistant('Hello!')],
    [system('Be kind.'), assistant('Hello!')],
    [system('Be kind.')],
  ]) {
    const session = await greedy({ initialPrompts });
    assert.equal(typeof (await session.prompt(ASKED)), 'string');
  }
});

test('answers: calls of a session wait for each other; an aborted one leaves no trace', async () => {
  const [session, other] = await Promise.all([greedy(), greedy()]);
  const controller = new AbortController();
  const reason = new Error('enough');
  const first = session.prompt(ASKED);
  const aborted = session.prompt('Something else.', { signal: controller.signal });
  const last = session.prompt('Tell me more.');
  controller.abort(reason);
  await assert.rejects(aborted, (error) => error === reason);
  assert.equal(await first, await other.prompt(ASKED));
  assert.equal(await last, await other.prompt('Tell me more.'));
  assert.equal(session.contextUsage, other.contextUsage);

  const stream = session.promptStreaming(ASKED, { signal: AbortSignal.timeout(1e6) });
  await stream.cancel();
  const running = new AbortController();
  const reader = session.promptStreaming(ASKED, { signal: running.signal }).getReader();
  await reader.read();
  running.abort(reason);
  await assert.rejects(
    async () => {
      while (!(await reader.read()).done);
    },
    (error) => error === reason,
  );
  assert.equal(session.contextUsage, other.contextUsage);
  assert.equal(await session.prompt('More.'), await other.prompt('More.'));
});

test('answers: clone() copies the conversation, and both continue independently', async () => {
  const session = await Local.create(asOptions({ samplingMode: 'most-predictable' }));
  await asNative(session).prompt(ASKED);
  const copy = await session.clone();
  assert.ok(copy instanceof Local && copy instanceof Session);
  assert.deepEqual([copy.contextUsage, copy.samplingMode], [session.contextUsage, 'most-predictable']);
  const usage = session.contextUsage;
  assert.equal(await copy.prompt('More.'), await (await session.clone()).prompt('More.'));
  assert.equal(session.contextUsage, usage);
  session.destroy();
  assert.equal(typeof (await copy.prompt('More.')), 'string');
  await assert.rejects(session.clone(), dom('InvalidStateError'));
});

test('answers: most-predictable is greedy, and most-creative varies', async () => {
  const calm = await Promise.all([greedy(), greedy()]);
  assert.equal(await calm[0].prompt(ASKED), await calm[1].prompt(ASKED));
  const wild = new Set();
  for (let i = 0; i < 4; i++) wild.add(await (await Local.create({ samplingMode: 'most-creative' })).prompt(ASKED));
  assert.ok(wild.size > 1);
  assert.equal((await Local.create()).samplingMode, 'balanced');
  // Web pages cannot use `topK` and `temperature`: the options are ignored, and sessions do not have these members.
  for (const samplingMode of ['slightly-predictable', 'slightly-creative']) {
    const options = /** @type {any} */ ({ samplingMode, topK: 3, temperature: 1 });
    assert.notEqual(await Local.availability(options), 'unavailable');
    const session = await Local.create(options);
    assert.deepEqual([session.samplingMode, Object(session).topK], [samplingMode, undefined]);
  }
});

test('the context window: leaves room for an answer; measureContextUsage() agrees with append()', async () => {
  const session = await greedy();
  assert.deepEqual([session.contextUsage, session.contextWindow], [0, 256 - MAX]);
  assert.deepEqual([session.inputUsage, session.inputQuota], [0, 256 - MAX]);
  const measured = await session.measureContextUsage(ASKED);
  assert.equal(measured, await model.countTokens([user(ASKED)]));
  assert.equal(await session.measureInputUsage(ASKED), measured);
  await session.append(ASKED);
  assert.equal(session.contextUsage, measured);
  const described = await session.measureContextUsage(ASKED, { responseConstraint: RATING });
  const omitted = await session.measureContextUsage(ASKED, {
    responseConstraint: RATING,
    omitResponseConstraintInput: true,
  });
  assert.ok(described > omitted && omitted === measured);
});

test('the context window: an empty list is an empty message of the user, for append() too', async () => {
  const session = await greedy();
  const measured = await session.measureContextUsage([]);
  assert.equal(measured, await model.countTokens([user('')]));
  await session.append([]);
  assert.equal(session.contextUsage, measured);
  await assert.rejects(session.append([system('Be kind.')]), TypeError);
});

test('the context window: the oldest exchanges are evicted with an event, the initial messages never', async () => {
  const session = await greedy({ initialPrompts: [system('Be kind.')] });
  /** @type {string[]} */ const events = [];
  session.addEventListener('contextoverflow', () => events.push('listener'));
  session.oncontextoverflow = () => events.push('handler');
  session.onquotaoverflow = () => events.push('older handler');
  const filler = 'word '.repeat(72);
  await session.append(`first ${filler}`);
  await session.append(`second ${filler}`);
  assert.deepEqual(events, []);
  await session.prompt(`third ${filler}`);
  assert.deepEqual(events, ['listener', 'handler', 'older handler']);
  session.oncontextoverflow = wrong(5);
  assert.equal(session.oncontextoverflow, null);
  const expected = model.chat({ system: 'Be kind.', temperature: 0, maxTokens: MAX });
  await expected.send(`second ${filler}\nthird ${filler}`).text();
  assert.equal(session.contextUsage, await model.countTokens(expected.messages));
});

test('the context window: a prompt that cannot fit fails with QuotaExceededError, and evicts nothing', async () => {
  const session = await greedy();
  await session.append(ASKED);
  const usage = session.contextUsage;
  const long = 'word '.repeat(400);
  const requested = await session.measureContextUsage(long);
  for (const call of [() => session.prompt(long), () => session.append(long)]) {
    await assert.rejects(call, (/** @type {any} */ error) => {
      assert.ok(dom('QuotaExceededError')(error));
      assert.deepEqual([error.requested, error.quota, error.code], [requested, session.contextWindow, 22]);
      return true;
    });
  }
  assert.equal(session.contextUsage, usage);
  await assert.rejects(Local.create({ initialPrompts: [user(long)] }), dom('QuotaExceededError'));
});

test('constraints: answers follow a schema or an expression, even after a prefix', async () => {
  const session = await Local.create();
  const { rating } = JSON.parse(await session.prompt('How was it?', { responseConstraint: RATING }));
  assert.ok(Number.isInteger(rating) && rating >= 0 && rating <= 5);
  const constraint = structuredClone(RATING);
  const answer = session.prompt('How was it?', { responseConstraint: constraint });
  Object.assign(constraint.properties.rating, { minimum: 9, maximum: 9 });
  assert.ok(JSON.parse(await answer).rating <= 5, 'the constraint is that of the call');
  assert.match(await session.prompt('Is it?', { responseConstraint: /^(yes|no)$/ }), /^(yes|no)$/);
  const begun = '{ "rating" : ';
  const rest = await session.prompt([user('How was it?'), assistant(begun, true)], { responseConstraint: RATING });
  assert.ok(RATING.properties.rating.maximum >= JSON.parse(begun + rest).rating);
  const word = await session.prompt([user('Go.'), assistant('Greet', true)], { responseConstraint: /^Greetings!$/ });
  assert.equal(word, 'ings!');
  // An answer to an open-ended regular expression may be cut off.
  assert.match(await session.prompt('Go.', { responseConstraint: /^a.*/ }), /^a/);
});

test('constraints: an unenforceable one rejects with NotSupportedError, an incomplete answer with SyntaxError', async () => {
  const session = await Local.create();
  const circular = /** @type {any} */ ({});
  circular.self = circular;
  for (const responseConstraint of [circular, { type: 'soup' }, /a/i, /(a)\1/, []]) {
    await assert.rejects(session.prompt(ASKED, { responseConstraint }), dom('NotSupportedError'));
  }
  const deviates = session.prompt([user('Go.'), assistant('no', true)], { responseConstraint: RATING });
  await assert.rejects(deviates, dom('NotSupportedError'));
  await assert.rejects(session.prompt(ASKED, { responseConstraint: /^x{500}$/ }), dom('SyntaxError'));
  assert.equal(session.contextUsage, 0);
});

test('constraints: schemaBounds limits schemas without bounds', async () => {
  const Bounded = createLanguageModel(model, { maxTokens: MAX, schemaBounds: { maxLength: 4 } });
  const session = await Bounded.create();
  assert.ok(JSON.parse(await session.prompt('A name?', { responseConstraint: { type: 'string' } })).length <= 4);
  await refuses(() => createLanguageModel(model, { schemaBounds: wrong({ maxDepth: 1 }) }), 'bad-option');
});

test('tools run in a closed loop, count as context, and stay in the conversation', async (t) => {
  const own = await open(t, 'generic-tools', { contextLength: 1024 });
  // A model with random weights calls a tool only if it must.
  const calling = () =>
    Promise.resolve(
      wrong({
        info: own.info,
        countTokens: own.countTokens.bind(own),
        chat: (/** @type {object} */ options) => own.chat({ ...options, toolChoice: 'required', seed: 1 }),
      }),
    );
  /** @type {any[]} */ const calls = [];
  const city = { enum: ['Rome', 'Oslo'] };
  const parameters = { type: 'object', properties: { city }, required: ['city'], additionalProperties: false };
  const weather = { name: 'weather', description: 'Returns the weather.' };
  const execute = async (/** @type {any} */ args) => {
    calls.push(args);
    if (calls.length === 1) throw new Error('offline');
    return 'sunny';
  };
  const tools = [{ ...weather, inputSchema: parameters, execute }];
  const Tooled = createLanguageModel(calling, { maxTokens: 64 });
  const session = await Tooled.create({ tools, expectedOutputs: [{ type: 'tool-call' }] });
  const large = Tooled.create({ tools, initialPrompts: [user('word '.repeat(2000))] });
  await assert.rejects(large, dom('QuotaExceededError'));
  const exact = own.chat({ messages: [user('')], tools: [{ ...weather, parameters }] }).retry({ maxTokens: 0 });
  assert.equal(session.contextUsage, (await exact.result()).usage.promptTokens - (await own.countTokens([user('')])));
  assert.equal(await session.measureContextUsage(ASKED), await own.countTokens([user(ASKED)]));
  const before = session.contextUsage;
  for (const n of [1, 2]) {
    assert.equal(typeof (await session.prompt(ASKED)), 'string');
    assert.ok(calls.length >= n && calls.every((args) => city.enum.includes(args.city)));
  }
  assert.ok(session.contextUsage > before + 2 * (await own.countTokens([user(ASKED)])));
});

test('conversions of Web IDL: values become strings, dictionaries and sequences, or throw TypeError', async () => {
  const session = await Local.create();
  assert.equal(await session.measureContextUsage(wrong(null)), await session.measureContextUsage('null'));
  assert.equal(await session.measureContextUsage(wrong(undefined)), await session.measureContextUsage('undefined'));
  assert.equal(await session.measureContextUsage(wrong({})), await session.measureContextUsage('[object Object]'));
  assert.equal(await session.measureContextUsage(wrong(new Set([user('a')]))), await session.measureContextUsage('a'));
  const bad = /** @type {any[]} */ ([
    [],
    [Symbol('s')],
    [[user('a'), 5]],
    [[{ role: 'user' }]],
    [[{ role: 'robot', content: 'a' }]],
    [[{ role: 'user', content: [{ type: 'text' }] }]],
    [[{ role: 'user', content: [{ type: 'soup', value: 'a' }] }]],
    [[{ role: 'user', content: [{ type: 'text', value: new ArrayBuffer(1) }] }]],
    [new String('ab')],
    ['a', 5],
    ['a', { signal: {} }],
    ['a', { signal: null }],
    ['a', { responseConstraint: 'x' }],
    ['a', { omitResponseConstraintInput: true }],
    [[user('a'), system('b')]],
    [[system('a'), system('b')]],
  ]);
  for (const given of bad) {
    await assert.rejects(session.prompt(.../** @type {[any]} */ (given)), TypeError, JSON.stringify(given.map(String)));
  }
  assert.throws(() => session.promptStreaming(.../** @type {[any]} */ (/** @type {unknown} */ ([]))), TypeError);
  await assert.rejects(session.prompt([assistant('a', true), user('b')]), dom('SyntaxError'));
  await assert.rejects(session.prompt(wrong([{ ...user('a'), prefix: true }])), dom('SyntaxError'));
  for (const type of ['image', 'audio', 'tool-response']) {
    await assert.rejects(
      session.prompt(wrong([{ role: 'user', content: [{ type, value: new ArrayBuffer(1) }] }])),
      dom('NotSupportedError'),
    );
  }
  assert.equal(session.contextUsage, 0);
  await session.prompt('a');
  await assert.rejects(session.prompt([system('b')]), TypeError);
});

test('conversions of Web IDL: options of create() and availability()', async () => {
  for (const options of /** @type {any[]} */ ([
    5,
    { samplingMode: 'soup' },
    { expectedInputs: [{}] },
    { expectedInputs: [{ type: 'soup' }] },
    { tools: [{ name: 'a', description: 'b', inputSchema: {} }] },
  ])) {
    await assert.rejects(Local.availability(options), TypeError);
    await assert.rejects(Local.create(options), TypeError);
  }
  for (const options of /** @type {any[]} */ ([
    { monitor: 5 },
    { initialPrompts: 'a' },
    { initialPrompts: [user('a'), system('b')] },
  ])) {
    await assert.rejects(Local.create(options), TypeError);
  }
  await assert.rejects(
    Local.availability({ expectedInputs: [{ type: 'text', languages: ['en-abc-invalid'] }] }),
    RangeError,
  );
  for (const options of /** @type {any[]} */ ([
    { expectedInputs: [{ type: 'image' }] },
    { expectedOutputs: [{ type: 'audio' }] },
    { expectedOutputs: [{ type: 'text', languages: ['unk'] }] },
  ])) {
    assert.equal(await Local.availability(options), 'unavailable');
    await assert.rejects(Local.create(options), dom('NotSupportedError'));
  }
  const English = createLanguageModel(model, { languages: ['EN'] });
  const languages = (/** @type {string} */ tag) => ({
    expectedInputs: [{ type: /** @type {const} */ ('text'), languages: [tag] }],
  });
  assert.equal(await English.availability(languages('EN-us')), 'available');
  assert.equal(await English.availability(languages('de')), 'unavailable');
  for (const tag of ['de', 'de-u-co-phonebk']) assert.equal(await Local.availability(languages(tag)), 'available');
  assert.throws(() => new Session(wrong(undefined)), TypeError);
  await refuses(() => createLanguageModel('x', wrong({ thread: 1 })), 'bad-option');
  await refuses(() => createLanguageModel('x', { languages: wrong('en') }), 'bad-option');
});

test('destruction and aborts: destroy() ends pending and later calls; properties stay', async () => {
  const session = await Local.create();
  const calls = [session.prompt(ASKED), session.append(ASKED), session.measureContextUsage(ASKED)];
  const reader = session.promptStreaming(ASKED).getReader();
  assert.equal(session.destroy(), undefined);
  for (const call of [...calls, reader.read(), session.prompt(ASKED), session.append('a')]) {
    await assert.rejects(call, dom('InvalidStateError'));
  }
  assert.throws(() => session.promptStreaming(ASKED), dom('InvalidStateError'));
  assert.deepEqual([session.contextUsage, session.contextWindow], [0, 256 - MAX]);
  assert.equal(typeof (await (await Local.create()).prompt(ASKED)), 'string');
});

test('destruction and aborts: the signal of create() rejects it, and later destroys the session with its reason', async () => {
  const reason = new Error('enough');
  await assert.rejects(Local.create({ signal: AbortSignal.abort(reason) }), (error) => error === reason);
  const during = new AbortController();
  const creating = Local.create({ signal: during.signal });
  during.abort(reason);
  await assert.rejects(creating, (error) => error === reason);
  const early = new AbortController();
  const watched = Local.create({ signal: early.signal, monitor: () => early.abort(reason) });
  await assert.rejects(watched, (error) => error === reason);
  const later = new AbortController();
  const session = await Local.create({ signal: later.signal });
  const pending = session.prompt(ASKED);
  later.abort(reason);
  for (const call of [pending, session.prompt(ASKED)]) await assert.rejects(call, (error) => error === reason);
  // The signal has no listener of a destroyed session, so it does not keep the session in memory.
  const { signal } = new AbortController();
  const destroyed = await Local.create({ signal });
  const before = getEventListeners(signal, 'abort').length;
  destroyed.destroy();
  assert.equal(getEventListeners(signal, 'abort').length, before - 1);
});

test('destruction and aborts: prompt() rejects if the model is disposed of', async () => {
  const own = await loadModel(await testModel('tiny'), { threads: 1 });
  const session = await createLanguageModel(own).create();
  await own.dispose();
  await assert.rejects(session.prompt(ASKED), dom('InvalidStateError'));
});

test('loading: a function that returns no model rejects create(), and the next create() calls it again', async () => {
  const results = [undefined, 5, model];
  const Late = createLanguageModel(wrong(async () => results.shift()));
  for (const got of ['undefined', '5']) {
    await assert.rejects(Late.create(), (/** @type {any} */ error) => {
      return dom('NotSupportedError')(error) && error.message.includes(`(got ${got})`);
    });
  }
  assert.equal(typeof (await (await Late.create()).prompt(ASKED)), 'string');
});

test('loading: the first create() downloads, with progress; others wait for it; a failed load is retried', async (t) => {
  const bytes = readFileSync(STORYTELLER);
  let requests = 0;
  let broken = true;
  const url = await serveWith(t, (_, response) => {
    requests++;
    if (broken) return void response.writeHead(404).end();
    response.writeHead(200, { 'Content-Length': bytes.length, ETag: '"1"', 'Accept-Ranges': 'bytes' }).end(bytes);
  });
  const cache = openCache(memoryStore());
  const options = { cache, threads: 1, contextLength: 128 };
  const Remote = createLanguageModel(`${url}/model.gguf`, options);
  assert.equal(await Remote.availability(), 'downloadable');
  await assert.rejects(Remote.create(), dom('NetworkError'));
  broken = false;
  requests = 0;

  /** @type {ProgressEvent[]} */ const events = [];
  let created = false;
  const first = Remote.create({
    monitor(monitor) {
      assert.ok(monitor instanceof CreateMonitor);
      monitor.ondownloadprogress = (event) => {
        assert.ok(!created);
        events.push(event);
      };
    },
  });
  const aborting = new AbortController();
  const second = Remote.create({ signal: aborting.signal });
  const third = Remote.create();
  while ((await Remote.availability()) === 'downloadable') await sleep(0);
  assert.notEqual(await Remote.availability(), 'unavailable');
  aborting.abort();
  await assert.rejects(second, dom('AbortError'));
  const session = await first;
  created = true;
  t.after(async () => session);
  assert.equal(typeof (await (await third).prompt(ASKED)), 'string');
  assert.equal(requests, 1);
  const fractions = events.map(({ loaded }) => loaded);
  assert.deepEqual([fractions[0], fractions.at(-1)], [0, 1]);
  for (const [i, { total, lengthComputable, loaded }] of events.entries()) {
    assert.deepEqual([total, lengthComputable, Number.isInteger(loaded * 0x10000)], [1, true, true]);
    assert.ok(!i || loaded > fractions[i - 1]);
  }
  assert.equal(await Remote.availability(), 'available');
  assert.equal(await createLanguageModel(`${url}/model.gguf`, options).availability(), 'available');
});

test('loading: create() rejects if its monitor throws, the file cannot chat, or is damaged', async () => {
  const error = new Error('monitor');
  const thrown = Local.create({
    monitor() {
      throw error;
    },
  });
  await assert.rejects(thrown, (given) => given === error);
  const NoChat = createLanguageModel(await testModel('gpt2-q8_0'), { threads: 1 });
  await assert.rejects(NoChat.create(), dom('NotSupportedError'));
  const Damaged = createLanguageModel(new Uint8Array(100), { threads: 1 });
  assert.equal(await Damaged.availability(), 'available');
  await assert.rejects(Damaged.create(), dom('OperationError'));
});

test('loading: install() keeps the LanguageModel of the platform unless asked', async (t) => {
  const scope = /** @type {any} */ (globalThis);
  t.after(() => delete scope.LanguageModel);
  const installed = install(() => Promise.resolve(model));
  assert.equal(scope.LanguageModel, asNativeClass(installed));
  assert.equal(installed.name, 'LanguageModel');
  assert.equal(install(model), installed);
  const replaced = install(model, { replace: true });
  assert.ok(replaced !== installed && scope.LanguageModel === replaced);
  const { create } = installed;
  assert.equal(Object.prototype.toString.call(await create()), '[object LanguageModel]');
  await refuses(() => install(model, { replace: wrong('yes') }), 'bad-option');
});
