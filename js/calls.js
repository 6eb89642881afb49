/* calls: runs the `execute` functions of the tools that an answer calls. Loaded with the first call. */
/** @import { ChatMessage, GenerateResult } from './protocol.js' */
/** @import { GenerateOptions } from './options.js' */
import { messageOf } from './errors.js';
import { badArguments, badResult } from './later-errors.js';
import { jsonOf, toolOf } from './options.js';
import { unlessAborted } from './rpc/signals.js';
import { validated } from './schemas.js';

/** Runs the tool calls of an answer and returns their results as messages. Returns null if a called tool has no
 * `execute`, or if the signal aborts. If `execute` fails, sets `error` of the call and returns the error's message as
 * the result, for the model.
 * @param {GenerateResult} answer @param {NonNullable<GenerateOptions['tools']>} tools @param {AbortSignal} signal
 * @returns {Promise<ChatMessage[] | null>} */
export async function resultsOf({ toolCalls = [] }, tools, signal) {
  const known = tools.map(toolOf);
  const found = toolCalls.map((call) => ({ call, tool: known.find(({ name }) => name === call.name) }));
  if (!found.every(({ tool }) => tool?.execute)) return null;
  const results = found.map(async ({ call, tool }) => {
    const { id, name, arguments: args } = call;
    try {
      const { value, issues } = await validated(tool?.parameters, jsonOf(args));
      if (issues) throw badArguments(issues);
      // `execute` gets a copy of the call's arguments, so that it cannot change the conversation.
      const result = (await tool?.execute?.(value, { id, signal })) ?? null;
      call.result = written(name, result);
    } catch (error) {
      call.error = error;
    }
    const content = 'error' in call ? { error: messageOf(call.error) } : call.result;
    return { role: /** @type {const} */ ('tool'), id, name, content };
  });
  return unlessAborted(Promise.all(results), signal).catch(() => null);
}

/** Returns the result of a tool as JSON. If JSON cannot represent it, throws an Error, whose message both the model and
 * the caller get.
 * @param {string} name @param {unknown} result */
function written(name, result) {
  try {
    return jsonOf(result);
  } catch (cause) {
    throw badResult(name, cause);
  }
}
