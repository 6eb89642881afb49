/* Tests the real LangChain.js 1 with gemma-wasm/openai: the calls that its documentation shows for ChatOpenAI and
 * OpenAIEmbeddings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import { createHandler } from '../../js/openai.js';
import { open } from './helpers.js';

const Person = z.object({ name: z.enum(['Tom', 'Lily']), age: z.number().int().min(1).max(99) });
const Sum = z.object({ a: z.number().int().min(-99).max(99), b: z.number().int().min(-99).max(99) });
const add = tool(({ a, b }) => String(a + b), { name: 'add', description: 'Adds two numbers', schema: Sum });
const QUESTION = 'Tell me a story about a cat.';

/** @param {any} value */
function isPerson(value) {
  assert.deepEqual(Person.parse(value), value);
}

/** @typedef {{ story: ChatOpenAI, likely: ChatOpenAI, chat: ChatOpenAI, wild: ChatOpenAI, text: OpenAI, embed: OpenAIEmbeddings }} Given */

/** @type {Record<string, (given: Given) => Promise<void>>} */
const CALLS = {
  'invoke() with a string': async ({ story }) => {
    const { content, response_metadata: about, usage_metadata: usage } = await story.invoke(QUESTION);
    assert.ok(typeof content === 'string' && content.length > 5);
    assert.deepEqual([about.finish_reason, usage?.output_tokens], ['length', 12]);
  },
  'invoke() with messages': async ({ story }) => {
    const messages = [new SystemMessage('Be brief.'), new HumanMessage(QUESTION)];
    assert.equal((await story.invoke(messages)).getType(), 'ai');
  },
  'invoke() with a conversation': async ({ story }) => {
    const messages = [new HumanMessage(QUESTION), new AIMessage('No.'), new HumanMessage('Why?')];
    assert.ok((await story.invoke(messages)).text);
  },
  'stream() gives what invoke() gives': async ({ story }) => {
    let text = '';
    let count = 0;
    for await (const chunk of await story.stream(QUESTION)) {
      text += chunk.text;
      count++;
    }
    assert.ok(count > 5);
    assert.equal(text, (await story.invoke(QUESTION)).text);
  },
  'streamEvents() ends with the message': async ({ story }) => {
    const names = [];
    for await (const { event } of story.streamEvents(QUESTION, { version: 'v2' })) names.push(event);
    assert.deepEqual([names[0], names.at(-1)], ['on_chat_model_start', 'on_chat_model_end']);
    assert.ok(names.filter((name) => name === 'on_chat_model_stream').length > 5);
  },
  'batch() answers each': async ({ story }) => {
    const [one, two] = await story.batch([QUESTION, QUESTION]);
    assert.equal(one.text, two.text);
  },
  'a chain of prompt, model and parser': async ({ story }) => {
    const prompt = ChatPromptTemplate.fromMessages([['human', 'Tell me a story about a {animal}.']]);
    const chain = prompt.pipe(story).pipe(new StringOutputParser());
    assert.equal(await chain.invoke({ animal: 'cat' }), (await story.invoke(QUESTION)).text);
  },
  'stop ends an answer': async ({ story }) => {
    const [stop] = (await story.invoke(QUESTION)).text.trim().split(' ').slice(3);
    const { text, response_metadata: about } = await story.invoke(QUESTION, { stop: [stop] });
    assert.ok(!text.includes(stop));
    assert.equal(about.finish_reason, 'stop');
  },
  'log probabilities come with the message': async ({ likely }) => {
    const { logprobs } = /** @type {any} */ ((await likely.invoke(QUESTION)).response_metadata);
    assert.deepEqual([logprobs.content.length, logprobs.content[0].top_logprobs.length], [12, 2]);
  },
  'bindTools() makes calls': async ({ wild }) => {
    const { tool_calls: calls = [] } = await wild.bindTools([add], { tool_choice: 'add' }).invoke('2 + 3?');
    assert.equal(calls[0].name, 'add');
    Sum.parse(calls[0].args);
  },
  'calls stream': async ({ wild }) => {
    /** @type {any} */
    let all;
    for await (const chunk of await wild.bindTools([add], { tool_choice: 'add' }).stream('2 + 3?')) {
      all = all ? all.concat(chunk) : chunk;
    }
    Sum.parse(all.tool_calls[0].args);
  },
  'a tool runs a call, and its result goes back': async ({ wild }) => {
    const answer = await wild.bindTools([add], { tool_choice: 'add' }).invoke('2 + 3?');
    const [call] = answer.tool_calls ?? [];
    const result = await add.invoke(/** @type {any} */ (call));
    assert.ok(result instanceof ToolMessage && result.tool_call_id === call.id);
    const last = await wild
      .bindTools([add], { tool_choice: 'none' })
      .invoke([new HumanMessage('2 + 3?'), answer, result]);
    assert.ok(last.text && !last.tool_calls?.length);
  },
  'withStructuredOutput() by a schema': async ({ wild }) => {
    isPerson(await wild.withStructuredOutput(Person, { name: 'person', method: 'jsonSchema' }).invoke('Who?'));
  },
  'withStructuredOutput() by a function': async ({ wild }) => {
    isPerson(await wild.withStructuredOutput(Person, { name: 'person', method: 'functionCalling' }).invoke('Who?'));
  },
  'completions continue text': async ({ text }) => {
    assert.match(await text.invoke('Once upon a time'), /^, there/);
  },
  'embedQuery() and embedDocuments()': async ({ embed }) => {
    const [vector, [first, second]] = await Promise.all([
      embed.embedQuery('a cat'),
      embed.embedDocuments(['a cat', 'a boat']),
    ]);
    assert.deepEqual(first, vector);
    assert.ok(Math.abs(Math.hypot(...second) - 1) < 1e-3);
  },
  'a signal aborts': async ({ chat }) => {
    const signal = AbortSignal.timeout(30);
    await assert.rejects(chat.invoke('Hi', { signal }), /abort|timeout/i);
  },
};

test('LangChain.js works with gemma-wasm/openai', async (t) => {
  assert.ok(Object.keys(CALLS).length >= 15);
  const models = { chat: await open(t, 'qwen3-tools'), embed: await open(t, 'embed-q8_0') };
  const story = await open(t, 'storyteller');
  const configuration = { baseURL: 'http://local/v1', fetch: createHandler({ ...models, story }) };
  const shared = { apiKey: 'x', configuration, maxRetries: 0 };
  const given = {
    story: new ChatOpenAI({ ...shared, model: 'story', temperature: 0, maxTokens: 12 }),
    likely: new ChatOpenAI({ ...shared, model: 'story', maxTokens: 12, logprobs: true, topLogprobs: 2 }),
    chat: new ChatOpenAI({ ...shared, model: 'chat', temperature: 2, topP: 1, maxTokens: 1500 }),
    wild: new ChatOpenAI({ ...shared, model: 'chat', temperature: 2, topP: 1, maxTokens: 400 }),
    text: new OpenAI({ ...shared, model: 'story', temperature: 0, maxTokens: 8 }),
    embed: new OpenAIEmbeddings({ ...shared, model: 'embed' }),
  };
  for (const [name, run] of Object.entries(CALLS)) await t.test(name, () => run(given));
});
