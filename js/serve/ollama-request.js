/* ollama-request: translates fields of Ollama's requests into prompts and options of the package. */
/** @import { GenerateOptions } from '../options.js' */
/** @import { ChatMessage, ModelInfo } from '../protocol.js' */
import { alternating } from '../answer-parts.js';
import { textOnly, unknownOption, wrongFormat, wrongType } from './errors.js';

/** Names of the package's options, by their names in Ollama's API. */
export const OPTIONS = /** @type {const} */ ({
  num_predict: 'maxTokens',
  temperature: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  typical_p: 'typicalP',
  repeat_penalty: 'repetitionPenalty',
  repeat_last_n: 'penaltyWindow',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  seed: 'seed',
  stop: 'stop',
});
/** Options of Ollama's API that are accepted and ignored: they configure Ollama's engine, or are fixed here when a
 * model is loaded. */
const IGNORED = new Set(
  (
    'num_ctx num_batch num_gpu main_gpu num_thread num_keep numa low_vram f16_kv logits_all vocab_only use_mmap ' +
    'use_mlock embedding_only penalize_newline draft_num_predict'
  ).split(' '),
);

/** Throws if a request's body has a value in one of the named fields. @param {any} body @param {string[]} names
 * @param {(name: string) => Error} unsupported returns the error */
export function checkAbsent(body, names, unsupported) {
  for (const name of names) {
    const value = body[name];
    const isEmpty = value === undefined || value === null || value === '' || (Array.isArray(value) && !value.length);
    if (!isEmpty) throw unsupported(name);
  }
}

/** Converts the fields of a request into options of generate(). @param {any} body @param {ModelInfo} info
 * @returns {GenerateOptions} */
export function optionsOf(body, { contextLength }) {
  const { options = {}, format, logprobs, top_logprobs: top = 0 } = body;
  if (typeof options !== 'object') throw wrongType('`options`', 'an object');
  /** By default, answers may fill the context, as in Ollama. @type {Record<string, any>} */
  const found = { maxTokens: contextLength };
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === null || IGNORED.has(name)) continue;
    if (!Object.hasOwn(OPTIONS, name)) throw unknownOption(name, Object.keys(OPTIONS));
    found[OPTIONS[/** @type {keyof typeof OPTIONS} */ (name)]] = value;
  }
  // In Ollama's API, a negative `num_predict` or `repeat_last_n` means the context length, and a negative `seed` a
  // random seed.
  if (found.maxTokens < 0) found.maxTokens = contextLength;
  if (found.penaltyWindow < 0) found.penaltyWindow = contextLength;
  if (found.seed < 0) delete found.seed;
  return { ...found, ...formatOf(format), ...(logprobs && { logprobs: top }) };
}

/** @param {any} format */
function formatOf(format) {
  if (format === undefined || format === null || format === '') return {};
  if (format === 'json') return { format };
  if (typeof format === 'object') return { format: { schema: format } };
  throw wrongFormat(format);
}

/** Returns tools in OpenAI's form, without fields that only Ollama's API has. @param {any} tools */
export function toolsOf(tools) {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw wrongType('`tools`', 'an array');
  return tools.map((tool) => {
    const { name, description, parameters } = tool?.function ?? {};
    return { type: /** @type {const} */ ('function'), function: { name, description, parameters } };
  });
}

/** Converts messages of Ollama's API into messages of the package. As Ollama does, joins successive messages with the
 * same role. @param {any} messages @returns {ChatMessage[]} */
export function messagesOf(messages) {
  if (!Array.isArray(messages)) throw wrongType('`messages`', 'an array');
  /** Names of tools that the last answer called and whose results are missing so far. @type {string[]} */
  let called = [];
  const converted = messages.map((message) => {
    const { role, content: given, thinking, tool_calls: calls, tool_name: name, tool_call_id: id } = message ?? {};
    checkAbsent(message ?? {}, ['images'], textOnly);
    const content = given ?? '';
    if (typeof content !== 'string') throw wrongType('The `content` of a message', 'a string');
    if (role === 'tool') return { role, content, id, name: name ?? (id === undefined ? called.shift() : undefined) };
    const said = { role, content, ...(thinking && { thoughts: thinking }) };
    if (!calls?.length) return said;
    const toolCalls = callsOf(calls);
    called = toolCalls.map((call) => call.name);
    return { ...said, toolCalls };
  });
  return alternating(converted);
}

/** @param {any} calls */
function callsOf(calls) {
  if (!Array.isArray(calls)) throw wrongType('`tool_calls`', 'an array');
  return calls.map((call) => ({
    id: call?.id,
    name: call?.function?.name,
    arguments: call?.function?.arguments ?? {},
  }));
}
