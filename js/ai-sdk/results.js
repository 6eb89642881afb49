/* results: converts results of generate() to the AI SDK's form. */
/** @import { GenerateResult } from '../protocol.js' */
/** @import { ContentV4, FinishReasonV4, ProviderOptionsV4, ToolCallV4, UsageV4 } from './specification.js' */
import { KEY } from './options.js';

/** Returns an id that no other call or answer has. @param {string} prefix */
export function newId(prefix) {
  const words = [...crypto.getRandomValues(new Uint32Array(4))];
  return `${prefix}_${words.map((word) => word.toString(16).padStart(8, '0')).join('')}`;
}

/** Returns a call of a tool. @param {string} toolCallId @param {string} toolName @param {unknown} input
 * @returns {ToolCallV4} */
export function callOf(toolCallId, toolName, input) {
  return { type: 'tool-call', toolCallId, toolName, input: JSON.stringify(input) };
}

/** Returns the parts of an answer. @param {GenerateResult} result @param {string} [answerTool] the tool whose arguments
 * are the answer @returns {ContentV4[]} */
export function contentOf({ text, toolCalls = [] }, answerTool) {
  const calls = toolCalls.map(({ name, arguments: args }) => {
    return name === answerTool
      ? { type: /** @type {const} */ ('text'), text: JSON.stringify(args) }
      : callOf(newId('call'), name, args);
  });
  return text ? [{ type: 'text', text }, ...calls] : calls;
}

/** Returns what the SDK reports at the end of an answer. @param {GenerateResult} result @param {string} [answerTool]
 * @returns {{ finishReason: FinishReasonV4, usage: UsageV4, providerMetadata: ProviderOptionsV4 }} */
export function endOf(result, answerTool) {
  const { finishReason: raw, usage, seed, timings, stopSequence, logprobs } = result;
  const { promptTokens: total, reusedTokens: cacheRead, completionTokens } = usage;
  return {
    finishReason: { unified: unifiedReason(result, answerTool), raw },
    usage: {
      inputTokens: { total, noCache: total - cacheRead, cacheRead, cacheWrite: undefined },
      outputTokens: { total: completionTokens, text: completionTokens, reasoning: undefined },
    },
    providerMetadata: {
      [KEY]: { seed, timings, ...(stopSequence && { stopSequence }), ...(logprobs && { logprobs }) },
    },
  };
}

/** @param {GenerateResult} result @param {string} [answerTool] @returns {FinishReasonV4['unified']} */
function unifiedReason({ finishReason, toolCalls = [] }, answerTool) {
  if (finishReason === 'tool-calls') return toolCalls.every(({ name }) => name === answerTool) ? 'stop' : 'tool-calls';
  if (finishReason === 'length' || finishReason === 'context') return 'length';
  return finishReason === 'aborted' ? 'other' : 'stop';
}
