/* options: converts call options of the AI SDK to options of generate(), with warnings about unsupported ones. */
/** @import { GenerateOptions, Tool } from '../options.js' */
/** @import { CallOptionsV4, ToolV4, WarningV4 } from './specification.js' */

/** Key of the package's own options and results in `providerOptions` and `providerMetadata`. */
export const KEY = 'gemmaWasm';

/** answerTool: the tool whose arguments are the answer.
 * @typedef {{ options: GenerateOptions, warnings: WarningV4[], answerTool?: string }} Call */

/** Tokens of thoughts by effort. Higher efforts have no limit. @type {Record<string, number>} */
const BUDGETS = { minimal: 64, low: 256, medium: 1024 };

/** Returns the options of a call. @param {CallOptionsV4} call @param {{ thinking: boolean }} info of the model
 * @returns {Call} */
export function optionsOf(call, info) {
  const { tools = [], toolChoice, responseFormat, reasoning = 'provider-default' } = call;
  const warnings = tools.filter(({ type }) => type !== 'function').map(({ name }) => warning(`the tool ${name}`));
  const isEffort = reasoning !== 'provider-default' && reasoning !== 'none';
  if (isEffort && !info.thinking) warnings.push(warning('reasoning'));
  const choice = toolChoice?.type ?? 'auto';
  const offered = choice === 'none' ? [] : tools.filter(({ type }) => type === 'function').map(toolOf);
  const format = responseFormat?.type === 'json' ? formatOf(responseFormat) : undefined;
  const options = {
    maxTokens: call.maxOutputTokens,
    temperature: call.temperature,
    topP: call.topP,
    topK: call.topK,
    presencePenalty: call.presencePenalty,
    frequencyPenalty: call.frequencyPenalty,
    stop: call.stopSequences,
    seed: call.seed,
    thinking: isEffort ? thinkingOf(reasoning, info) : reasoning === 'none' ? false : undefined,
    signal: call.abortSignal,
    ...call.providerOptions?.[KEY],
  };
  if (!offered.length) return { options: format ? { format, ...options } : options, warnings };
  if (choice === 'auto' && format) return { warnings, ...withAnswerTool(options, offered, responseFormat?.schema) };
  const asked = choice === 'tool' ? { name: toolChoice?.toolName } : choice;
  return { options: { ...options, tools: offered, toolChoice: /** @type {any} */ (asked) }, warnings };
}

/** @param {string} effort @param {{ thinking: boolean }} info @returns {GenerateOptions['thinking']} */
function thinkingOf(effort, { thinking }) {
  if (!thinking) return undefined;
  return effort in BUDGETS ? { budget: BUDGETS[effort] } : true;
}

/** @param {string} feature @returns {WarningV4} */
const warning = (feature) => ({ type: 'unsupported', feature });

/** @param {ToolV4} tool @returns {Tool} */
const toolOf = ({ name, description, inputSchema }) => ({ name, description, parameters: inputSchema });

/** @param {{ schema?: any }} responseFormat @returns {NonNullable<GenerateOptions['format']>} */
const formatOf = ({ schema }) => (schema === undefined ? 'json' : { schema });

/** Offers the answer as one more tool, because an answer is constrained either to calls or to a schema.
 * @param {GenerateOptions} options @param {Tool[]} tools @param {any} [schema] @returns {Omit<Call, 'warnings'>} */
function withAnswerTool(options, tools, schema = { type: 'object' }) {
  let answerTool = 'answer';
  while (tools.some(({ name }) => name === answerTool)) answerTool += '_';
  const answer = { name: answerTool, description: 'Gives the final answer.', parameters: schema };
  return { options: { ...options, tools: [...tools, answer], toolChoice: 'required' }, answerTool };
}
