/* Tests overflow policies of chats: which messages are dropped, what stays together, summaries, and failures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortened } from '../../js/overflow.js';
import { open, refuses, sleep, wrong } from './helpers.js';

const SHORT = { maxTokens: 12, seed: 4, logitBias: { 1: -Infinity, 8: -Infinity } };

/** Fits messages into a context in which each character counts as a token. Returns the kept and the dropped messages as
 * text, and how often tokens were counted. @param {string} turns as in messagesOf() @param {any} [more] */
async function fit(turns, { contextLength = 40, maxTokens = 5, ...more } = {}) {
  let counts = 0;
  const messages = messagesOf(turns);
  const args = wrong({ prompt: { messages, begin: more.begin }, tools: more.tools, maxTokens });
  const count = async (/** @type {any} */ prompt) => {
    counts++;
    const { begin = '', tools = [] } = prompt;
    return prompt.messages.reduce(
      (/** @type {number} */ sum, /** @type {ChatMessage} */ { content }) => sum + content.length,
      begin.length + tools.length,
    );
  };
  const { signal } = new AbortController();
  const said = await shortened(args, { count, contextLength, signal, ...more });
  const texts = (/** @type {ChatMessage[]} */ some) => some.map(({ content }) => content).join(' ');
  return { kept: texts(said.messages), dropped: texts(said.dropped), counts };
}

/** Parses messages from a text such as 's:be u:hi a:yo'. Letters are roles: 'c' is an answer with a tool call, 't' the
 * tool's result. @param {string} text @returns {ChatMessage[]} */
function messagesOf(text) {
  const roles = /** @type {const} */ ({ s: 'system', d: 'developer', u: 'user', a: 'assistant', t: 'tool' });
  return text.split(' ').map((one, i) => {
    const [role, content] = one.split(':');
    if (role === 'c') {
      return { role: 'assistant', content, toolCalls: [{ id: `call_${i}`, name: 'get', arguments: {} }] };
    }
    return { role: roles[/** @type {keyof roles} */ (role)], content };
  });
}

test('drops the oldest turns until half of the context is free, but only if the answer lacks room', async () => {
  const turns = 'u:aaaaa a:bbbbb u:ccccc a:ddddd u:eeeee a:fffff u:ggggg';
  assert.deepEqual(await fit(turns), { kept: turns.replace(/\w:/g, ''), dropped: '', counts: 1 });
  const { kept, dropped } = await fit(turns, { maxTokens: 6 });
  assert.deepEqual({ kept, dropped }, { kept: 'eeeee fffff ggggg', dropped: 'aaaaa bbbbb ccccc ddddd' });
  // An answer gets at most a quarter of the context, even if `maxTokens` is larger.
  assert.equal((await fit(turns.slice(0, -2), { maxTokens: 1000 })).dropped, dropped);
  assert.equal((await fit('u:aaaaa a:bbbbb u:ccccc', { maxTokens: 1000 })).dropped, '');
});

test('never drops system messages or the last question', async () => {
  const { kept, dropped } = await fit('s:sssss u:aaaaa a:bbbbb d:ddddd u:ccccc a:eeeee u:qqqqqqqqqqqqqqqqqqq');
  assert.deepEqual({ kept, dropped }, { kept: 'sssss ddddd qqqqqqqqqqqqqqqqqqq', dropped: 'aaaaa bbbbb ccccc eeeee' });
  const long = await fit(`u:aaaaa a:bbbbb u:${'q'.repeat(41)}`);
  assert.deepEqual(
    long.dropped,
    '',
    'a question that is longer than the context is not dropped; the engine rejects it',
  );
  const first = await fit(`a:${'g'.repeat(20)} u:aaaaa a:bbbbb u:ccccccccc`);
  assert.equal(first.dropped, 'g'.repeat(20), 'a greeting is dropped first');
});

test('never separates tool calls from their results', async () => {
  const before = await fit('u:aaaaa c:bbbbb t:ccccc t:ccccc a:ddddd u:eeeee a:fffff u:ggggg');
  assert.equal(before.kept, 'eeeee fffff ggggg');
  const during = await fit('s:s u:aaaa c:bbbbb t:ccccc t:ccccc c:ddddd t:eeeee c:fffff t:ggggg');
  assert.deepEqual([during.kept, during.dropped], ['s aaaa fffff ggggg', 'bbbbb ccccc ccccc ddddd eeeee']);
  const last = await fit(`u:aaaaa c:bbbbb t:${'c'.repeat(28)}`);
  assert.equal(last.dropped, '', 'the results to be answered are not dropped');
});

test("counts the tokens of tools and of the answer's prefix, and counts only a few times", async () => {
  const turns = 'u:aaaaa a:bbbbb u:ccccc a:ddddd u:eeeee a:fffff u:ggggg';
  assert.equal((await fit(turns, { begin: 'x' })).dropped, 'aaaaa bbbbb ccccc ddddd');
  assert.equal((await fit(turns, { tools: { list: [1] } })).dropped, 'aaaaa bbbbb ccccc ddddd');
  const { kept, counts } = await fit(`${'u:a a:b '.repeat(500)}u:q`);
  assert.equal(kept.split(' ').length, 19, 'whole turns that fill half of the context are kept');
  assert.ok(counts <= 12, `${counts} counts`);
});

test('a summary replaces what was dropped, and is itself summarized later', async () => {
  /** @type {string[][]} */
  const asked = [];
  const summarize = async (/** @type {ChatMessage[]} */ messages) => {
    asked.push(messages.map(({ content }) => content));
    messages.pop();
    return 'SUM';
  };
  const turns = 's:sss u:aaaaa a:bbbbb u:ccccc a:ddddd u:eeeee a:fffff u:ggggg';
  const first = await fit(turns, { summarize });
  assert.equal(first.kept, 'sss SUM eeeee fffff ggggg');
  assert.deepEqual(asked, [['aaaaa', 'bbbbb', 'ccccc', 'ddddd']]);
  const more = 's:sss u:SUM u:eeeee a:fffff u:ggggg a:hhhhh u:iiiii a:jjjjj u:kkkkk';
  assert.equal((await fit(more, { summarize })).kept, 'sss SUM iiiii jjjjj kkkkk');
  assert.equal(asked[1][0], 'SUM');
  assert.equal((await fit(turns, { summarize: () => '' })).kept, 'sss eeeee fffff ggggg');
  const rounds = await fit('u:aaaa c:bbbbb t:ccccccccccccc c:ddddd t:eeeeeeee c:ff t:gg', { summarize });
  assert.equal(rounds.kept, 'SUM aaaa ff gg', 'a summary of tool calls does not become the last question');
});

test('a chat drops its oldest turns and reports them; by default, it rejects the message', async (t) => {
  const model = await open(t, 'tiny', { contextLength: 160 });
  const chat = model.chat({ system: 'Be.', overflow: 'truncate-oldest', ...SHORT });
  /** @type {ChatMessage[]} */
  const all = [];
  for (let turn = 0; turn < 8; turn++) {
    const { usage, dropped = [], text, tokens } = await chat.send(`Question ${turn}`).result();
    all.push({ role: 'user', content: `Question ${turn}` }, { role: 'assistant', content: text });
    assert.ok(usage.promptTokens + 12 <= 160, `${usage.promptTokens}`);
    if (dropped.length) {
      assert.ok(usage.promptTokens <= 80);
      assert.deepEqual(dropped, all.splice(0, dropped.length));
      assert.deepEqual((await model.generate(chat.messages.slice(0, -1), SHORT).result()).tokens, tokens);
    }
    assert.deepEqual(chat.messages, [{ role: 'system', content: 'Be.' }, ...all]);
  }
  assert.ok(all.length < 16, 'something was dropped');
  const copy = chat.clone();
  const long = 'long '.repeat(14);
  assert.ok((await copy.append([{ role: 'user', content: long }])).dropped, 'a clone has the same overflow policy');
  assert.equal(copy.messages.at(-1)?.content, long);
  const before = chat.messages;
  await refuses(chat.send('long '.repeat(200)).result(), 'context-exceeded');
  assert.deepEqual(chat.messages, before);
  const plain = model.chat({ messages: before, ...SHORT });
  await refuses(plain.send(long).result(), 'context-exceeded');
});

test('a chat counts the tokens that the option `thinking` adds to the prompt', async (t) => {
  const model = await open(t, 'qwen3-thinking', { contextLength: 64 });
  const messages = messagesOf('u:Hi a:Ye');
  let text = 'a';
  while ((await model.countTokens([...messages, ...messagesOf(`u:${text}a`)])) < 64) text += 'a';
  const chat = model.chat({ messages, overflow: 'truncate-oldest', thinking: false, maxTokens: 1 });
  assert.equal((await chat.send(text).result()).dropped?.length, 2);
});

test('the model itself can write the summary; failures and aborts of `summarize` leave the chat unchanged', async (t) => {
  const model = await open(t, 'tiny', { contextLength: 160 });
  /** @type {ChatMessage[]} */
  const messages = [
    { role: 'system', content: 'Be.' },
    { role: 'user', content: 'word '.repeat(12) },
    { role: 'assistant', content: 'Yes' },
    { role: 'user', content: 'More' },
    { role: 'assistant', content: 'No' },
  ];
  const start = { messages, overflow: /** @type {const} */ ('summarize'), ...SHORT };
  const said = 'word '.repeat(8);
  const chat = model.chat({
    ...start,
    summarize: async (gone, { signal }) => {
      const asked = gone.map(({ content }) => content).join('\n');
      return `Earlier: ${await model.generate(asked, { ...SHORT, signal }).text()}`;
    },
  });
  const answer = await chat.send(said).result();
  assert.deepEqual(answer.dropped, messages.slice(1, 1 + (answer.dropped?.length ?? 0)));
  assert.equal(chat.messages[0].content, 'Be.');
  assert.match(chat.messages[1].content, /^Earlier: ./);
  assert.equal(answer.usage.promptTokens, await model.countTokens(chat.messages.slice(0, -1)));

  const broken = new Error('no summary');
  const failing = model.chat({ ...start, summarize: () => Promise.reject(broken) });
  await assert.rejects(failing.send(said).result(), broken);
  const numeric = model.chat({ ...start, summarize: wrong(() => 5) });
  await refuses(numeric.send(said).result(), 'bad-option', /must return a string \(got 5\)/);
  const stop = new AbortController();
  const slow = model.chat({ ...start, summarize: () => sleep(60000, '', { ref: false }) });
  setTimeout(() => stop.abort(), 20);
  assert.equal((await slow.send(said, { signal: stop.signal }).result()).finishReason, 'aborted');
  for (const one of [failing, slow]) {
    assert.deepEqual(one.messages, messages);
    assert.ok((await one.send('x', { maxTokens: 1 }).result()).tokens.length);
  }
  for (const options of [{ overflow: 'summarize' }, { summarize: () => '' }, { overflow: 'drop' }]) {
    await refuses(() => model.chat(wrong(options)), 'bad-option');
  }
});
