/* stream: the AI SDK's streamText(), and conversions of its stream. */
import {
  consumeStream,
  createTextStreamResponse,
  createUIMessageStreamResponse,
  generateText,
  readUIMessageStream,
  smoothStream,
  streamText,
  toTextStream,
  toUIMessageStream,
} from 'ai';
import { equal, listOf, ok } from '../checks.js';
import { SHORT, hello } from './given.js';

const quiet = { onError: () => {} };

/** @type {import('./given.js').Calls} */
export const STREAM = {
  'streamText: textStream': async ({ model }) => {
    const { text } = await hello(model);
    const pieces = await listOf(streamText({ model, prompt: 'Hello', ...SHORT }).textStream);
    ok(pieces.length > 1, 'several pieces');
    equal(pieces.join(''), text, 'text');
  },
  'streamText: parts in order': async ({ model }) => {
    const parts = await listOf(streamText({ model, prompt: 'Hello', ...SHORT }).stream);
    const types = parts.map(({ type }) => type).filter((type, i, list) => type !== list[i - 1]);
    const expected = ['start', 'start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', 'finish'];
    equal(types, expected, 'types');
    const ids = parts.flatMap((part) => (part.type.startsWith('text-') ? [/** @type {any} */ (part).id] : []));
    equal(new Set(ids).size, 1, 'ids of the block');
  },
  'streamText: promises of the result': async ({ model }) => {
    const result = streamText({ model, prompt: 'Hello', ...SHORT });
    const expected = await hello(model);
    await consumeStream({ stream: result.stream });
    equal(await result.text, expected.text, 'text');
    equal(await result.finishReason, expected.finishReason, 'finish reason');
    equal((await result.usage).outputTokens, expected.usage.outputTokens, 'output tokens');
    equal((await result.response).modelId, model.modelId, 'model');
  },
  'streamText: smoothStream': async ({ model }) => {
    const call = { model, prompt: 'Hello', ...SHORT };
    const transform = smoothStream({ delayInMs: null, chunking: /[^]/ });
    const pieces = await listOf(streamText({ ...call, experimental_transform: transform }).textStream);
    ok(
      pieces.every((piece) => piece.length === 1),
      'single characters',
    );
    equal(pieces.join(''), (await generateText(call)).text, 'text');
  },
  'streamText: onChunk and onFinish': async ({ model }) => {
    let chunks = '';
    let finished = '';
    const result = streamText({
      model,
      prompt: 'Hello',
      ...SHORT,
      onChunk({ chunk }) {
        if (chunk.type === 'text-delta') chunks += chunk.text;
      },
      onFinish({ text }) {
        finished = text;
      },
    });
    const text = await result.text;
    equal([chunks, finished], [text, text], 'chunks and text');
  },
  'streamText: abort during the answer': async ({ model }) => {
    const stop = new AbortController();
    let aborted = false;
    const onAbort = () => void (aborted = true);
    const call = { model, prompt: 'Hello', maxOutputTokens: 1500, abortSignal: stop.signal, onAbort, ...quiet };
    /** @type {string[]} */
    const types = [];
    for await (const { type } of streamText(call).stream) {
      types.push(type);
      if (types.filter((one) => one === 'text-delta').length === 3) stop.abort();
    }
    ok(aborted && types.at(-1) === 'abort', types.slice(-3).join());
    ok((await hello(model)).text, 'the model answers again');
  },
  'streamText: leaving the loop ends the answer': async ({ model, engine }) => {
    for await (const _ of streamText({ model, prompt: 'Hello', maxOutputTokens: 1500 }).textStream) break;
    // Calls run one at a time, so generate() waits for the end of the answer.
    ok(await engine.generate('x', { maxTokens: 1 }).result(), 'the engine is free');
  },
  'streamText: cancelling the stream of a model ends the answer': async ({ model, engine }) => {
    const prompt = [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }];
    const unread = await model.doStream({ prompt, maxOutputTokens: 1500 });
    await unread.stream.cancel();
    const { stream } = await model.doStream({ prompt, maxOutputTokens: 1500 });
    const reader = stream.getReader();
    for (let i = 0; i < 5; i++) await reader.read();
    await reader.cancel();
    ok(await engine.generate('x', { maxTokens: 1 }).result(), 'the engine is free');
  },
  'streamText: errors reach onError': async ({ model }) => {
    /** @type {any} */
    let reported;
    const providerOptions = { gemmaWasm: { format: { regex: '(a)\\1' } } };
    const onError = (/** @type {{ error: unknown }} */ { error }) => void (reported = error);
    const result = streamText({ model, prompt: 'Hello', providerOptions, onError });
    const parts = await listOf(result.stream);
    ok(
      parts.some(({ type }) => type === 'error'),
      'an error in the stream',
    );
    equal([reported?.code, await result.finishReason], ['bad-format', 'error'], 'error');
  },
  'UI messages: toUIMessageStream and readUIMessageStream': async ({ model }) => {
    const result = streamText({ model, prompt: 'Hello', ...SHORT });
    const messages = await listOf(readUIMessageStream({ stream: toUIMessageStream({ stream: result.stream }) }));
    const parts = messages.at(-1)?.parts.filter(({ type }) => type === 'text');
    equal(parts?.map((part) => /** @type {any} */ (part).text).join(''), await result.text, 'text');
  },
  'UI messages: createUIMessageStreamResponse': async ({ model }) => {
    const result = streamText({ model, prompt: 'Hello', ...SHORT });
    const response = createUIMessageStreamResponse({ stream: toUIMessageStream({ stream: result.stream }) });
    const events = (await response.text()).match(/"type":"text-delta"/g);
    ok(Number(events?.length) > 1, 'several events');
  },
  createTextStreamResponse: async ({ model }) => {
    const result = streamText({ model, prompt: 'Hello', ...SHORT });
    const response = createTextStreamResponse({ stream: toTextStream({ stream: result.stream }) });
    equal(await response.text(), (await hello(model)).text, 'text');
  },
};
