/* tools: converts the tools of an MCP client to tools of the package. The caller passes a connected client; no MCP code
 * is imported. */
/** @import { Tool, ToolContext } from '../options.js' */
/** @import { Model } from '../model.js' */
/** @import { McpResult } from './results.js' */
import { ModelError, abortError } from '../errors.js';
import { boolean, callback, checkOptions, checkValue, integer, object } from '../options.js';
import { oneOf, rule, signal as signalRule } from '../options.js';
import { closed, schemaOf } from '../schemas.js';
import { endlessList, listedTwice, schemaIsNoObject, unusable } from './errors.js';
import { namesFor } from './names.js';
import { valueOf } from './results.js';

/** Maximum number of pages of a server's list of tools, and maximum number of tools in the list. A server could send an
 * endless list. */
const MAX_PAGES = 1000;
const MAX_TOOLS = 10_000;
const MAX_TIMEOUT = 2 ** 31 - 1;

/** A tool as its server describes it.
 * @typedef {object} McpTool
 * @property {string} name Name on the server.
 * @property {string} [title] Name for people.
 * @property {string} [description] Description for models.
 * @property {object} inputSchema JSON Schema of the arguments.
 */
/** Progress of a tool call, as the server reports it.
 * @typedef {object} McpProgress
 * @property {number} progress Amount so far.
 * @property {number} [total] Amount in all, if the server knows it.
 * @property {string} [message] Description of the current step.
 */
/** The tool call whose progress is reported.
 * @typedef {object} McpCallOrigin
 * @property {string} name Name of the tool, as the model calls it.
 * @property {string} id Id of the call.
 */
/** Options of a request to an MCP server.
 * @typedef {object} McpRequestOptions
 * @property {AbortSignal} [signal] Cancels the request.
 * @property {number} [timeout] Milliseconds that the request may take. Default: that of the client.
 * @property {boolean} [resetTimeoutOnProgress] Whether a progress report restarts the timeout. Default: that of the
 *   client.
 * @property {(progress: McpProgress) => void} [onprogress] Called when the server reports progress.
 */
/** Options of a request for the list of tools.
 * @typedef {object} McpListOptions
 * @property {'use' | 'refresh' | 'bypass'} [cacheMode] Whether the client may answer from its cache. Default: that of
 *   the client.
 */
/** Parameters of a request for the list of tools.
 * @typedef {object} McpListParams
 * @property {string} [cursor] `nextCursor` of the previous page. Default: the first page.
 */
/** A page of the list of tools.
 * @typedef {object} McpToolPage
 * @property {readonly McpTool[]} tools The tools.
 * @property {string} [nextCursor] Cursor of the next page, if there is one.
 */
/** A tool call.
 * @typedef {object} McpCall
 * @property {string} name Name on the server.
 * @property {Record<string, unknown>} [arguments] Arguments of the call.
 */
/** The methods of an MCP client that this package uses. `Client` of @modelcontextprotocol/client 2 has them.
 * @typedef {object} McpClient
 * @property {(params?: McpListParams, options?: McpRequestOptions & McpListOptions) => Promise<McpToolPage>} listTools
 *   Lists the tools, or a page of them.
 * @property {(params: McpCall, options?: McpRequestOptions) => Promise<McpResult>} callTool Calls a tool.
 */
/** Options of `mcpTools`.
 * @typedef {object} McpOptions
 * @property {string} [prefix] Added before each tool's name, so that tools of several servers can be combined. Default:
 *   none.
 * @property {(tool: McpTool) => boolean} [filter] Whether to use a tool. Small models choose better among few tools.
 *   Default: all.
 * @property {Pick<Model, 'debug'>} [model] Model that checks in advance whether it can enforce the schemas of the
 *   arguments. Without it, a schema that cannot be enforced fails at the first answer.
 * @property {'error' | 'skip'} [unsupported] Whether a tool whose schema `model` cannot enforce fails with
 *   `bad-format`, or is left out and listed in `skipped`. Default: error.
 * @property {boolean} [extraArguments] Whether a model may send arguments that a schema neither lists nor forbids.
 *   Default: false.
 * @property {'describe' | 'refuse'} [media] Whether images, audio and binary resources in results become a note for the
 *   model, or an error. Default: describe.
 * @property {number} [timeout] Milliseconds that a call may take without progress. Default: that of the client.
 * @property {(progress: McpProgress & McpCallOrigin) => void} [onProgress] Called when the server reports progress of a
 *   call.
 * @property {AbortSignal} [signal] Aborts listing the tools.
 */
/** A tool that is not offered to models.
 * @typedef {object} SkippedTool
 * @property {string} name Name on the server.
 * @property {string} reason Why, as a sentence.
 */

const OPTIONS = {
  prefix: rule('at most 32 letters, digits, _, . or -', (value) => /^[\w.-]{0,32}$/.test(value)),
  filter: callback,
  model: object,
  unsupported: oneOf('error', 'skip'),
  extraArguments: boolean,
  media: oneOf('describe', 'refuse'),
  timeout: integer(1, MAX_TIMEOUT),
  onProgress: callback,
  signal: signalRule,
};
const isClient = rule('an MCP client with listTools() and callTool()', (value) => {
  return [value?.listTools, value?.callTool].every(callback.fits);
});

/** Lists the tools of a connected MCP client, and returns them as tools for chats. Fails with `bad-option` or
 * `bad-format`, or as the client does.
 * @param {McpClient} client @param {McpOptions} [options] @returns {Promise<McpTools>} */
export async function mcpTools(client, options = {}) {
  checkValue('client', client, isClient);
  checkOptions(options, OPTIONS);
  const { signal, ...others } = options;
  const all = new McpTools(client, others);
  await all.refresh({ signal });
  return all;
}

/** The tools of an MCP client. Made by `mcpTools()`. */
export class McpTools {
  #client;
  #options;
  /** Number of refresh() calls so far, and number of the call whose list is in `tools`. */
  #calls = 0;
  #shown = 0;

  /** Tools for the option `tools` of chats and answers. refresh() replaces the array. @type {Tool[]} */
  tools = [];
  /** Tools that are left out, with reasons. @type {SkippedTool[]} */
  skipped = [];

  /** @internal @param {McpClient} client @param {Omit<McpOptions, 'signal'>} options */
  constructor(client, options) {
    this.#client = client;
    this.#options = options;
  }

  /** Lists the tools again, for example when the server reports a change. Keeps the old list if that fails.
   * @param {Pick<McpOptions, 'signal'>} [options] */
  async refresh(options = {}) {
    checkOptions(options, { signal: signalRule });
    const { signal } = options;
    const { prefix = '', filter, unsupported = 'error' } = this.#options;
    const call = ++this.#calls;
    const listed = await allTools(this.#client, signal).catch((error) => {
      throw signal?.aborted ? abortError(signal) : error;
    });
    /** @type {SkippedTool[]} */
    const skipped = [];
    /** @type {Map<string, McpTool>} */
    const usable = new Map();
    for (const tool of filter ? listed.filter((one) => filter(one)) : listed) {
      const { inputSchema, reason } = await this.#checked(tool, usable.has(tool.name));
      if (!reason) usable.set(tool.name, { ...tool, inputSchema });
      else if (unsupported === 'skip') skipped.push({ name: tool.name, reason });
      else throw unusable(tool.name, reason);
    }
    // A later call may have ended first. Its list is newer, so this one is dropped.
    if (call < this.#shown) return;
    this.#shown = call;
    const names = namesFor([...usable.keys()], prefix);
    this.tools = [...usable.values()].map((tool, i) => this.#toolOf(tool, names[i]));
    this.skipped = skipped;
  }

  /** Returns the schema of a tool's arguments to offer to models, and the reason if the tool cannot be used.
   * @param {McpTool} tool @param {boolean} known whether the list already has a tool with this name
   * @returns {Promise<{ inputSchema: object, reason?: string }>} */
  async #checked({ name, inputSchema }, known) {
    if (known) return { inputSchema, reason: listedTwice() };
    const { extraArguments, model } = this.#options;
    try {
      const given = schemaOf(`The inputSchema of ${name}`, inputSchema);
      if (typeof given !== 'object' || given === null) return { inputSchema, reason: schemaIsNoObject(given) };
      const schema = extraArguments ? given : closed(given);
      return { inputSchema: schema, reason: (await model?.debug.matches({ schema }, '{}'))?.reason };
    } catch (error) {
      const { kind, message } = /** @type {ModelError} */ (error);
      if (error instanceof ModelError && kind === 'option') return { inputSchema, reason: message };
      throw error;
    }
  }

  /** @param {McpTool} tool @param {string} name @returns {Tool} */
  #toolOf({ name: original, title, description = title, inputSchema }, name) {
    const { timeout, onProgress, media = 'describe' } = this.#options;
    return {
      name,
      ...(description && { description }),
      parameters: inputSchema,
      execute: async (/** @type {Record<string, unknown>} */ args, /** @type {ToolContext} */ { id, signal }) => {
        const result = await this.#client.callTool(
          { name: original, arguments: args },
          {
            signal,
            ...(timeout && { timeout }),
            resetTimeoutOnProgress: true,
            // The callback is always passed, because servers report progress only for requests that have one.
            onprogress: (progress) => onProgress?.({ ...progress, name, id }),
          },
        );
        return valueOf(result, media);
      },
    };
  }
}

/** @param {McpClient} client @param {AbortSignal} [signal] */
async function allTools(client, signal) {
  /** @type {McpTool[]} */
  const tools = [];
  /** @type {string | undefined} */
  let cursor;
  for (let page = 0; page < MAX_PAGES && tools.length <= MAX_TOOLS; page++) {
    const part = await client.listTools(cursor === undefined ? undefined : { cursor }, {
      signal,
      cacheMode: 'refresh',
    });
    tools.push(...part.tools);
    cursor = part.nextCursor;
    if (cursor === undefined) return tools;
  }
  throw endlessList(tools.length);
}
