/* streams: streamed chat completions, and the client's helpers for them. */
/** @import { Calls, Given } from './check.js' */
import OpenAI from 'openai';
import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { equal, listOf, ok } from '../checks.js';
import { ADD, WILD, rejects, user } from './check.js';

const STORY = { messages: user('Tell me a story about a boat.'), seed: 3, max_tokens: 12 };
const LONG = { messages: user('Hi'), ...WILD, max_tokens: 1500, seed: 1 };
const Person = z.object({ name: z.enum(['Tom', 'Lily']), age: z.number().int().min(1).max(99) });

/** @param {OpenAI.ChatCompletionChunk[]} chunks @param {number} [index] */
const textOf = (chunks, index = 0) =>
  chunks
    .flatMap(({ choices }) => choices.filter((choice) => choice.index === index))
    .map(({ delta }) => delta.content ?? '')
    .join('');

/** Asks the model `story` for a story. `more`: fields to add. @param {Given} given @param {object} [more] */
const whole = ({ client, story }, more) => client.chat.completions.create({ model: story, ...STORY, ...more });

/** Asks the model `story` for a story as a stream. @param {Given} given @param {object} [more] */
const streamed = ({ client, story }, more) =>
  client.chat.completions.create({ model: story, ...STORY, ...more, stream: true });

/** @type {Calls} */
const CHUNKS = {
  'chunks come in OpenAI’s order: role, text, reason': async (given) => {
    const chunks = await listOf(await streamed(given));
    const [{ id, model }] = chunks;
    for (const chunk of chunks) {
      equal([chunk.id, chunk.object, chunk.model], [id, 'chat.completion.chunk', model]);
      equal(chunk.choices.length, 1);
      ok(!('usage' in chunk), chunk);
    }
    equal(chunks[0].choices[0].delta, { role: 'assistant', content: '', refusal: null });
    const reasons = chunks.map(({ choices }) => choices[0].finish_reason);
    equal([reasons.pop(), new Set(reasons).size, reasons[0]], ['length', 1, null]);
    equal(chunks.at(-1)?.choices[0].delta, {});
    ok(chunks.length > 5, chunks.length);
  },
  'a stream has the text of the whole answer': async (given) => {
    const { choices } = await whole(given);
    equal(textOf(await listOf(await streamed(given))), choices[0].message.content);
  },
  'include_usage adds a last chunk with the counts': async (given) => {
    const chunks = await listOf(await streamed(given, { stream_options: { include_usage: true } }));
    const last = chunks.pop();
    equal([last?.choices, last?.usage?.completion_tokens], [[], 12]);
    ok(chunks.every(({ usage }) => usage === null));
  },
  'several answers stream one after the other': async (given) => {
    const { choices } = await whole(given, { n: 2 });
    const chunks = await listOf(await streamed(given, { n: 2 }));
    for (const { index, message } of choices) equal(textOf(chunks, index), message.content);
  },
  'each token’s log probability streams with it': async (given) => {
    const asked = { logprobs: true, top_logprobs: 2 };
    const { choices } = await whole(given, asked);
    const chunks = await listOf(await streamed(given, asked));
    equal(
      chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []).map(({ token, bytes }) => [token, bytes]),
      choices[0].logprobs?.content?.map(({ token, bytes }) => [token, bytes]),
    );
  },
  'the raw body is server-sent events and ends with [DONE]': async (given) => {
    const response = await streamed(given).asResponse();
    ok(response.headers.get('content-type')?.startsWith('text/event-stream'));
    const events = (await response.text()).split('\n\n');
    equal(events.slice(-2), ['data: [DONE]', '']);
    ok(events.slice(0, -2).every((event) => event.startsWith('data: {')));
  },
  'withResponse() has the id of the request': async (given) => {
    const { data, request_id: id } = await streamed(given).withResponse();
    ok(/^req_\w+$/.test(id ?? ''), id);
    ok((await listOf(data)).length > 5);
  },
  'tee() gives two readers the same chunks': async (given) => {
    const [left, right] = (await streamed(given)).tee();
    equal(textOf(await listOf(left)), textOf(await listOf(right)));
  },
  'toReadableStream() and fromReadableStream() keep the answer': async (given) => {
    const { choices } = await whole(given);
    const copy = ChatCompletionStream.fromReadableStream((await streamed(given)).toReadableStream());
    equal(await copy.finalContent(), choices[0].message.content);
  },
};

/** @type {Calls} */
const HELPERS = {
  'stream() reports content as it grows': async ({ client, story }) => {
    const stream = client.chat.completions.stream({ model: story, ...STORY });
    let text = '';
    let count = 0;
    stream.on('content', (delta, snapshot) => {
      text += delta;
      count++;
      equal(snapshot, text);
    });
    equal(await stream.finalContent(), text);
    ok(count > 5, count);
  },
  'stream() ends with content.done and the message': async ({ client, story }) => {
    const stream = client.chat.completions.stream({ model: story, ...STORY });
    /** @type {string[]} */
    const seen = [];
    stream.on('content.delta', ({ delta }) => seen.push(delta));
    stream.on('content.done', ({ content }) => equal(content, seen.join('')));
    stream.on('message', ({ role, content }) => equal([role, content], ['assistant', seen.join('')]));
    stream.on('end', () => seen.push('end'));
    await stream.done();
    equal(seen.at(-1), 'end');
  },
  'stream() joins chunks to the completion that is not streamed': async (given) => {
    const { client, story } = given;
    const expected = await whole(given, { n: 2 });
    const stream_options = { include_usage: true };
    const stream = client.chat.completions.stream({ model: story, ...STORY, n: 2, stream_options });
    const joined = await stream.finalChatCompletion();
    equal(joined.object, 'chat.completion');
    const choicesOf = (/** @type {OpenAI.ChatCompletion} */ { choices }) =>
      choices.map(({ index, finish_reason: reason, message }) => [index, reason, message.role, message.content]);
    equal(choicesOf(joined), choicesOf(expected));
    equal([joined.usage?.prompt_tokens, joined.usage?.completion_tokens], [expected.usage?.prompt_tokens, 24]);
    equal((await stream.totalUsage()).completion_tokens, 24);
  },
  'stream() iterates its chunks': async ({ client, story }) => {
    const stream = client.chat.completions.stream({ model: story, ...STORY });
    const chunks = await listOf(stream);
    equal(textOf(chunks), await stream.finalContent());
  },
  'stream() parses a growing value of a schema': async ({ client, chat }) => {
    const response_format = zodResponseFormat(Person, 'person');
    const stream = client.chat.completions.stream({ model: chat, messages: user('Who?'), ...WILD, response_format });
    let grown = 0;
    stream.on('content.delta', ({ parsed }) => {
      if (parsed) grown++;
    });
    const { choices } = await stream.finalChatCompletion();
    ok(grown > 0 && ['Tom', 'Lily'].includes(choices[0].message.parsed?.name ?? ''), choices);
  },
  'stream() reports log probabilities': async ({ client, story }) => {
    const stream = client.chat.completions.stream({ model: story, ...STORY, logprobs: true });
    /** @type {string[]} */
    const tokens = [];
    stream.on('logprobs.content.delta', ({ content }) => tokens.push(...content.map(({ token }) => token)));
    stream.on('logprobs.content.done', ({ content }) => equal(content.length, tokens.length));
    const content = await stream.finalContent();
    equal([tokens.length, tokens.join('')], [12, content]);
  },
  'stream() reports the arguments of calls as they grow': async ({ client, chat }) => {
    const stream = client.chat.completions.stream({
      model: chat,
      messages: user('Add'),
      ...WILD,
      tools: [ADD],
      tool_choice: { type: 'function', function: { name: 'add' } },
    });
    let json = '';
    stream.on('tool_calls.function.arguments.delta', (event) => {
      json += event.arguments_delta;
      equal([event.index, event.name, event.arguments], [0, 'add', json]);
    });
    stream.on('tool_calls.function.arguments.done', (event) => equal(event.arguments, json));
    const call = await stream.finalFunctionToolCall();
    equal(call?.arguments, json);
    equal(Object.keys(JSON.parse(json)).sort(), ['a', 'b']);
  },
};

/** Checks that the model answers at once after a call was abandoned. @param {Given} given */
async function isFree({ client, chat }) {
  const { choices } = await client.chat.completions.create({ model: chat, messages: user('Hi'), max_tokens: 2 });
  equal(choices[0].finish_reason, 'length');
}

/** @type {Calls} */
const ABORTS = {
  'leaving the loop ends the answer': async (given) => {
    const { client, chat } = given;
    let count = 0;
    for await (const _ of await client.chat.completions.create({ model: chat, ...LONG, stream: true })) {
      if (++count === 3) break;
    }
    await isFree(given);
  },
  'the stream’s controller ends the answer': async (given) => {
    const stream = await given.client.chat.completions.create({ model: given.chat, ...LONG, stream: true });
    let count = 0;
    for await (const _ of stream) if (++count === 3) stream.controller.abort();
    ok(count < 1500, count);
    await isFree(given);
  },
  'abort() of stream() ends the answer': async (given) => {
    const stream = given.client.chat.completions.stream({ model: given.chat, ...LONG });
    stream.once('content', () => stream.abort());
    await rejects(stream.done(), OpenAI.APIUserAbortError);
    ok(stream.aborted);
    await isFree(given);
  },
  'a signal ends an answer that is not streamed': async (given) => {
    const control = new AbortController();
    const answer = given.client.chat.completions.create(
      { model: given.chat, ...LONG, n: 20 },
      { signal: control.signal },
    );
    setTimeout(() => control.abort(), 30);
    await rejects(answer, OpenAI.APIUserAbortError);
    await isFree(given);
  },
  'a timeout ends the answer': async (given) => {
    const asked = { model: given.chat, ...LONG, n: 20 };
    const answer = given.client.chat.completions.create(asked, { timeout: 30, maxRetries: 0 });
    await rejects(answer, OpenAI.APIConnectionTimeoutError);
    await isFree(given);
  },
};

export const STREAMS = { ...CHUNKS, ...HELPERS, ...ABORTS };
