/* Tests gemma-wasm/ai-sdk with the real AI SDK and test models, and compares the types of gemma-wasm/ai-sdk with the
 * SDK's. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { DirectChatTransport, ToolLoopAgent, generateText, streamText } from 'ai';
import * as entry from '../../js/ai-sdk.node.js';
import { ArgumentWriter } from '../../js/answer-parts.js';
import { messagesOf } from '../../js/ai-sdk/prompt.js';
import { partialJson } from '../../js/tool-calling/partial.js';
import { CALLS } from '../support/ai-sdk-calls.js';
import { listOf } from '../support/checks.js';
import { open, sleep, wrong } from './helpers.js';
import { STORYTELLER, testModel } from './models.js';

/** @import { ChatTransport, UIMessage } from 'ai' */
/** @import { GemmaWasmDataParts } from '../../js/ai-sdk.js' */
/** @import { EmbeddingModelV4, LanguageModelV4, ProviderV4 } from '@ai-sdk/provider' */

const { gemmaWasm } = entry;

test('the AI SDK runs on local models', async (t) => {
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const [engine, embedEngine] = [await open(t, 'generic-tools'), await open(t, 'embed-q8_0')];
  const given = {
    entry,
    engine,
    embedEngine,
    model: gemmaWasm(engine),
    embedder: gemmaWasm.embeddingModel(embedEngine),
    source: await testModel('generic-tools'),
  };
  assert.ok(Object.keys(CALLS).length >= 50);
  for (const [name, call] of Object.entries(CALLS)) await t.test(name, () => call(given));
});

test('thoughts become reasoning parts with token counts, and the `reasoning` option limits them', async (t) => {
  const engine = await open(t, 'qwen3-thinking');
  const model = gemmaWasm(engine);
  const [begin, end] = await Promise.all(
    ['<think>', '</think>'].map(async (name) => (await engine.tokenize(name, { special: true }))[0]),
  );
  const grammar = `root ::= <[${begin}]> "\nhm ha\n" <[${end}]> "\n\nYes."`;
  const providerOptions = { gemmaWasm: { format: { grammar } } };
  const result = await generateText({ model, prompt: 'Hi', providerOptions });
  assert.deepEqual([result.reasoningText, result.text], ['hm ha', 'Yes.']);
  const { reasoningTokens = 0, textTokens = 0 } = result.usage.outputTokenDetails;
  assert.ok(reasoningTokens > 0 && textTokens > 0);
  assert.equal(reasoningTokens + textTokens, result.usage.outputTokens);
  const parts = await listOf(streamText({ model, prompt: 'Hi', providerOptions }).stream);
  const types = parts.map(({ type }) => type).filter((type, i, list) => type !== list[i - 1]);
  const block = (/** @type {string} */ name) => ['start', 'delta', 'end'].map((end) => `${name}-${end}`);
  const between = [...block('reasoning'), ...block('text')];
  assert.deepEqual(types, ['start', 'start-step', ...between, 'finish-step', 'finish']);
  // A conversation keeps an answer's reasoning for the next call, and the AI SDK's reasoning effort becomes the
  // engine's `thinking` budget.
  const before = /** @type {const} */ ({ role: 'user', content: 'Hi' });
  const after = /** @type {const} */ ({ role: 'user', content: 'Why?' });
  const messages = [before, ...result.responseMessages, after];
  const call = { model, messages, maxOutputTokens: 100, seed: 1 };
  const { usage, warnings } = await generateText({ ...call, reasoning: 'minimal' });
  const said = { role: /** @type {const} */ ('assistant'), content: 'Yes.', thoughts: 'hm ha' };
  const expected = await engine
    .generate([before, said, after], { maxTokens: 100, seed: 1, thinking: { budget: 64 } })
    .result();
  assert.deepEqual(warnings, []);
  assert.deepEqual(
    [usage.inputTokens, usage.outputTokens, usage.outputTokenDetails.reasoningTokens],
    [expected.usage.promptTokens, expected.usage.completionTokens, expected.usage.thoughtTokens ?? 0],
  );
});

test('the examples of ai-sdk.md run', async (t) => {
  const sources = ['gemma-3-270m-it-Q8_0.gguf', 'embeddinggemma-300M-Q8_0.gguf'];
  const files = [STORYTELLER, await testModel('embed-q8_0')];
  const load = (/** @type {string} */ name) => (name === 'gemma-wasm/ai-sdk' ? entry : import(name));
  const page = readFileSync(new URL('../../docs/ai-sdk.md', import.meta.url), 'utf8');
  /** @type {any[][]} */
  const shown = [];
  const show = (/** @type {any[]} */ ...values) => void shown.push(values);
  const blocks = [...page.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => {
    const local = sources.reduce(
      (text, name, i) => text.replace(new RegExp(`\\{[^{}]*'${name}' \\}`), `'${files[i]}'`),
      code,
    );
    return local.replace(/^import (\{.*\}) from ('.*');$/gm, 'const $1 = await load($2);');
  });
  assert.equal(blocks.length, 5);
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  const first = new AsyncFunction('load', 'show', `${blocks[0]}\nreturn { model, gemmaWasm };`);
  const { model } = await first(load, show);
  t.after(() => model.dispose());
  assert.ok(shown.length > 1, 'the text is streamed in several parts');
  for (const code of blocks.slice(1)) {
    shown.length = 0;
    await new AsyncFunction('load', 'show', 'model', 'gemmaWasm', code)(load, show, model, gemmaWasm);
    assert.equal(shown.length, 1, code);
  }
});

test('the JSON of a growing value is written piece by piece, even if property names are integers', () => {
  const values = [
    { what: 'a "quoted"\n text 😀', list: ['x', '', 'yz'] },
    { a: { b: [{ c: 1.5 }, {}], d: [] }, e: null, f: [true, false], g: '' },
    [[], [[-1e-7, 'end']], {}],
    { a: { b: { c: 'x' } }, 'a/b': { d: 'y' } },
  ];
  for (const value of values) {
    const whole = JSON.stringify(value);
    const writer = new ArgumentWriter();
    let sent = '';
    for (let end = 1; end < whole.length; end++) {
      const part = partialJson(whole.slice(0, end));
      sent += part === undefined ? '' : writer.next(part, false);
      assert.ok(whole.startsWith(sent), sent);
    }
    assert.ok(sent.length > whole.length / 2);
    assert.equal(sent + writer.next(value, true), whole);
  }
  const writer = new ArgumentWriter();
  const sent = ['{"b":1,', '{"b":1,"1":2,', '{"b":1,"1":2}'].map((text, i) => writer.next(partialJson(text), i === 2));
  assert.deepEqual(sent, ['{"b":1', '', ',"1":2}']);
});

test('AI SDK prompts are converted to messages, with every kind of tool result', () => {
  const outputs = [
    [{ type: 'text', value: 'fine' }, 'fine'],
    [{ type: 'json', value: { a: 1 } }, { a: 1 }],
    [{ type: 'error-text', value: 'bad' }, { error: 'bad' }],
    [{ type: 'error-json', value: { b: 2 } }, { error: { b: 2 } }],
    [{ type: 'execution-denied', reason: 'no' }, { error: 'no' }],
    [{ type: 'execution-denied' }, { error: 'The call was denied.' }],
    [
      {
        type: 'content',
        value: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      'one\ntwo',
    ],
  ];
  /** @type {any} */
  const prompt = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm' },
        { type: 'text', text: 'Wait' },
        { type: 'tool-call', toolCallId: 'c', toolName: 'f', input: { x: 1 } },
        { type: 'tool-call', toolCallId: 'd', toolName: 'f', input: 'not an object' },
      ],
    },
    {
      role: 'tool',
      content: outputs.map(([output]) => ({ type: 'tool-result', toolCallId: 'c', toolName: 'f', output })),
    },
  ];
  const toolCalls = [
    { id: 'c', name: 'f', arguments: { x: 1 } },
    { id: 'd', name: 'f', arguments: { input: 'not an object' } },
  ];
  assert.deepEqual(messagesOf(prompt), [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Wait', thoughts: 'hm', toolCalls },
    ...outputs.map(([, content]) => ({ role: 'tool', id: 'c', name: 'f', content })),
  ]);
  // A conversation can begin with the assistant's greeting, and can have two questions in a row, because answers
  // without text are left out.
  const greeting = { role: 'assistant', content: [{ type: 'text', text: 'Hello!' }] };
  assert.deepEqual(messagesOf([greeting, prompt[1], prompt[1]]), [
    { role: 'user', content: '' },
    { role: 'assistant', content: 'Hello!' },
    { role: 'user', content: 'Hi\n\nHi' },
  ]);
  prompt[3].content[0].output = { type: 'content', value: [{ type: 'file', mediaType: 'image/png' }] };
  assert.throws(() => messagesOf(prompt), { name: 'AI_UnsupportedFunctionalityError', code: 'bad-option' });
});

test('cancelling a stream of the transport does not wait for the next chunk', async () => {
  let cancelled = false;
  const answer = new ReadableStream({ start: (stream) => stream.enqueue('a'), cancel: () => void (cancelled = true) });
  const model = { getContextWindow() {}, createSessionWithProgress: async () => {} };
  const transport = new entry.GemmaWasmChatTransport(wrong({ model, transport: { sendMessages: async () => answer } }));
  const reader = (await transport.sendMessages({})).getReader();
  assert.equal((await reader.read()).value, 'a');
  const next = reader.read();
  await sleep(0);
  await reader.cancel();
  assert.deepEqual([(await next).done, cancelled], [true, true]);
});

test('the types match the provider specification', () => {
  const model = gemmaWasm('model.gguf');
  /** @satisfies {LanguageModelV4} */ (model);
  /** @satisfies {EmbeddingModelV4} */ (gemmaWasm.embeddingModel('model.gguf'));
  /** @satisfies {ProviderV4} */ (gemmaWasm);
  const transport = new DirectChatTransport({ agent: new ToolLoopAgent({ model }) });
  /** @satisfies {ChatTransport<UIMessage<unknown, GemmaWasmDataParts>>} */ (
    new entry.GemmaWasmChatTransport({ model, transport })
  );
  assert.deepEqual([model.specificationVersion, model.provider, model.modelId], ['v4', 'gemma-wasm', 'model.gguf']);
});
