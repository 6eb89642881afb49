/* Tests conversations: content parts, every role, append(), answers with a prefix, and several answers to one
 * prompt. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChatTemplate } from '../../js/engine/template.js';
import { open, refuses, wrong } from './helpers.js';

const SHORT = { maxTokens: 12, seed: 4, temperature: 0, logitBias: { 1: -Infinity, 8: -Infinity } };
const parts = (/** @type {string[]} */ ...texts) =>
  texts.map((text) => ({ type: /** @type {const} */ ('text'), text }));

test('content may be text parts wherever messages are accepted', async (t) => {
  const model = await open(t);
  /** @type {ChatMessage[]} */
  const whole = [
    { role: 'developer', content: 'Be\nbrief.' },
    { role: 'user', content: 'a\nb' },
    { role: 'assistant', content: 'c' },
    { role: 'user', content: '' },
  ];
  const split = whole.map((message) => ({ ...message, content: parts(...message.content.split('\n')) }));
  split[3].content = [];
  assert.equal(await model.countTokens(split), await model.countTokens(whole));
  const [one, other] = await Promise.all([whole, split].map((said) => model.generate(said, SHORT).result()));
  assert.deepEqual(other.tokens, one.tokens);
  const chat = model.chat({ messages: split, ...SHORT });
  assert.deepEqual(chat.messages, whole);
  await chat.send(parts('x', 'y')).result();
  assert.deepEqual(chat.messages[4], { role: 'user', content: 'x\ny' });
});

test('parts other than text are rejected with their type, and the chat stays usable', async (t) => {
  const model = await open(t);
  const image = { type: 'image_url', image_url: { url: 'data:,' } };
  const chat = model.chat(SHORT);
  const given = wrong([...parts('a'), image]);
  for (const f of [
    () => model.generate([{ role: 'user', content: given }]),
    () => model.countTokens([{ role: 'user', content: given }]),
    () => model.chat({ messages: [{ role: 'user', content: given }] }),
    () => chat.append([{ role: 'user', content: given }]),
  ]) {
    await refuses(f, 'bad-option', /Part 1 of the content of message 0 .*only text.*"image_url"/);
  }
  const long = model.chat({ system: 'Be brief.', messages: [{ role: 'user', content: 'a' }] });
  const second = wrong([{ role: 'assistant', content: 'b' }, { role: 'user' }]);
  for (const f of [() => long.append(second), () => model.chat({ system: 'Be brief.', messages: second })]) {
    await refuses(f, 'bad-option', /^The content of message 1 must be a string/);
  }
  const call = { role: 'assistant', content: '', toolCalls: [{ name: 'get', arguments: {} }] };
  await long.append(wrong([call, { role: 'user', content: 'c' }]));
  await long.append(wrong([call]));
  assert.equal(new Set(long.messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id))).size, 2);
  await refuses(() => chat.send(given), 'bad-option', /Part 1 of text .*"image_url"/);
  for (const content of [[null], ['a'], [{ type: 'text' }], [{ text: 'a' }], {}, null, 5]) {
    await refuses(() => model.generate([{ role: 'user', content: wrong(content) }]), 'bad-option');
  }
  await refuses(() => model.generate([{ role: 'assistant', content: wrong(5), toolCalls: [] }]), 'bad-option');
  assert.ok((await chat.send('a').result()).tokens.length);
});

test('append() evaluates messages ahead of time, so that the next answer evaluates only its own question', async (t) => {
  const model = await open(t);
  /** @type {ChatMessage[]} */
  const said = [
    { role: 'user', content: 'word '.repeat(60) },
    { role: 'assistant', content: 'Yes.' },
  ];
  const chat = model.chat({ system: 'Be brief.', ...SHORT });
  const { usage, timings, dropped } = await chat.append(said);
  assert.ok(usage.promptTokens > 60 && usage.completionTokens === 0 && timings.prefillMs > 0 && dropped === undefined);
  assert.deepEqual(chat.messages.slice(1), said);
  const fresh = await chat.append([{ role: 'user', content: 'More' }]);
  assert.ok(fresh.usage.promptTokens - fresh.usage.reusedTokens < 20, JSON.stringify(fresh.usage));
  const answer = await chat.send('now').result();
  assert.ok(answer.usage.promptTokens - answer.usage.reusedTokens < 20, JSON.stringify(answer.usage));
  const asked = [...chat.messages.slice(0, -1)];
  assert.deepEqual((await model.generate(asked, SHORT).result()).tokens, answer.tokens);
  assert.equal(chat.messages.length, 6);
  assert.equal((await chat.retry().result()).text, answer.text);
});

test('append() leaves the chat unchanged if it is aborted, rejected, or called during another append()', async (t) => {
  const model = await open(t);
  const chat = model.chat(SHORT);
  const message = /** @type {ChatMessage} */ ({ role: 'user', content: 'word '.repeat(80) });
  await refuses(chat.append([message], { signal: AbortSignal.abort() }), 'aborted');
  const stop = new AbortController();
  const begun = chat.append([message], { signal: stop.signal });
  await refuses(chat.append([message]), 'bad-state');
  stop.abort();
  await refuses(begun, 'aborted');
  await refuses(chat.append([{ role: 'user', content: 'long '.repeat(900) }]), 'context-exceeded');
  for (const list of [[], 'x', [{}]]) await refuses(chat.append(wrong(list)), 'bad-option');
  await refuses(chat.append([message], wrong({ maxTokens: 1 })), 'bad-option');
  assert.deepEqual(chat.messages, []);
  assert.ok((await chat.send('a').result()).tokens.length);
});

test("append() ignores the chat's format, and evaluates its tools", async (t) => {
  const model = await open(t, 'qwen3-tools');
  const tools = [{ name: 'get', description: 'Returns it' }];
  const messages = [/** @type {const} */ ({ role: 'user', content: 'word '.repeat(40) })];
  for (const more of [{ tools }, { format: /** @type {const} */ ('json') }]) {
    const chat = model.chat({ ...SHORT, ...more });
    const { usage } = await chat.append(messages);
    const after = (await chat.send('a').result()).usage;
    assert.ok(after.reusedTokens >= usage.promptTokens - 10, JSON.stringify({ usage, after }));
  }
});

test('`prefix` of the last message begins the answer, as continue({ prefix }) does', async (t) => {
  const model = await open(t);
  const question = /** @type {const} */ ({ role: 'user', content: 'Hello' });
  const begun = /** @type {const} */ ({ role: 'assistant', content: 'Once <end_of_turn> upon', prefix: true });
  const chat = model.chat({ messages: [question], ...SHORT });
  const expected = await chat.continue({ prefix: begun.content }).result();
  const answer = await model.generate([question, begun], SHORT).result();
  assert.deepEqual(answer.tokens, expected.tokens);
  assert.equal(answer.usage.promptTokens, await model.countTokens([question, begun]));
  const { prefix, ...whole } = begun;
  assert.notEqual(await model.countTokens([question, whole]), answer.usage.promptTokens);
  for (const messages of [
    [begun, question],
    [{ ...question, prefix: true }],
    [question, { ...begun, toolCalls: [{ name: 'a', arguments: {} }] }],
  ]) {
    await refuses(() => model.generate(wrong(messages)), 'bad-option', /`prefix`/);
  }
  await refuses(() => model.chat({ messages: [question, begun] }), 'bad-option');
  await refuses(() => model.generate([question, begun], { tools: [{ name: 'a' }] }), 'bad-option');
  assert.ok(await model.generate([question, begun], { ...SHORT, format: undefined, tools: [] }).text());
});

test('a format applies to the whole answer, including its prefix', async (t) => {
  const model = await open(t);
  const question = /** @type {const} */ ({ role: 'user', content: 'Hello' });
  const begun = (/** @type {string} */ content) => ({
    role: /** @type {const} */ ('assistant'),
    content,
    prefix: true,
  });
  const schema = {
    type: 'object',
    properties: { a: { enum: [1, 'é', true] } },
    required: ['a'],
    additionalProperties: false,
  };
  const generation = model.generate([question, begun('{"a"')], { format: { schema } });
  const { text, value } = await generation.result();
  assert.deepEqual(JSON.parse(`{"a"${text}`), value);
  assert.ok(schema.properties.a.enum.includes(value.a));
  assert.deepEqual(generation.partial(), value);
  const answer = await model
    .chat({ messages: [question] })
    .continue({ prefix: 'ab', format: { regex: 'a(bc|d)' } })
    .result();
  assert.deepEqual([answer.text, answer.value], ['c', 'abc']);
  await refuses(() => model.generate([question, begun('Once')], { format: 'json' }).text(), 'bad-format');
  // The format of a chat also constrains the rest of an answer that ended inside a character.
  const chat = model.chat({ messages: [question], format: { regex: '\u{10ffff}{2}' }, jumpForward: false });
  assert.equal((await chat.retry({ maxTokens: 2 }).result()).text, '');
  assert.equal((await chat.continue().result()).value, '\u{10ffff}'.repeat(2));
  assert.ok(await model.generate([question], SHORT).text());
});

/** Returns the prompt that a template renders, without the sentinels that mark the texts of messages.
 * @param {string} source @param {Message[]} messages */
function rendered(source, messages) {
  const template = new ChatTemplate(source, {
    control: new Map([['<s>', 1]]),
    encode: (text) => [...text].map((c) => c.codePointAt(0) ?? 0),
    bos: null,
    variables: {},
  });
  return String.fromCodePoint(...template.apply(messages).ids);
}

const STRICT = `{%- for m in messages -%}{%- if m.role == 'system' -%}{{ raise_exception('no system') }}{%- endif -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
[{{ m.role }}:{{ m.content }}]{%- endfor -%}`;
const LOOSE = '{%- for m in messages -%}[{{ m.role }}:{{ m.content }}]{%- endfor -%}';
const SYSTEM_FIRST = STRICT.replace(
  'messages -%}',
  "messages[(1 if messages[0].role == 'system' else 0):] -%}",
).replace(/^/, "{%- if messages[0].role == 'system' -%}[first:{{ messages[0].content }}]{%- endif -%}");

test('messages that a template rejects are merged or become user messages; others stay unchanged', () => {
  const list = (/** @type {string} */ roles) => [...roles].map((role, i) => ({ role: ROLE[role], content: String(i) }));
  /** @type {Record<string, string>} */
  const ROLE = { s: 'system', u: 'user', a: 'assistant' };
  assert.equal(rendered(LOOSE, list('suuas')), '[system:0][user:1][user:2][assistant:3][system:4]');
  assert.equal(rendered(STRICT, list('suua')), '[user:0\n\n1\n\n2][assistant:3]');
  assert.equal(rendered(STRICT, list('uasu')), '[user:0][assistant:1][user:2\n\n3]');
  assert.equal(rendered(STRICT, list('sau')), '[user:0][assistant:1][user:2]');
  assert.equal(rendered(SYSTEM_FIRST, list('suua')), '[first:0][user:1\n\n2][assistant:3]');
  assert.equal(rendered(SYSTEM_FIRST, list('suasu')), '[user:0\n\n1][assistant:2][user:3\n\n4]');
  for (const roles of ['aua', 'uaa', 'suaa']) {
    assert.throws(() => rendered(STRICT, list(roles)), { code: 'template-error', message: /alternate|no system/ });
  }
});

test('several answers to one prompt need one prefill, and each uses its own seed', async (t) => {
  const model = await open(t);
  /** @type {ChatMessage[]} */
  const messages = [{ role: 'user', content: 'word '.repeat(40) }];
  const options = { maxTokens: 60, temperature: 1.5, logitBias: { 1: -Infinity, 8: -Infinity } };
  const seeds = [1, 2, 3, 4];
  const answers = await Promise.all(seeds.map((seed) => model.generate(messages, { ...options, seed }).result()));
  const fresh = answers.map(({ usage }) => usage.promptTokens - usage.reusedTokens);
  // The answers are longer than the window, so before each next answer the KV cache of the local layers must be
  // rewound.
  assert.deepEqual(fresh, [answers[0].usage.promptTokens, 1, 1, 1]);
  assert.deepEqual(
    answers.map(({ seed }) => seed),
    seeds,
  );
  assert.equal(new Set(answers.map(({ text }) => text)).size, 4);
  const alone = await open(t);
  assert.deepEqual((await alone.generate(messages, { ...options, seed: 3 }).result()).tokens, answers[2].tokens);
});

const CALL = [{ id: 'call_0', name: 'get', arguments: { what: 'time' } }];
// Only FunctionGemma's template knows the role `developer`. The templates of `generic-tools` and `tiny` ignore tools.
for (const name of ['functiongemma', 'qwen3-tools', 'llama3-tools', 'generic-tools', 'tiny']) {
  test(`${name}: every role works, and tool results reach the prompt with and without tools`, async (t) => {
    const model = await open(t, name);
    const opening = (/** @type {'developer' | 'system'} */ role) =>
      /** @type {ChatMessage[]} */ ([
        { role, content: 'Be brief.' },
        { role: 'user', content: 'What time is it?' },
      ]);
    /** @type {ChatMessage[]} */
    const rest = [
      { role: 'model', content: '', toolCalls: CALL },
      { role: 'tool', id: 'call_0', content: [{ type: 'text', text: 'noon' }] },
    ];
    const [developer, system] = [opening('developer'), opening('system')];
    const asked = await model.countTokens(developer);
    assert.equal(await model.countTokens(system), asked);
    const answered = await model.countTokens([...developer, ...rest]);
    const result = (await model.tokenize('noon')).length;
    assert.ok(answered > asked + result, `the prompt has ${answered} tokens with the tool's result, ${asked} without`);
    assert.notEqual(
      answered,
      await model.countTokens([...developer, rest[0], { ...rest[1], content: 'midnight and more' }]),
    );
    const tools = [{ name: 'get', description: 'Returns it' }];
    for (const more of [{}, { tools }, { tools, toolChoice: /** @type {const} */ ('none') }]) {
      const chat = model.chat({ ...SHORT, maxTokens: 2, ...more });
      await chat.append([...developer, ...rest]);
      assert.ok((await chat.send('And now?').result()).usage.reusedTokens > answered / 2);
      assert.deepEqual(
        chat.messages.map(({ role }) => role),
        ['developer', 'user', 'model', 'tool', 'user', 'assistant'],
      );
    }
  });
}
