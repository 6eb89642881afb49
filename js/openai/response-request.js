/* response-request: converts the body of POST /v1/responses to the package's form, and creates the response object,
 * which repeats fields of the body. */
/** @import { Model } from '../model.js' */
/** @import { GenerateOptions } from '../options.js' */
/** @import { ChatMessage } from '../protocol.js' */
/** @import { Item, ResponseStore } from './response-store.js' */
import { newId } from '../answer-parts.js';
import { unixTime } from './context.js';
import { hostedTool, logprobsNotIncluded, unknownPrevious, unsupportedInclude, wrongPart } from './errors.js';
import {
  COMMON,
  commonOptions,
  field,
  fieldsOf,
  formatOf,
  isBoolean,
  isInteger,
  required,
  seedsOf,
  thinkingOf,
  toolsOf,
} from './options.js';
import { isObject, itemsOf, messagesOf } from './response-items.js';

const KNOWN = COMMON.filter((name) => name !== 'n').concat(
  'input instructions previous_response_id include truncation store metadata text reasoning'.split(' '),
  'max_output_tokens max_tool_calls top_logprobs tools tool_choice parallel_tool_calls'.split(' '),
);
/** Values that the request field `include` may have. All but the first are accepted without effect: they belong to
 * OpenAI's own tools and to hidden reasoning.
 * @type {string[]} */
const INCLUDABLE = [
  'message.output_text.logprobs',
  'reasoning.encrypted_content',
  'message.input_image.image_url',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'code_interpreter_call.outputs',
];

/** A checked request. items: the conversation before the answer, including previous responses; truncates: whether
 * the oldest turns may be left out; parallel: whether the answer may have several calls.
 * @typedef {{ body: Record<string, any>, items: Item[], messages: ChatMessage[],
 *   stream: boolean, store: boolean, truncates: boolean, parallel: boolean,
 *   options: GenerateOptions }} ResponseRequest */

/** Checks a request and converts it. @param {Record<string, any>} given @param {ResponseStore} stored
 * @returns {ResponseRequest} */
export function requestOf(given, stored) {
  const body = fieldsOf(given, KNOWN);
  required(body, 'input');
  field(body, 'metadata', 'an object of at most 16 strings', isMetadata, {});
  const { stream, seed, options } = commonOptions(body);
  const { parallel, ...tools } = toolsOf({ ...body, tools: chatTools(body.tools), tool_choice: chatChoice(body) });
  const items = [...earlierItems(body, stored), ...itemsOf(body.input, stored)];
  if (!items.length) throw wrongPart('input', 'at least one item');
  const instructions = field(body, 'instructions', 'a string', isString, /** @type {string | null} */ (null));
  const text = field(body, 'text', 'an object', isObject, /** @type {any} */ ({}));
  const [first] = seedsOf(seed, 1);
  return {
    body,
    items,
    messages: messagesOf(items, instructions),
    stream,
    truncates: truncationOf(body) === 'auto',
    store: field(body, 'store', 'true or false', isBoolean, true),
    parallel,
    options: {
      ...options,
      ...tools,
      seed: first,
      maxTokens: field(body, 'max_output_tokens', 'a positive integer', isPositive, /** @type {any} */ (undefined)),
      logprobs: logprobsOf(body),
      format: formatOf(text.format ?? undefined, 'text.format'),
    },
  };
}

/** @param {any} value */
const isString = (value) => typeof value === 'string';
/** @param {any} value */
const isPositive = (value) => Number.isInteger(value) && value > 0;
/** @param {any} value */
const isMetadata = (value) =>
  isObject(value) && Object.keys(value).length <= 16 && Object.values(value).every((text) => typeof text === 'string');

/** @param {Record<string, any>} body */
function truncationOf(body) {
  const isKnown = (/** @type {any} */ value) => value === 'auto' || value === 'disabled';
  return field(body, 'truncation', "'auto' or 'disabled'", isKnown, /** @type {string} */ ('disabled'));
}

/** @param {Record<string, any>} body @param {ResponseStore} stored */
function earlierItems(body, stored) {
  const id = field(body, 'previous_response_id', 'a string', isString, null);
  if (id === null) return [];
  const previous = stored.get(id);
  if (previous) return [...previous.input, ...previous.response.output];
  throw unknownPrevious(id);
}

/** Returns the tools of a request in the form of chat completions. @param {any} tools */
function chatTools(tools) {
  if (!Array.isArray(tools)) return tools;
  return tools.map((tool, i) => {
    const { type, ...rest } = tool ?? {};
    if (type === 'function') return { type, function: rest };
    throw hostedTool(type, `tools[${i}].type`);
  });
}

/** @param {Record<string, any>} body */
function chatChoice({ tool_choice: choice }) {
  if (!isObject(choice)) return choice;
  const { type, name, mode, tools } = choice;
  if (type === 'function') return { type, function: { name } };
  if (type !== 'allowed_tools') return choice;
  const only = Array.isArray(tools) ? tools.map((tool) => ({ type: tool?.type, function: { name: tool?.name } })) : [];
  return { type, allowed_tools: { mode, tools: only } };
}

/** @param {Record<string, any>} body */
function logprobsOf(body) {
  const include = field(body, 'include', 'an array', Array.isArray, /** @type {string[]} */ ([]));
  const unknown = include.find((name) => !INCLUDABLE.includes(name));
  if (unknown !== undefined) throw unsupportedInclude(unknown);
  const top = field(body, 'top_logprobs', 'an integer between 0 and 20', isInteger(0, 20), 0);
  if (include.includes(INCLUDABLE[0])) return top;
  if (!top) return undefined;
  throw logprobsNotIncluded(INCLUDABLE[0]);
}

/** Returns the option `thinking` for a request. @param {Record<string, any>} body @param {Model['info']} info */
export function reasoningOf(body, info) {
  const { effort } = field(body, 'reasoning', 'an object', isObject, /** @type {any} */ ({}));
  return thinkingOf(effort, info, 'reasoning.effort');
}

/** Returns the response object at the beginning of an answer. It repeats the request's fields with the values that are
 * used.
 * @param {ResponseRequest} request @param {string} model id @param {Model['info']} info */
export function responseOf({ body, store, parallel }, model, { defaults }) {
  const { format: given, verbosity = 'medium' } = body.text ?? {};
  const format = given ?? { type: 'text' };
  const { effort = null, summary = null } = body.reasoning ?? {};
  return {
    id: newId('resp_'),
    object: 'response',
    created_at: unixTime(),
    completed_at: /** @type {number | null} */ (null),
    status: 'in_progress',
    background: false,
    error: /** @type {{ code: string, message: string } | null} */ (null),
    incomplete_details: /** @type {{ reason: string } | null} */ (null),
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: body.metadata ?? {},
    model,
    output: /** @type {Item[]} */ ([]),
    parallel_tool_calls: parallel,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort, summary },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
    store,
    temperature: body.temperature ?? defaults.temperature,
    top_p: body.top_p ?? defaults.topP,
    presence_penalty: body.presence_penalty ?? defaults.presencePenalty,
    frequency_penalty: body.frequency_penalty ?? defaults.frequencyPenalty,
    text: {
      format: format.type === 'json_schema' ? { description: null, strict: true, ...format } : format,
      verbosity,
    },
    tool_choice: body.tool_choice ?? 'auto',
    tools: (body.tools ?? []).map((/** @type {any} */ tool) => ({ ...tool, ...describedTool(tool) })),
    top_logprobs: body.top_logprobs ?? 0,
    truncation: truncationOf(body),
    usage: /** @type {object | null} */ (null),
    user: body.user ?? null,
  };
}

/** @param {Record<string, any>} tool */
function describedTool({ description = null, parameters = null, strict }) {
  return { description, parameters, strict: strict ?? true };
}
