/* tools: the AI SDK's tool calls, steps and agents. */
import {
  ToolLoopAgent,
  createAgentUIStream,
  dynamicTool,
  generateText,
  hasToolCall,
  isStepCount,
  readUIMessageStream,
  stepCountIs,
  streamText,
  tool,
} from 'ai';
import { z } from 'zod';
import { equal, listOf, ok } from '../checks.js';

const digit = z.number().int().min(0).max(9);
const inputSchema = z.object({ a: digit, b: digit });
const add = tool({ description: 'Adds two digits', inputSchema, execute: async ({ a, b }) => ({ sum: a + b }) });
const say = tool({ inputSchema: z.object({ what: z.string().max(6) }) });
const LIMITS = { maxOutputTokens: 400, seed: 5 };
const CALL = { prompt: 'What is 2 + 3?', ...LIMITS };
const REQUIRED = /** @type {const} */ ({ toolChoice: 'required' });

/** @type {import('./given.js').Calls} */
export const TOOLS = {
  'tools: execute': async ({ model }) => {
    const result = await generateText({ model, ...CALL, ...REQUIRED, tools: { add } });
    ok(result.toolCalls.length > 0 && result.finishReason === 'tool-calls', result.finishReason);
    const sums = result.toolCalls.map(({ input }) => ({
      sum: inputSchema.parse(input).a + inputSchema.parse(input).b,
    }));
    equal(
      result.toolResults.map(({ output }) => output),
      sums,
      'results',
    );
  },
  'tools: several steps, up to a limit': async ({ model }) => {
    const call = { model, ...CALL, ...REQUIRED, tools: { add } };
    const { steps, responseMessages } = await generateText({ ...call, stopWhen: stepCountIs(3) });
    equal(steps.length, 3, 'steps');
    equal(
      responseMessages.map(({ role }) => role),
      ['assistant', 'tool', 'assistant', 'tool', 'assistant', 'tool'],
      'messages',
    );
    const ids = steps.flatMap(({ toolCalls }) => toolCalls.map(({ toolCallId }) => toolCallId));
    equal(new Set(ids).size, ids.length, 'unique ids');
    ok(Number(steps[2].usage.inputTokens) > Number(steps[0].usage.inputTokens), 'results are in the prompt');
  },
  'tools: a step that answers results with text': async ({ model }) => {
    const { steps, text } = await generateText({
      model,
      ...CALL,
      ...REQUIRED,
      tools: { add },
      maxOutputTokens: 60,
      stopWhen: isStepCount(2),
      prepareStep: ({ stepNumber }) => (stepNumber ? { toolChoice: 'none' } : {}),
    });
    equal([steps.length, steps[0].text, steps[1].toolCalls], [2, '', []], 'steps');
    ok(text, 'words');
  },
  'tools: hasToolCall': async ({ model }) => {
    const call = { model, ...CALL, ...REQUIRED, tools: { add } };
    equal((await generateText({ ...call, stopWhen: hasToolCall('add') })).steps.length, 1, 'steps');
  },
  'tools: toolChoice with a name': async ({ model }) => {
    const toolChoice = /** @type {const} */ ({ type: 'tool', toolName: 'say' });
    const { toolCalls } = await generateText({ model, ...CALL, tools: { add, say }, toolChoice });
    equal([toolCalls.length, toolCalls[0].toolName], [1, 'say'], 'calls');
  },
  "tools: toolChoice 'none'": async ({ model }) => {
    const result = await generateText({ model, ...CALL, maxOutputTokens: 12, tools: { add }, toolChoice: 'none' });
    equal([result.toolCalls, Boolean(result.text)], [[], true], 'calls and text');
  },
  'tools: activeTools': async ({ model }) => {
    const call = { model, ...CALL, ...REQUIRED, tools: { add, say } };
    const { toolCalls } = await generateText({ ...call, activeTools: ['say'] });
    ok(toolCalls.length && toolCalls.every(({ toolName }) => toolName === 'say'), 'calls');
  },
  'tools: without execute, results in the next call': async ({ model }) => {
    const messages = [{ role: /** @type {const} */ ('user'), content: 'Say a word' }];
    const call = { model, ...LIMITS, ...REQUIRED, tools: { say } };
    const first = await generateText({ ...call, messages });
    equal(first.toolResults, [], 'results');
    const content = first.toolCalls.map(({ toolCallId, toolName }) => ({
      type: /** @type {const} */ ('tool-result'),
      toolCallId,
      toolName,
      output: { type: /** @type {const} */ ('json'), value: { said: true } },
    }));
    const said = [...messages, ...first.response.messages, { role: /** @type {const} */ ('tool'), content }];
    const next = await generateText({ ...call, messages: said });
    ok(next.toolCalls.length > 0, 'calls');
    ok(Number(next.usage.inputTokens) > Number(first.usage.inputTokens) + 10, 'the results are in the prompt');
  },
  'tools: the input streams as JSON': async ({ model }) => {
    const parts = await listOf(streamText({ model, ...CALL, ...REQUIRED, tools: { say } }).stream);
    const calls = parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    ok(calls.length > 0, 'calls');
    for (const { toolCallId, input } of calls) {
      const deltas = parts.flatMap((p) => (p.type === 'tool-input-delta' && p.id === toolCallId ? [p.delta] : []));
      ok(deltas.length > 1, 'several deltas');
      equal(deltas.join(''), JSON.stringify(input), 'the input');
    }
  },
  'tools: onInputStart, onInputDelta and onInputAvailable': async ({ model }) => {
    /** @type {string[]} */
    const called = [];
    const watched = dynamicTool({
      inputSchema,
      execute: async () => null,
      onInputStart: () => void called.push('start'),
      onInputDelta: () => void (called.at(-1) === 'delta' || called.push('delta')),
      onInputAvailable: () => void called.push('available'),
    });
    const toolChoice = /** @type {const} */ ({ type: 'tool', toolName: 'watched' });
    await listOf(streamText({ model, ...CALL, tools: { watched }, toolChoice }).stream);
    equal(called, ['start', 'delta', 'available'], 'callbacks');
  },
  'tools: an error of execute is sent to the model': async ({ model }) => {
    const failing = dynamicTool({
      inputSchema,
      execute: async () => {
        throw new Error('Out of order.');
      },
    });
    const call = { model, ...CALL, ...REQUIRED, tools: { failing } };
    const { steps } = await generateText({ ...call, stopWhen: stepCountIs(2) });
    ok(
      steps[0].content.some((part) => part.type === 'tool-error' && /Out of order/.test(String(part.error))),
      'a tool error',
    );
    equal(steps.length, 2, 'steps');
  },
  'tools: dynamicTool': async ({ model }) => {
    const lookUp = dynamicTool({ description: 'Looks up', inputSchema, execute: async () => 'nothing' });
    const { toolCalls } = await generateText({ model, ...CALL, ...REQUIRED, tools: { lookUp } });
    ok(toolCalls.length && toolCalls.every(({ dynamic }) => dynamic), 'dynamic calls');
  },
  'tools: a provider tool is refused with a warning': async ({ model }) => {
    /** @type {any} */
    const search = { type: 'provider', id: 'other.search', args: {}, isProviderExecuted: true, inputSchema };
    const { warnings } = await generateText({ model, ...CALL, maxOutputTokens: 4, tools: { search } });
    equal(warnings, [{ type: 'unsupported', feature: 'the tool search' }], 'warnings');
  },
  'ToolLoopAgent: generate': async ({ model }) => {
    const settings = { model, ...LIMITS, ...REQUIRED, tools: { add }, stopWhen: stepCountIs(2) };
    const agent = new ToolLoopAgent({ ...settings, instructions: 'Add.' });
    const { steps } = await agent.generate({ prompt: 'What is 2 + 3?' });
    equal(steps.length, 2, 'steps');
    ok(steps[1].toolResults.length > 0, 'results');
  },
  'ToolLoopAgent: stream': async ({ model }) => {
    const agent = new ToolLoopAgent({ model, maxOutputTokens: 12, seed: 7 });
    const { text } = await generateText({ model, prompt: 'Hello', maxOutputTokens: 12, seed: 7 });
    const result = await agent.stream({ prompt: 'Hello' });
    equal((await listOf(result.textStream)).join(''), text, 'text');
  },
  createAgentUIStream: async ({ model }) => {
    const agent = new ToolLoopAgent({ model, ...LIMITS, ...REQUIRED, tools: { add }, stopWhen: stepCountIs(1) });
    const uiMessages = [{ id: '1', role: 'user', parts: [{ type: 'text', text: 'What is 2 + 3?' }] }];
    const messages = await listOf(readUIMessageStream({ stream: await createAgentUIStream({ agent, uiMessages }) }));
    const states = messages
      .flatMap(({ parts }) => parts.map((part) => /** @type {any} */ (part).state))
      .filter(Boolean);
    for (const state of ['input-streaming', 'input-available', 'output-available']) ok(states.includes(state), state);
  },
};
