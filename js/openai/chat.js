/* chat: implements the endpoint POST /v1/chat/completions. */
/** @import { Answer, AnswerEvent, FunctionCall, Step } from './answer.js' */
/** @import { Context } from './context.js' */
import { allOf, chunksOf, eventsOf, finishOf, usageOf } from './answer.js';
import { newId } from '../answer-parts.js';
import { unixTime } from './context.js';
import { notTheAssistants } from './errors.js';
import { chatLogprobs } from './logprobs.js';
import { messagesOf } from './messages.js';
import {
  COMMON,
  commonOptions,
  field,
  fieldsOf,
  formatOf,
  isBoolean,
  isInteger,
  logprobsOf,
  required,
  seedsOf,
  thinkingOf,
  toolsOf,
} from './options.js';
import { eventStream } from './sse.js';

const KNOWN = COMMON.concat(
  'messages max_tokens max_completion_tokens logprobs top_logprobs'.split(' '),
  'response_format tools tool_choice parallel_tool_calls reasoning_effort thinking continue_final_message'.split(' '),
);

/** Handles POST /v1/chat/completions. @param {Context} context */
export async function chatCompletions(context) {
  const body = fieldsOf(context.body, KNOWN);
  required(body, 'messages');
  const messages = conversationOf(body);
  const { parallel, ...tools } = toolsOf(body);
  const { stream, count, seed, usage, options } = commonOptions(body);
  const expected = 'an integer between 0 and 1048576';
  const maxTokens = field(body, 'max_completion_tokens', expected, isInteger(0, 2 ** 20), body.max_tokens);
  const { id, model } = await context.models.get(body.model);
  const all = {
    ...options,
    ...tools,
    maxTokens: maxTokens ?? model.info.contextLength,
    logprobs: logprobsOf(body),
    format: formatOf(body.response_format),
    thinking: body.thinking ?? thinkingOf(body.reasoning_effort, model.info),
    signal: context.signal,
  };
  // All n answers are queued together, so that no other request evaluates another prompt between them.
  const answers = seedsOf(seed, count).map((seed) => {
    return eventsOf(model.generate(messages, { ...all, seed }), !parallel);
  });
  const head = { id: newId('chatcmpl-'), created: unixTime(), model: id };
  if (stream) {
    const chunk = { ...head, object: 'chat.completion.chunk' };
    return eventStream(chunksOf(answers, chunk, { usage, count }, choicesOf), context);
  }
  const done = await allOf(answers);
  const choices = done.map(choiceOf);
  return Response.json({ ...head, object: 'chat.completion', choices, usage: usageOf(done, count) });
}

/** Returns the messages of a request. With `continue_final_message`, the last message is the beginning of the answer.
 * @param {Record<string, any>} body */
function conversationOf(body) {
  const messages = messagesOf(body.messages);
  const name = 'continue_final_message';
  if (!field(body, name, 'true or false', isBoolean, false)) return messages;
  const last = messages[messages.length - 1];
  if (last.role === 'assistant') return [...messages.slice(0, -1), { ...last, prefix: true }];
  throw notTheAssistants(name);
}

/** Returns one element of `choices` of a chat completion. @param {Answer} answer @param {number} index */
export function choiceOf(answer, index) {
  const { result, calls, logprobs } = answer;
  const message = {
    role: /** @type {const} */ ('assistant'),
    content: calls.length && !result.text ? null : result.text,
    refusal: null,
    ...(result.thoughts && { reasoning_content: result.thoughts }),
    ...(calls.length && { tool_calls: calls.map(callOf) }),
  };
  return { index, message, logprobs: chatLogprobs(logprobs), finish_reason: finishOf(answer) };
}

/** @param {FunctionCall} call */
function callOf({ id, ...rest }) {
  return { id, type: /** @type {const} */ ('function'), function: rest };
}

/** @param {Step} step */
function* choicesOf({ index, first, event, answer }) {
  const base = { index, logprobs: null, finish_reason: null };
  const content = !event || event.kind === 'text' ? '' : null;
  if (first) yield { ...base, delta: { role: 'assistant', content, refusal: null } };
  if (event) yield { ...base, ...deltaOf(event) };
  if (answer) yield { ...base, delta: {}, finish_reason: finishOf(answer) };
}

/** Returns the fields of a chunk's choice for an event of the answer. @param {AnswerEvent} event */
export function deltaOf(event) {
  if (event.kind === 'text') return { delta: { content: event.text }, logprobs: chatLogprobs(event.logprobs) };
  if (event.kind === 'thought') return { delta: { reasoning_content: event.text } };
  const { index } = event;
  if (event.kind === 'arguments') return { delta: { tool_calls: [{ index, function: { arguments: event.text } }] } };
  const { id, name } = event;
  return { delta: { tool_calls: [{ index, ...callOf({ id, name, arguments: '' }) }] } };
}
