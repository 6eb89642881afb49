/* options: converts call options of the AI SDK to options of generate(), and returns warnings about unsupported
 * options. */
/** @import { GenerateOptions, Tool } from '../options.js' */
/** @import { CallOptionsV4, ToolV4, WarningV4 } from './specification.js' */
import { thinkingFor } from '../answer-parts.js';

/** Key of this package's options in `providerOptions`, and of its results in `providerMetadata`. */
export const KEY = 'gemmaWasm';

/** Returns options of generate() for a call, and warnings. @param {CallOptionsV4} call
 * @param {{ thinking: boolean }} info of the model
 * @returns {{ options: GenerateOptions, warnings: WarningV4[] }} */
export function optionsOf(call, info) {
  const { tools = [], toolChoice, responseFormat, reasoning = 'provider-default' } = call;
  const warnings = tools.filter(({ type }) => type !== 'function').map(({ name }) => warning(`the tool ${name}`));
  const isEffort = reasoning !== 'provider-default' && reasoning !== 'none';
  if (isEffort && !info.thinking) warnings.push(warning('reasoning'));
  const choice = toolChoice?.type ?? 'auto';
  const offered = choice === 'none' ? [] : tools.filter(({ type }) => type === 'function').map(toolOf);
  const asked = choice === 'tool' ? { name: toolChoice?.toolName } : choice;
  const options = {
    format: responseFormat?.type === 'json' ? formatOf(responseFormat) : undefined,
    maxTokens: call.maxOutputTokens,
    temperature: call.temperature,
    topP: call.topP,
    topK: call.topK,
    presencePenalty: call.presencePenalty,
    frequencyPenalty: call.frequencyPenalty,
    stop: call.stopSequences,
    seed: call.seed,
    thinking: isEffort ? thinkingFor(reasoning, info) : reasoning === 'none' ? false : undefined,
    signal: call.abortSignal,
    ...call.providerOptions?.[KEY],
    ...(offered.length && { tools: offered, toolChoice: /** @type {any} */ (asked) }),
  };
  return { options, warnings };
}

/** @param {string} feature @returns {WarningV4} */
const warning = (feature) => ({ type: 'unsupported', feature });

/** @param {ToolV4} tool @returns {Tool} */
const toolOf = ({ name, description, inputSchema }) => ({ name, description, parameters: inputSchema });

/** @param {{ schema?: any }} responseFormat @returns {NonNullable<GenerateOptions['format']>} */
const formatOf = ({ schema }) => (schema === undefined ? 'json' : { schema });
