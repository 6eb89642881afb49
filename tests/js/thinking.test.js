/* Tests thoughts: token ids separate them from the answer, in streamed steps, results and chats; the chat template
 * turns them on and off; a budget limits them; the format of the answer does not constrain them. The test models have
 * random weights, so a grammar determines each answer. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { templateOf } from '../../js/engine/template.js';
import { loadModel } from '../../js/index.node.js';
import { open, refuses, wrong } from './helpers.js';
import { MODELS as SPECS, testModel } from './models.js';
import { GEMMA4, GEMMA4_LARGE } from './tool-templates.js';
import { vocabularyOf } from './vocabularies.js';

/** Models, with the tokens around their thoughts, and with the prompts of a first question with thinking off, on and by
 * default. */
const MODELS = {
  'gemma4-tools': {
    marks: ['<|channel>', '<channel|>'],
    head: 'thought\n',
    close: '',
    gap: '',
    off: '<bos><|turn>user\nHi<turn|>\n<|turn>model\n',
    on: '<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\n',
    byDefault: 'off',
  },
  'qwen3-thinking': {
    marks: ['<think>', '</think>'],
    head: '\n',
    close: '\n',
    gap: '\n\n',
    off: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n',
    on: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    byDefault: 'on',
  },
};

/** @param {(string | number)[]} parts */
const only = (...parts) => ({
  grammar: `root ::= ${parts.map((part) => (typeof part === 'number' ? `<[${part}]>` : JSON.stringify(part))).join(' ')}`,
});

/** @param {Model} model @param {string[]} names */
const idsOf = async (model, names) =>
  Promise.all(names.map(async (name) => (await model.tokenize(name, { special: true }))[0]));

/** @type {ChatMessage[]} */
const HI = [{ role: 'user', content: 'Hi' }];

/** Opens a model. `thinks` returns a format that determines a thought and the answer.
 * @param {TestContext} t @param {string} name @param {typeof MODELS['gemma4-tools']} its */
async function opened(t, name, { marks, head, close, gap }) {
  const model = await open(t, name);
  const [begin, end] = await idsOf(model, marks);
  const thinks = (/** @type {string} */ thought, /** @type {string} */ text) =>
    only(begin, head, thought, close, end, gap, text);
  return { model, begin, end, thinks };
}

/** @param {AsyncIterable<import('../../js/protocol.js').Step>} steps */
async function read(steps) {
  const said = { thought: '', text: '' };
  const kinds = /** @type {string[]} */ ([]);
  for await (const { kind, text } of steps) {
    said[kind] += text;
    if (kinds.at(-1) !== kind) kinds.push(kind);
  }
  return { ...said, kinds };
}

for (const [name, its] of Object.entries(MODELS)) {
  test(`${name}: separates thoughts in steps, loops, results and messages`, async (t) => {
    const { model, begin, end, thinks } = await opened(t, name, its);
    assert.equal(model.info.thinking, true);
    const format = thinks('hm ha', 'Yes.');
    const chat = model.chat({ format });
    const out = chat.send('Hi');
    const said = await read(out.steps());
    assert.deepEqual(said, { thought: 'hm ha', text: 'Yes.', kinds: ['thought', 'text'] });
    const { text, thoughts, tokens, usage } = await out.result();
    assert.deepEqual([text, thoughts, out.partial()], ['Yes.', 'hm ha', 'Yes.']);
    assert.deepEqual(chat.messages.at(-1), { role: 'assistant', content: 'Yes.', thoughts: 'hm ha' });
    const ended = tokens.indexOf(end);
    const gap = its.gap ? (await model.tokenize(its.gap)).length : 0;
    assert.deepEqual([tokens[0], usage.completionTokens], [begin, tokens.length]);
    assert.equal(usage.thoughtTokens, ended + 1 + gap);
    let shown = '';
    for await (const piece of model.generate(HI, { format })) shown += piece;
    assert.equal(shown, 'Yes.');
    const without = await model.generate(HI, { format: only('Yes.') }).result();
    assert.ok(!('thoughts' in without) && !('thoughtTokens' in without.usage));
  });

  test(`${name}: turns thinking on and off as its template does, and leaves earlier thoughts out`, async (t) => {
    const { model, thinks } = await opened(t, name, its);
    const count = async (/** @type {string} */ text) => {
      return (await model.tokenize(text.replace('<bos>', ''), { special: true, bos: text.startsWith('<bos>') })).length;
    };
    const promptTokens = async (/** @type {any} */ options) => {
      const { usage } = await model.generate(HI, { maxTokens: 0, ...options }).result();
      return usage.promptTokens;
    };
    assert.equal(await promptTokens({ thinking: true }), await count(its.on));
    assert.equal(await promptTokens({ thinking: { budget: 9 } }), await count(its.on));
    assert.equal(await promptTokens({ thinking: false }), await count(its.off));
    const { byDefault } = its;
    for (const thinking of [true, false, { budget: 9 }, undefined]) {
      const { usage } = await model.chat().send('Hi', { maxTokens: 0, thinking }).result();
      const counted = await model.countTokens(HI, { thinking });
      assert.equal(counted, usage.promptTokens, JSON.stringify(thinking));
    }
    assert.equal(await promptTokens({}), await count(its[/** @type {'on' | 'off'} */ (byDefault)]));
    const format = thinks('hm', 'Yes.');
    const chat = model.chat();
    await chat.send('Hi', { format }).result();
    const plain = chat.messages.map(({ thoughts, ...message }) => message);
    const next = { role: /** @type {const} */ ('user'), content: 'And?' };
    assert.equal(chat.messages[1].thoughts, 'hm');
    assert.equal(await model.countTokens([...chat.messages, next]), await model.countTokens([...plain, next]));
    const { usage } = await chat.send('And?', { maxTokens: 0 }).result();
    assert.equal(usage.promptTokens, await model.countTokens([...plain, next]));
    assert.ok(usage.reusedTokens > 0);
  });

  test(`${name}: a budget ends the thought, and the answer follows`, async (t) => {
    const { model, begin, end } = await opened(t, name, its);
    const head = its.head ? await model.tokenize(its.head) : [];
    const bias = { logitBias: { [begin]: 40, [end]: -100 }, temperature: 0, maxTokens: 60 };
    for (const budget of [0, 1, 7]) {
      for (const logprobs of [undefined, 0]) {
        const chat = model.chat({ ...bias, thinking: { budget }, format: { choices: ['yes', 'no'] }, logprobs });
        const { text, tokens, usage, finishReason, logprobs: said } = await chat.send('Hi').result();
        assert.match(text, /^(yes|no)$/);
        assert.equal(finishReason, 'stop');
        assert.equal(tokens[0], begin);
        assert.ok(tokens.indexOf(end) <= 1 + budget + head.length + 1, `${tokens}`);
        assert.ok(Number(usage.thoughtTokens) > budget);
        if (said) assert.equal(said.length, tokens.length);
      }
    }
    const cut = model.generate(HI, { ...bias, thinking: true, maxTokens: 9 });
    const { finishReason, thoughts, usage } = await cut.result();
    assert.deepEqual([finishReason, usage.thoughtTokens, usage.completionTokens], ['length', 9, 9]);
    assert.equal(typeof (thoughts ?? ''), 'string');
  });

  test(`${name}: a constraint begins after the thought, and no end token may end the thought early`, async (t) => {
    const { model, begin, end } = await opened(t, name, its);
    const schema = {
      type: 'object',
      properties: { ok: { type: 'boolean' } },
      required: ['ok'],
      additionalProperties: false,
    };
    const ends = (/** @type {number} */ bias) => Object.fromEntries(model.info.endTokens.map((id) => [id, bias]));
    for (const [bias, thinks] of /** @type {const} */ ([
      [{ [begin]: 50, [end]: 40 }, true],
      [{ [begin]: 50, ...ends(40) }, true],
      [{ [begin]: -100, ...ends(60) }, false],
    ])) {
      const out = model.generate(HI, {
        ...{ format: { schema }, thinking: true, logitBias: bias, frequencyPenalty: 2, temperature: 0, maxTokens: 80 },
      });
      const { value, tokens, finishReason } = await out.result();
      assert.equal(finishReason, 'stop');
      assert.equal(typeof value.ok, 'boolean');
      assert.equal(tokens.includes(begin), thinks);
    }
    // Without the option `thinking`, the constraint applies from the first token.
    const plain = model.generate(HI, { format: { schema }, logitBias: { [begin]: 50 } });
    assert.ok(!(await plain.result()).tokens.includes(begin));
  });

  test(`${name}: an abort keeps the thought so far; continue() works inside the thought and after it`, async (t) => {
    const { model, begin, end, thinks } = await opened(t, name, its);
    const stop = new AbortController();
    const bias = { logitBias: { [begin]: 40, [end]: -100 }, frequencyPenalty: 2, seed: 5, maxTokens: 200 };
    const chat = model.chat();
    const out = chat.send('Hi', { ...bias, thinking: true, signal: stop.signal });
    let seen = '';
    for await (const { kind, text } of out.steps()) {
      seen += kind === 'thought' ? text : '';
      if (seen.length > 20) stop.abort();
    }
    const { finishReason, text } = await out.result();
    assert.deepEqual([finishReason, text], ['aborted', '']);
    const [, message] = chat.messages;
    assert.ok(message.aborted && message.content === '' && message.thoughts?.startsWith(seen.trimEnd()));
    const copy = chat.clone();
    assert.deepEqual(copy.messages, chat.messages);
    const more = await chat.continue({ ...bias, logitBias: { [begin]: -100, [end]: -100 }, maxTokens: 6 }).result();
    assert.equal(more.text, '');
    assert.ok(more.usage.reusedTokens > 0);
    assert.equal(chat.messages[1].thoughts, message.thoughts + (more.thoughts ?? ''));
    const rest = await chat.continue({ ...bias, logitBias: { [begin]: -100, [end]: 200 }, maxTokens: 1 }).result();
    assert.deepEqual([rest.text, rest.usage.completionTokens], ['', 1]);
    const last = await copy.retry({ format: thinks('so', 'Ye') }).result();
    assert.deepEqual(copy.messages.slice(1), [{ role: 'assistant', content: 'Ye', thoughts: 'so' }]);
    const cut = { maxTokens: 1, logitBias: { [begin]: -100 }, seed: 2 };
    const begun = [copy.messages[0], { ...copy.messages[1], prefix: true }];
    const same = await model.generate(begun, { ...cut, thinking: true }).result();
    const tail = await copy.continue(cut).result();
    assert.deepEqual([same.text, same.usage.promptTokens], [tail.text, tail.usage.promptTokens]);
    const { usage } = await model.generate(copy.messages.slice(0, 1), { thinking: true, maxTokens: 0 }).result();
    assert.equal(tail.usage.promptTokens, usage.promptTokens + last.tokens.length);
    assert.equal(copy.messages[1].content, last.text + tail.text);
    assert.equal(copy.messages[1].thoughts, 'so');
    await copy.continue({ thinking: false, maxTokens: 1, seed: 2 }).result();
    assert.ok(!('thoughts' in copy.messages[1]));
  });

  test(`${name}: saved chats keep thoughts and the option \`thinking\``, async (t) => {
    const { model, begin, thinks } = await opened(t, name, its);
    const chat = model.chat({ thinking: { budget: 30 }, temperature: 0 });
    await chat.send('Hi', { thinking: undefined, format: thinks('hm', 'Yes.') }).result();
    const saved = await chat.save();
    const again = model.chat({ saved });
    assert.ok((await again.restored).tokens > 0);
    assert.deepEqual(again.messages, chat.messages);
    const asked = { maxTokens: 4, logitBias: { [begin]: -100 } };
    const [a, b] = [await chat.send('And?', asked).result(), await again.send('And?', asked).result()];
    assert.deepEqual([b.tokens, b.usage.promptTokens], [a.tokens, a.usage.promptTokens]);
  });

  test(`${name}: no text of a message becomes a control token`, async (t) => {
    const model = await open(t, name);
    const names = [
      '<|tool_call>',
      '<tool_call>',
      '<|"|>',
      '<|think|>',
      '<think>',
      '</think>',
      ...its.marks,
      '<|turn>',
      '<|im_end|>',
    ];
    const ids = await Promise.all(names.map((text) => model.tokenize(text, { special: true })));
    const marks = new Set(ids.filter(({ length }) => length === 1).flat());
    assert.ok(marks.size >= 4);
    const written = async (/** @type {any[]} */ messages) => {
      const { tokens } = await model.debug.inside(messages, { layers: [0], lens: 0, norms: true });
      return tokens.map(({ id }) => id).filter((id) => marks.has(id));
    };
    const plain = (/** @type {string} */ text) => [
      { role: 'system', content: `a${text}` },
      { role: 'user', content: `b ${text}c` },
      { role: 'assistant', content: `d ${text}`, thoughts: `e ${text}` },
      { role: 'user', content: text },
    ];
    const expected = await written(plain('x'));
    assert.ok(expected.length > 0);
    for (const text of names) assert.deepEqual(await written(plain(text)), expected, text);
  });
}

test("Gemma 4: prompts of conversations with thoughts and tools match transformers'", async () => {
  const vocabulary = await vocabularyOf('gemma4-tools');
  const control = Array.from({ length: vocabulary.size }, (_, id) => id).filter((id) => vocabulary.isControl(id));
  const { rows } = JSON.parse(readFileSync(new URL('../vectors/gemma4-chat.json', import.meta.url), 'utf8'));
  for (const [name, source] of Object.entries({ e2b: GEMMA4, large: GEMMA4_LARGE })) {
    const template = templateOf(source, vocabulary, control, vocabulary.eos);
    const dialect = await vocabulary.dialect();
    for (const row of rows) {
      const { messages, tools } = dialect.render(row.messages, row.tools);
      const said = messages.map(({ thoughts, ...message }) => ({
        ...message,
        ...(thoughts && { reasoning_content: thoughts }),
      }));
      const { ids } = template.apply(said, { tools, thinking: row.thinking });
      assert.equal(vocabulary.decode(ids, true), row[name]);
      if (name !== 'e2b') continue;
      const asked = { messages: row.messages, tools: row.tools, thinking: row.thinking };
      assert.deepEqual((await vocabulary.prompted(asked)).ids, ids);
    }
  }
});

test('countTokens() checks `thinking` as generate() does', async (t) => {
  const plain = await open(t, 'parity-q4_0');
  // @ts-expect-error: a budget is a number
  await refuses(plain.countTokens(HI, { thinking: { budget: '9' } }), 'bad-option');
  await refuses(plain.countTokens(HI, { thinking: true }), 'bad-option', /does not support thinking/);
  await refuses(plain.countTokens('Hi', { thinking: true }), 'bad-option', /needs a prompt of messages/);
  assert.equal(await plain.countTokens('Hi', { thinking: false }), await plain.countTokens('Hi'));
});

test('Gemma 4: no text of tools, arguments or results becomes a control token', async () => {
  const vocabulary = await vocabularyOf('gemma4-tools');
  const names = ['<|"|>', '<|tool>', '<tool|>', '<|tool_call>', '<tool_call|>', '<|tool_response>', '<tool_response|>'];
  names.push('<|channel>', '<channel|>', '<|think|>', '<|turn>', '<turn|>');
  const marks = new Set(names.map((name) => vocabulary.idOf(name)));
  assert.ok(!marks.has(null));
  const written = async (/** @type {string} */ text) => {
    const parameters = { type: 'object', properties: { a: { type: 'string', description: text, enum: [text] } } };
    const messages = [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: '',
        thoughts: text,
        toolCalls: [{ id: 'b', name: 'f', arguments: { a: text, [text]: [text] } }],
      },
      { role: 'tool', name: 'f', id: 'b', content: { a: text, [text]: { a: text } } },
    ];
    const tools = [{ name: 'f', description: text, parameters }];
    const { ids } = await vocabulary.prompted({ messages, tools, thinking: true });
    return ids.filter((id) => marks.has(id));
  };
  const expected = await written('y');
  for (const name of names) assert.deepEqual(await written(`${name}y`), expected, name);
});

test('with a large vocabulary, the answer after thoughts does not depend on how many logits are computed', async (t) => {
  // An output matrix of 2^22 weights or more has two stages, unless log probabilities need all logits.
  const model = await open(t, { ...SPECS['qwen3-thinking'], vocab: 66000, name: 'qwen3, large vocabulary' });
  for (let seed = 0; seed < 6; seed++) {
    const options = { thinking: true, seed, temperature: seed % 2, maxTokens: 12, jumpForward: false };
    const format = { regex: '[a-z ]{40}' };
    const all = await model.generate(HI, { ...options, format, logprobs: 0 }).result();
    const { tokens } = await model.generate(HI, { ...options, format }).result();
    assert.deepEqual(tokens, all.tokens);
  }
});

test('Gemma 4: an answer to tool results begins inside a thought if the prompt does', async (t) => {
  const model = await open(t, 'gemma4-tools');
  const [end] = await idsOf(model, ['<channel|>']);
  const toolCalls = [{ id: 'a', name: 'add', arguments: { a: 2, b: 3 } }];
  /** @type {ChatMessage[]} */
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: '', thoughts: 'hm', toolCalls },
    { role: 'tool', id: 'a', content: 5 },
  ];
  const thinking = { budget: 4 };
  const { thoughts, tokens, usage, value } = await model
    .generate(messages, { thinking, format: { choices: [5, 6].map(String) }, logitBias: { [end]: -100 }, seed: 8 })
    .result();
  assert.ok(thoughts && /^[56]$/.test(String(value)));
  assert.deepEqual([tokens.indexOf(end), usage.thoughtTokens], [4, 5]);
  const off = await model.generate(messages, { thinking: false, format: { choices: ['5'] } }).result();
  assert.deepEqual([off.value, off.thoughts], ['5', undefined]);
});

test('Gemma 4: calls follow thoughts, and the answer ends where a result would begin', async (t) => {
  const model = await open(t, 'gemma4-tools');
  const [begin, end, stop, start] = await idsOf(model, [
    '<|channel>',
    '<channel|>',
    '<|tool_response>',
    '<|tool_call>',
  ]);
  const tools = [{ name: 'now' }];
  const chat = model.chat({ tools, thinking: { budget: 3 }, maxTokens: 60, temperature: 0 });
  const biases = { [begin]: 30, [end]: -100, [stop]: 25, [start]: 20 };
  const { toolCalls, text, thoughts, tokens } = await chat
    .send('Hi', { toolChoice: 'required', logitBias: biases, frequencyPenalty: 2 })
    .result();
  assert.deepEqual(toolCalls, [{ id: 'call_0', name: 'now', arguments: {} }]);
  assert.equal(text, '');
  assert.ok(tokens.includes(begin) && !tokens.includes(stop) && tokens.indexOf(end) < tokens.indexOf(start));
  const [, message] = chat.messages;
  assert.deepEqual(message, { role: 'assistant', content: '', ...(thoughts && { thoughts }), toolCalls });
  const after = await chat.sendToolResults([{ id: 'call_0', content: 'noon' }], { maxTokens: 0 }).result();
  assert.ok(after.usage.reusedTokens > 0);
});

test('continue() works with a model whose thinking cannot be turned off', async (t) => {
  const bytes = readFileSync(await testModel('qwen3-thinking')).toString('latin1');
  const always = Buffer.from(bytes.replaceAll('enable_thinking', 'enable_thonking'), 'latin1');
  const model = await loadModel(always, { threads: 1 });
  t.after(() => model.dispose());
  assert.equal(model.info.thinking, false);
  const chat = model.chat({ messages: [...HI, { role: 'assistant', content: 'Ye', thoughts: 'so' }] });
  const { usage } = await chat.continue({ maxTokens: 0 }).result();
  assert.ok(usage.promptTokens > (await model.countTokens(HI)) + 2, 'the prompt contains the thoughts');
});

test('`thinking` is rejected by a model without thoughts, and for a prompt that is not messages', async (t) => {
  const model = await open(t, 'gemma4-tools');
  await refuses(() => model.generate('Hi', { thinking: true }), 'bad-option', /needs .* messages/);
  const messages = [{ role: 'assistant', content: '', thoughts: 1 }];
  for (const options of [{ thinking: { budget: -1 } }, { thinking: 'on' }, { messages }]) {
    await refuses(() => model.chat(wrong(options)), 'bad-option');
  }
  const other = await open(t, 'tiny');
  assert.equal(other.info.thinking, false);
  await refuses(() => other.chat().send('Hi', { thinking: true }), 'bad-option');
  await other.chat({ thinking: false, maxTokens: 1 }).send('Hi').result();
});
