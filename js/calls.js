/* calls: what was called is done, and its results are messages. Loaded when a model calls something. */
/** @import { ChatMessage } from './chat.js' */
/** @import { GenerateResult } from './generation.js' */
/** @import { Tool } from './model.js' */
import { plain } from './options.js';

/** null where somebody else must do one of them. What fails is told to the model, and stands in the call.
 * @param {GenerateResult} answer @param {Tool[]} tools @param {AbortSignal} signal
 * @returns {Promise<ChatMessage[] | null>} */
export async function resultsOf({ toolCalls = [] }, tools, signal) {
  const found = toolCalls.map((call) => ({ call, tool: tools.find(({ name }) => name === call.name) }));
  if (!found.every(({ tool }) => tool?.execute)) return null;
  const results = found.map(async ({ call, tool }) => {
    const { id, name, arguments: args } = call;
    try {
      // A copy: what is done with the arguments is not done to the conversation.
      call.result = plain((await tool?.execute?.(plain(args), { id, signal })) ?? null);
    } catch (error) {
      call.error = error;
    }
    const content = 'error' in call ? { error: messageOf(call.error) } : call.result;
    return { role: /** @type {const} */ ('tool'), id, name, content };
  });
  return Promise.race([Promise.all(results), whenAborted(signal)]);
}

/** @param {AbortSignal} signal @returns {Promise<null>} */
function whenAborted(signal) {
  return new Promise((resolve) => {
    const end = () => resolve(null);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));
