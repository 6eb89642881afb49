/* options: converts fields of OpenAI's requests to options of the package, and lists the fields that are ignored or
 * rejected. */
/** @import { GenerateOptions, ToolDemand } from '../options.js' */
import { thinkingFor } from '../answer-parts.js';
import {
  choiceWithoutTools,
  logprobsOff,
  missingField,
  unknownField,
  unsupportedChoice,
  unsupportedField,
  unsupportedFormat,
  unsupportedTool,
  wrongField,
  wrongValue,
} from './errors.js';

/** Sampling options of the package, by the names of request fields. OpenAI's API lacks `top_k`, `min_p`, `typical_p`
 * and `repetition_penalty`.
 * @type {Record<string, keyof GenerateOptions>} */
const SAMPLING = {
  temperature: 'temperature',
  top_p: 'topP',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  top_k: 'topK',
  min_p: 'minP',
  typical_p: 'typicalP',
  repetition_penalty: 'repetitionPenalty',
};

/** Request fields that are accepted and ignored: labels, and hints for OpenAI's service. */
const IGNORED =
  'user metadata safety_identifier service_tier prompt_cache_key prompt_cache_retention prompt_cache_options prediction verbosity';
/** Unsupported request fields, with functions that return whether a value turns the feature off. Other values are
 * rejected.
 * @type {Record<string, (value: any) => boolean>} */
const REFUSED = {
  store: (value) => value === false,
  modalities: (value) => String(value) === 'text',
  audio: () => false,
  web_search_options: () => false,
  moderation: () => false,
  background: (value) => value === false,
  conversation: () => false,
  prompt: () => false,
  context_management: () => false,
  access_programs: () => false,
  image: () => false,
  functions: () => false,
  function_call: () => false,
  suffix: (value) => value === '',
};

/** Names of the fields that all text-generating endpoints share. */
export const COMMON = [...Object.keys(SAMPLING), ...'model stream stream_options n seed stop logit_bias'.split(' ')];

/** Returns the fields that have a value. Rejects fields that are unknown or not supported.
 * @param {Record<string, any>} body @param {string[]} known @returns {Record<string, any>} */
export function fieldsOf(body, known) {
  const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  for (const [name, value] of given) {
    if (known.includes(name) || IGNORED.split(' ').includes(name)) continue;
    if (!Object.hasOwn(REFUSED, name)) throw unknownField(name);
    if (!REFUSED[name](value)) throw unsupportedField(name);
  }
  return Object.fromEntries(given);
}

/** Throws the error for a missing field. @param {Record<string, any>} body @param {string} name */
export function required(body, name) {
  if (body[name] === undefined) throw missingField(name);
}

/** Returns the value of a field, or `standard` if it is missing. Throws if the value is wrong. @template T
 * @param {Record<string, any>} body @param {string} name @param {string} expected completes "must be …"
 * @param {(value: any) => boolean} fits @param {T} standard @returns {T} */
export function field(body, name, expected, fits, standard) {
  const value = body[name] ?? standard;
  if (value === standard || fits(value)) return value;
  throw wrongField(name, expected, value);
}

/** Returns whether a value is true or false. @param {any} value */
export const isBoolean = (value) => typeof value === 'boolean';
/** Returns a function that tests whether a value is an integer from `least` to `most`.
 * @param {number} least @param {number} most @returns {(value: any) => boolean} */
export const isInteger = (least, most) => (value) => Number.isInteger(value) && value >= least && value <= most;

/** Returns the options from the fields that all text-generating endpoints share. @param {Record<string, any>} body */
export function commonOptions(body) {
  const stream = field(body, 'stream', 'true or false', isBoolean, false);
  const count = field(body, 'n', 'an integer between 1 and 128', isInteger(1, 128), 1);
  const seed = field(body, 'seed', 'an integer', Number.isInteger, /** @type {number | undefined} */ (undefined));
  const sampling = Object.entries(SAMPLING).map(([name, option]) => [option, body[name]]);
  const options = /** @type {GenerateOptions} */ ({
    ...Object.fromEntries(sampling),
    stop: body.stop?.length === 0 ? undefined : body.stop,
    logitBias: body.logit_bias,
  });
  const { include_usage: usage = false } = body.stream_options ?? {};
  return { stream, count, seed, usage: Boolean(usage), options };
}

/** Returns consecutive seeds for n answers, so that a repeated request gets the same answers. Seeds wrap around at 32
 * bits. @param {number | undefined} seed @param {number} count */
export function seedsOf(seed, count) {
  const size = 2 ** 32;
  return Array.from({ length: count }, (_, i) =>
    seed === undefined ? undefined : (((seed + i) % size) + size) % size,
  );
}

/** Returns how many alternatives to report for each token; undefined if log probabilities are not requested.
 * @param {Record<string, any>} body */
export function logprobsOf(body) {
  const asked = field(body, 'logprobs', 'true or false', isBoolean, false);
  const top = field(body, 'top_logprobs', 'an integer between 0 and 20', isInteger(0, 20), 0);
  if (top && !asked) throw logprobsOff();
  return asked ? top : undefined;
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Returns the option `thinking` for a reasoning effort. Models that do not think ignore the effort.
 * @param {unknown} effort @param {{ thinking: boolean }} info
 * @param {string} [path] name of the field, for messages @returns {GenerateOptions['thinking']} */
export function thinkingOf(effort, info, path = 'reasoning_effort') {
  if (effort === undefined || effort === null) return undefined;
  if (!EFFORTS.includes(String(effort))) throw wrongField(path, `one of ${EFFORTS.join(', ')}`, effort);
  return thinkingFor(String(effort), info);
}

/** Returns the option `format` for a response format. `json_schema` without a schema allows any object. In the
 * Responses API, the schema is beside `type`.
 * @param {any} format @param {string} [path] name of the field, for messages @returns {GenerateOptions['format']} */
export function formatOf(format, path = 'response_format') {
  const { type, json_schema: described } = format ?? {};
  if (format === undefined || type === 'text') return undefined;
  if (type === 'json_object') return { schema: { type: 'object' } };
  if (type !== 'json_schema') throw unsupportedFormat(type, path);
  const { schema = { type: 'object' } } = described ?? format;
  if (typeof schema === 'object' && schema) return { schema };
  const schemaPath = `${path}${described ? '.json_schema' : ''}.schema`;
  throw wrongValue(schemaPath, 'a JSON Schema', schema, path);
}

/** Returns the options `tools` and `toolChoice`, and `parallel`: whether an answer may have several calls.
 * @param {Record<string, any>} body */
export function toolsOf(body) {
  const list = field(body, 'tools', 'an array', Array.isArray, /** @type {any[]} */ ([]));
  const parallel = field(body, 'parallel_tool_calls', 'true or false', isBoolean, true);
  const tools = list.map((tool, i) => functionOf(tool, `tools[${i}]`));
  return { parallel, ...chosen(tools, body.tool_choice) };
}

/** @param {any} tool @param {string} path */
function functionOf(tool, path) {
  const { type, function: described } = tool ?? {};
  if (type !== 'function') throw unsupportedTool(type, `${path}.type`);
  const { name, description, parameters } = described ?? {};
  return { name, description: description ?? undefined, parameters: parameters ?? undefined };
}

/** @param {{ name: string }[]} tools @param {any} choice
 * @returns {Pick<GenerateOptions, 'tools' | 'toolChoice'>} */
function chosen(tools, choice) {
  if (choice === undefined) return tools.length ? { tools } : {};
  if (!tools.length) {
    if (choice === 'none' || choice === 'auto') return {};
    throw choiceWithoutTools();
  }
  if (typeof choice === 'string') return { tools, toolChoice: /** @type {'auto'} */ (choice) };
  const { type, function: only, allowed_tools: allowed } = choice;
  if (type === 'function') return { tools, toolChoice: /** @type {ToolDemand} */ ({ name: only?.name }) };
  if (type !== 'allowed_tools') throw unsupportedChoice(type);
  const names = allowed?.tools?.map?.((/** @type {any} */ one) => one?.function?.name) ?? [];
  return chosen(
    tools.filter(({ name }) => names.includes(name)),
    allowed?.mode ?? 'auto',
  );
}
