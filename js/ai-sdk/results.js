/* results: converts results of generate() to the AI SDK's form. */
/** @import { GenerateResult } from '../protocol.js' */
/** @import { ContentV4, FinishReasonV4, ProviderOptionsV4, ToolCallV4, UsageV4 } from './specification.js' */
import { newId } from '../answer-parts.js';
import { KEY } from './options.js';

/** Returns a tool call in the SDK's form. @param {string} toolCallId @param {string} toolName @param {unknown} input
 * @returns {ToolCallV4} */
export function callOf(toolCallId, toolName, input) {
  return { type: 'tool-call', toolCallId, toolName, input: JSON.stringify(input) };
}

/** Returns an answer as the SDK's content parts: reasoning, text and tool calls.
 * @param {GenerateResult} result @returns {ContentV4[]} */
export function contentOf({ text, thoughts, toolCalls = [] }) {
  const calls = toolCalls.map(({ name, arguments: args }) => callOf(newId('call_'), name, args));
  return [
    ...(thoughts ? [{ type: /** @type {const} */ ('reasoning'), text: thoughts }] : []),
    ...(text ? [{ type: /** @type {const} */ ('text'), text }] : []),
    ...calls,
  ];
}

/** Returns the finish reason, token counts and metadata of an answer in the SDK's form.
 * @param {GenerateResult} result
 * @returns {{ finishReason: FinishReasonV4, usage: UsageV4, providerMetadata: ProviderOptionsV4 }} */
export function endOf(result) {
  const { usage, seed, timings, stopSequence, logprobs } = result;
  const { promptTokens: total, reusedTokens: cacheRead, completionTokens, thoughtTokens: reasoning = 0 } = usage;
  return {
    finishReason: finishReasonOf(result),
    usage: {
      inputTokens: { total, noCache: total - cacheRead, cacheRead, cacheWrite: undefined },
      outputTokens: { total: completionTokens, text: completionTokens - reasoning, reasoning },
    },
    providerMetadata: {
      [KEY]: { seed, timings, ...(stopSequence && { stopSequence }), ...(logprobs && { logprobs }) },
    },
  };
}

/** Finish reason and token counts of an answer that failed.
 * @type {{ finishReason: FinishReasonV4, usage: UsageV4 }} */
export const FAILED = {
  finishReason: { unified: 'error', raw: 'error' },
  usage: {
    inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: undefined, text: undefined, reasoning: undefined },
  },
};

/** @param {GenerateResult} result @returns {FinishReasonV4} */
function finishReasonOf({ finishReason: raw }) {
  const unified = /** @type {const} */ ({
    stop: 'stop',
    'stop-sequence': 'stop',
    'tool-calls': 'tool-calls',
    length: 'length',
    context: 'length',
    aborted: 'other',
  })[raw];
  return { unified, raw };
}
