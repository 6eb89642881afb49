/* ui: chats of the AI SDK's UI libraries, through the package's transport. `useChat` is a thin layer over
 * AbstractChat. */
import {
  AbstractChat,
  DirectChatTransport,
  ToolLoopAgent,
  convertToModelMessages,
  generateText,
  lastAssistantMessageIsCompleteWithToolCalls,
  stepCountIs,
  tool,
  validateUIMessages,
} from 'ai';
import { z } from 'zod';
import { equal, ok } from '../checks.js';

/** @extends {AbstractChat<import('ai').UIMessage>} */
class Chat extends AbstractChat {
  /** @param {any} init */
  constructor({ messages = [], ...init }) {
    /** @type {any} */
    const state = {
      status: 'ready',
      error: undefined,
      messages,
      pushMessage: (/** @type {any} */ message) => void (state.messages = [...state.messages, message]),
      popMessage: () => void (state.messages = state.messages.slice(0, -1)),
      replaceMessage(/** @type {number} */ at, /** @type {any} */ message) {
        state.messages = state.messages.map((/** @type {any} */ one, /** @type {number} */ i) =>
          i === at ? message : one,
        );
      },
      snapshot: (/** @type {any} */ value) => structuredClone(value),
    };
    super({ ...init, state });
  }
}

/** @param {import('./given.js').Given} given @param {any} [settings] @param {any} [init] */
function chatOf({ entry, model }, settings = {}, init = {}) {
  const agent = new ToolLoopAgent({ model, maxOutputTokens: 12, seed: 7, ...settings });
  const transport = new entry.GemmaWasmChatTransport({ model, transport: new DirectChatTransport({ agent }) });
  return new Chat({ transport, ...init });
}

/** @param {any} message */
const textOf = (message) =>
  message.parts
    .filter((/** @type {any} */ { type }) => type === 'text')
    .map((/** @type {any} */ { text }) => text)
    .join('');

/** @type {import('./given.js').Calls} */
export const UI = {
  'Chat: a conversation': async (given) => {
    const chat = chatOf(given);
    await chat.sendMessage({ text: 'Hello' });
    equal([chat.status, chat.messages.length], ['ready', 2], 'state');
    const options = { maxOutputTokens: 12, seed: 7 };
    const { text } = await generateText({ model: given.model, prompt: 'Hello', ...options });
    equal(textOf(chat.messages[1]), text, 'answer');
    await chat.sendMessage({ text: 'And you?' });
    const messages = await convertToModelMessages(chat.messages.slice(0, 3));
    const next = await generateText({ model: given.model, messages, ...options });
    equal(textOf(chat.messages[3]), next.text, 'second answer');
    await validateUIMessages({ messages: chat.messages });
  },
  'Chat: regenerate': async (given) => {
    const chat = chatOf(given);
    await chat.sendMessage({ text: 'Hello' });
    const first = textOf(chat.messages[1]);
    await chat.regenerate();
    equal([chat.messages.length, textOf(chat.messages[1])], [2, first], 'the same seed gives the same answer');
  },
  'Chat: stop': async (given) => {
    const chat = chatOf(given, { maxOutputTokens: 1500 });
    const sent = chat.sendMessage({ text: 'Hello' });
    while (!chat.messages[1] || !textOf(chat.messages[1])) await new Promise((go) => setTimeout(go, 5));
    await chat.stop();
    await sent;
    equal([chat.status, Boolean(textOf(chat.messages[1]))], ['ready', true], 'state');
  },
  'Chat: progress of the download': async ({ entry, source }) => {
    const model = entry.gemmaWasm.languageModel(source, { threads: 1, cache: false });
    /** @type {any[]} */
    const seen = [];
    const chat = chatOf(
      /** @type {any} */ ({ entry, model }),
      {},
      { onData: (/** @type {any} */ part) => seen.push(part) },
    );
    await chat.sendMessage({ text: 'Hello' });
    ok(seen.length > 0 && seen.every(({ type }) => type === 'data-modelDownloadProgress'), `${seen.length} parts`);
    equal(seen.at(-1).data, { status: 'complete', progress: 100, message: 'The model is loaded.' }, 'the last one');
    ok(textOf(chat.messages[1]), 'an answer');
    ok(!chat.messages[1].parts.some(({ type }) => type.startsWith('data-')), 'none in the message');
    await model.dispose();
  },
  'Chat: stop during the download': async ({ entry, source }) => {
    const model = entry.gemmaWasm.languageModel(source, { threads: 1, cache: false });
    const chat = chatOf(/** @type {any} */ ({ entry, model }));
    const sent = chat.sendMessage({ text: 'Hello' });
    while ((await model.availability()) !== 'downloading') await new Promise((go) => setTimeout(go, 1));
    await chat.stop();
    await sent;
    equal([chat.status, chat.messages.length], ['ready', 1], 'state');
    await model.dispose();
    equal(model.getContextWindow(), undefined, 'no model');
  },
  'Chat: a load that fails': async ({ entry, source }) => {
    const model = entry.gemmaWasm.languageModel(`${source}.missing`);
    const chat = chatOf(/** @type {any} */ ({ entry, model }));
    await chat.sendMessage({ text: 'Hello' });
    equal(chat.status, 'error', 'state');
    ok(chat.error instanceof entry.ModelError, String(chat.error));
  },
  'Chat: tools that the agent runs': async (given) => {
    const digit = z.number().int().min(0).max(9);
    const add = tool({ inputSchema: z.object({ a: digit, b: digit }), execute: ({ a, b }) => ({ sum: a + b }) });
    const settings = {
      tools: { add },
      toolChoice: 'required',
      stopWhen: stepCountIs(2),
      maxOutputTokens: 400,
      seed: 5,
    };
    const chat = chatOf(given, settings);
    await chat.sendMessage({ text: 'What is 2 + 3?' });
    const calls = /** @type {any[]} */ (chat.messages[1].parts.filter(({ type }) => type === 'tool-add'));
    ok(calls.length > 1 && calls.every(({ state }) => state === 'output-available'), JSON.stringify(calls));
    ok(
      calls.every(({ input, output }) => output.sum === input.a + input.b),
      'sums',
    );
  },
  'Chat: tools that the page runs': async (given) => {
    const ask = tool({ inputSchema: z.object({ what: z.enum(['name', 'age']) }) });
    let rounds = 0;
    const settings = {
      tools: { ask },
      stopWhen: stepCountIs(1),
      maxOutputTokens: 400,
      seed: 5,
      prepareCall: (/** @type {any} */ call) => ({
        ...call,
        toolChoice: rounds++ ? 'none' : 'required',
        maxOutputTokens: rounds > 1 ? 8 : 400,
      }),
    };
    const chat = chatOf(given, settings, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall(/** @type {any} */ { toolCall }) {
        void chat.addToolOutput({ tool: 'ask', toolCallId: toolCall.toolCallId, output: 'Li' });
      },
    });
    await chat.sendMessage({ text: 'Who am I?' });
    while (rounds < 2 || chat.status !== 'ready') await new Promise((go) => setTimeout(go, 5));
    const { parts } = chat.messages[1];
    ok(
      parts.some((part) => part.type === 'tool-ask' && /** @type {any} */ (part).output === 'Li'),
      'the output',
    );
    ok(textOf(chat.messages[1]), 'an answer');
  },
};
