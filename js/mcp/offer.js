/* offer: offers the tools of a page to the browser's agent through WebMCP (webmachinelearning.github.io/webmcp), where
 * the browser has it. */
/** @import { Tool, FunctionTool } from '../options.js' */
import { keywordFault } from '../keywords.js';
import { badArguments } from '../later-errors.js';
import { GENERATE_OPTIONS, checkOptions, checkValue, jsonOf, rule, signal as signalRule, toolOf } from '../options.js';
import { schemaOf, validated } from '../schemas.js';
import { badParameters, toolRefused } from './errors.js';

/** A tool in the form of WebMCP.
 * @typedef {{ name: string, description: string, inputSchema: object,
 *   execute: (input: any) => Promise<unknown> }} ModelContextTool */
/** Interface of the WebMCP draft. In earlier drafts, the interface is a property of `navigator`, registerTool() returns
 * nothing, and unregisterTool() exists.
 * @typedef {object} ModelContext
 * @property {(tool: ModelContextTool, options?: { signal?: AbortSignal, exposedTo?: string[] }) => Promise<void> | void}
 *   registerTool Registers a tool.
 * @property {(name: string) => void} [unregisterTool] Removes a tool.
 */
/** Options of `offerTools`.
 * @typedef {object} OfferOptions
 * @property {AbortSignal} [signal] Withdraws the tools.
 * @property {readonly string[]} [exposedTo] Origins of other documents in the tab that may use the tools. Default: none.
 */
/** The result of `offerTools`.
 * @typedef {object} Offer
 * @property {boolean} supported Whether the browser has WebMCP. If not, nothing is offered.
 * @property {string[]} names Names of the offered tools.
 * @property {() => void} withdraw Withdraws the tools.
 */

const OPTIONS = {
  signal: signalRule,
  exposedTo: rule(
    'an array of origins',
    (value) => Array.isArray(value) && value.every((origin) => URL.canParse(origin)),
  ),
};
const isOffered = rule('an array of tools with `execute` and a `description`', (tools) => {
  return Array.isArray(tools) && tools.map(toolOf).every((tool) => tool?.execute && tool.description);
});

/** @returns {ModelContext | undefined} */
function modelContext() {
  const { document, navigator } = /** @type {any} */ (globalThis);
  return document?.modelContext ?? navigator?.modelContext;
}

/** Offers tools to the browser's agent. Without WebMCP, offers nothing. Fails with `bad-option`. If the
 * browser refuses a tool, withdraws the others and fails with `bad-state`.
 * @param {readonly (Tool | FunctionTool)[]} tools @param {OfferOptions} [options] @returns {Promise<Offer>} */
export async function offerTools(tools, options = {}) {
  checkValue('tools', tools, GENERATE_OPTIONS.tools);
  checkValue('tools', tools, isOffered);
  checkOptions(options, OPTIONS);
  const context = modelContext();
  const { signal: outer, exposedTo } = options;
  const stop = new AbortController();
  /** @type {string[]} */
  const names = [];
  const withdraw = () => {
    stop.abort();
    // Only earlier drafts of WebMCP have unregisterTool(). In the current draft, the aborted signal withdraws the
    // tools.
    for (const name of names.splice(0)) context?.unregisterTool?.(name);
  };
  const all = tools.map(toolOf).map((tool, i) => offered(tool, i, stop.signal));
  const offer = { supported: context !== undefined, names, withdraw };
  if (!context || outer?.aborted) return offer;
  outer?.addEventListener('abort', withdraw, { signal: stop.signal });
  try {
    for (const tool of all) {
      const more = { signal: stop.signal, ...(exposedTo && { exposedTo: [...exposedTo] }) };
      await context.registerTool(tool, more);
      names.push(tool.name);
      if (!stop.signal.aborted) continue;
      withdraw();
      break;
    }
  } catch (error) {
    const isWithdrawn = stop.signal.aborted;
    withdraw();
    if (!isWithdrawn) throw toolRefused(error);
  }
  return offer;
}

/** Throws `bad-option` if the parameters are not a schema. @param {Tool} tool @param {number} i
 * @param {AbortSignal} signal @returns {ModelContextTool} */
function offered({ name, description = '', parameters, execute }, i, signal) {
  const none = { type: 'object', properties: {}, additionalProperties: false };
  const inputSchema = parameters === undefined ? none : schemaOf(`The parameters of ${name}`, parameters);
  const fault = keywordFault(inputSchema);
  if (fault) throw badParameters(name, fault);
  let calls = 0;
  return {
    name,
    description,
    inputSchema,
    async execute(input) {
      const { value, issues } = await validated(parameters, jsonOf(input ?? {}));
      if (issues) throw badArguments(issues);
      return jsonOf((await execute?.(value, { id: `webmcp_${i}_${calls++}`, signal })) ?? null);
    },
  };
}
