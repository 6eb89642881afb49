/* chat: POST /v1/chat/completions. */
/** @import { FinishReason } from '../protocol.js' */
/** @import { Answer, AnswerEvent } from './answer.js' */
/** @import { Context } from './context.js' */
import { eventsOf } from './answer.js';
import { newId, unixTime } from './context.js';
import { messagesOf } from './messages.js';
import { COMMON, commonOptions, fieldsOf, formatOf, logprobsOf, required, seedsOf, toolsOf } from './options.js';
import { eventStream, sseEvent } from './sse.js';

const KNOWN = COMMON.concat(
  'messages max_tokens max_completion_tokens logprobs top_logprobs'.split(' '),
  'response_format tools tool_choice parallel_tool_calls reasoning_effort'.split(' '),
);

/** @typedef {AsyncGenerator<AnswerEvent, Answer, undefined>} Events */

/** POST /v1/chat/completions. @param {Context} context */
export async function chatCompletions(context) {
  const body = fieldsOf(context.body, KNOWN);
  required(body, 'messages');
  const messages = messagesOf(body.messages);
  const { parallel, ...tools } = toolsOf(body);
  const { stream, count, seed, usage, options } = commonOptions(body);
  const { id, model } = await context.models.get(body.model);
  const all = {
    ...options,
    ...tools,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? model.info.contextLength,
    logprobs: logprobsOf(body),
    format: formatOf(body.response_format),
    signal: context.signal,
  };
  // All are queued at once, so that no other request evaluates another prompt between them.
  const answers = seedsOf(seed, count).map((seed) => {
    return eventsOf(model.generate(messages, { ...all, seed }), !parallel);
  });
  const head = { id: newId('chatcmpl-'), created: unixTime(), model: id };
  if (stream) return eventStream(chunks(answers, head, usage), context);
  const done = [];
  for (const events of answers) done.push(await lastOf(events));
  const choices = done.map(choiceOf);
  return Response.json({ ...head, object: 'chat.completion', choices, usage: usageOf(done) });
}

/** Yields the chunks of answers, one answer after the other.
 * @param {Events[]} answers @param {{ id: string, created: number, model: string }} head
 * @param {boolean} usage whether to end with token counts */
async function* chunks(answers, head, usage) {
  const chunk = (/** @type {object[]} */ choices, /** @type {object | null} */ counts = null) =>
    sseEvent({ ...head, object: 'chat.completion.chunk', choices, ...(usage && { usage: counts }) });
  const done = [];
  for (const [index, events] of answers.entries()) {
    const choice = (/** @type {object} */ delta, /** @type {string | null} */ reason = null) =>
      chunk([{ index, delta, logprobs: null, finish_reason: reason }]);
    for (let begun = false; ; begun = true) {
      const next = await events.next();
      if (!begun) yield choice(firstDelta(next));
      if (!next.done) {
        yield choice(deltaOf(next.value));
        continue;
      }
      const { result, calls } = next.value;
      done.push(next.value);
      yield choice({}, finishOf(result.finishReason, calls.length > 0));
      break;
    }
  }
  if (usage) yield chunk([], usageOf(done));
  yield sseEvent('[DONE]');
}

/** Returns the delta before the first event of an answer. @param {IteratorResult<AnswerEvent>} event */
function firstDelta({ done, value }) {
  return { role: 'assistant', content: !done && value.kind === 'call' ? null : '', refusal: null };
}

/** @param {AnswerEvent} event */
function deltaOf(event) {
  if (event.kind === 'text') return { content: event.text };
  const { index } = event;
  if (event.kind === 'arguments') return { tool_calls: [{ index, function: { arguments: event.text } }] };
  const { id, name } = event;
  return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
}

/** @template T @param {AsyncGenerator<unknown, T, undefined>} events */
async function lastOf(events) {
  for (let next; ; ) if ((next = await events.next()).done) return next.value;
}

/** @param {Answer} answer @param {number} index */
function choiceOf({ result, calls }, index) {
  const message = {
    role: 'assistant',
    content: calls.length && !result.text ? null : result.text,
    refusal: null,
    ...(calls.length && { tool_calls: calls.map(({ id, ...rest }) => ({ id, type: 'function', function: rest })) }),
  };
  return { index, message, logprobs: null, finish_reason: finishOf(result.finishReason, calls.length > 0) };
}

/** Returns OpenAI's reason. An answer that is limited to one call is aborted after it.
 * @param {FinishReason} reason @param {boolean} calls */
export function finishOf(reason, calls) {
  if (calls && /^(tool-calls|aborted)$/.test(reason)) return 'tool_calls';
  return /^(length|context)$/.test(reason) ? 'length' : 'stop';
}

/** Returns the token counts of answers to one prompt. @param {Answer[]} answers */
export function usageOf(answers) {
  const [{ promptTokens, reusedTokens }] = answers.map(({ result }) => result.usage);
  const completion = answers.reduce((sum, { result }) => sum + result.usage.completionTokens, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completion,
    total_tokens: promptTokens + completion,
    prompt_tokens_details: { cached_tokens: reusedTokens },
  };
}
