/* ollama-request: translates fields of Ollama's requests into prompts and options of the package. */
/** @import { GenerateOptions } from '../options.js' */
/** @import { ChatMessage, ModelInfo } from '../protocol.js' */
import { show } from '../errors.js';
import { RequestError } from '../openai/errors.js';

/** Options of the package by Ollama's names. */
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
/** Options that Ollama's clients send and that change nothing here: they configure its engine, or are fixed when a
 * model is loaded. */
const IGNORED = new Set(
  (
    'num_ctx num_batch num_gpu main_gpu num_thread num_keep numa low_vram f16_kv logits_all vocab_only use_mmap ' +
    'use_mlock embedding_only penalize_newline draft_num_predict'
  ).split(' '),
);

/** @param {string} message a sentence */
export const wrong = (message) => new RequestError(400, message);

/** Throws if a field has a value. @param {any} body @param {string[]} names @param {string} remedy a sentence */
export function checkAbsent(body, names, remedy) {
  for (const name of names) {
    const value = body[name];
    const isEmpty = value === undefined || value === null || value === '' || (Array.isArray(value) && !value.length);
    if (!isEmpty) throw wrong(`\`${name}\` is not supported. ${remedy}`);
  }
}

/** Returns options of the package. @param {any} body @param {ModelInfo} info @returns {GenerateOptions} */
export function optionsOf(body, { contextLength }) {
  const { options = {}, format, logprobs, top_logprobs: top = 0 } = body;
  if (typeof options !== 'object') throw wrong('`options` must be an object.');
  /** Until the context is full, as Ollama does. @type {Record<string, any>} */
  const found = { maxTokens: contextLength };
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === null || IGNORED.has(name)) continue;
    if (!Object.hasOwn(OPTIONS, name)) {
      throw wrong(`There is no option ${show(name)}. The options are ${Object.keys(OPTIONS).join(', ')}.`);
    }
    found[OPTIONS[/** @type {keyof typeof OPTIONS} */ (name)]] = value;
  }
  // Negative values stand for the context's length, or for a random seed.
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
  throw wrong(`\`format\` must be "json" or a JSON schema (got ${show(format)}).`);
}

/** Returns tools in OpenAI's form, without fields that only Ollama has. @param {any} tools */
export function toolsOf(tools) {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw wrong('`tools` must be an array.');
  return tools.map((tool) => {
    const { name, description, parameters } = tool?.function ?? {};
    return { type: /** @type {const} */ ('function'), function: { name, description, parameters } };
  });
}

/** Returns messages of the package. @param {any} messages @returns {ChatMessage[]} */
export function messagesOf(messages) {
  if (!Array.isArray(messages)) throw wrong('`messages` must be an array.');
  /** Tools of the last answer whose results have not come. @type {string[]} */
  let called = [];
  return messages.map((message) => {
    const { role, content = '', thinking, tool_calls: calls, tool_name: name, tool_call_id: id } = message ?? {};
    checkAbsent(message ?? {}, ['images'], 'Models take text only.');
    if (typeof content !== 'string') throw wrong('The `content` of a message must be a string.');
    if (role === 'tool') return { role, content, id, name: name ?? (id === undefined ? called.shift() : undefined) };
    const said = { role, content, ...(thinking && { thoughts: thinking }) };
    if (!calls?.length) return said;
    const toolCalls = callsOf(calls);
    called = toolCalls.map((call) => call.name);
    return { ...said, toolCalls };
  });
}

/** @param {any} calls */
function callsOf(calls) {
  if (!Array.isArray(calls)) throw wrong('`tool_calls` must be an array.');
  return calls.map(({ id, function: called }) => ({ id, name: called?.name, arguments: called?.arguments ?? {} }));
}
