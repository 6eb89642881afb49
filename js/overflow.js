/* overflow: shortens a chat whose prompt leaves too little of the context for the answer. Loaded with the first prompt
 * of a chat with the option `overflow`. */
/** @import { ChatMessage, GenerateArgs, PostedPrompt } from './protocol.js' */
import { badSummary } from './later-errors.js';
import { unlessAborted } from './rpc/signals.js';

/** Returns the summary of messages that are removed from a chat.
 * @typedef {(messages: ChatMessage[], call: SummarizeContext) => Promise<string> | string} Summarize */
/** The second argument of `summarize`.
 * @typedef {object} SummarizeContext
 * @property {AbortSignal} signal Aborts when the answer is aborted.
 */

/** Share of the context that is left free for the answer. If `maxTokens` is smaller, only `maxTokens` tokens are left
 * free. */
const ROOM = 1 / 4;
/** Maximum share of the context that a shortened prompt fills. More would fit, but removals should be rare: after each
 * one, the remaining messages are evaluated again. */
const FILLED = 1 / 2;

/** Splits messages into those to keep, which fit into the context, and those to drop. Never drops system messages or
 * the last message of the user, and never separates tool calls from their results.
 * @param {Pick<GenerateArgs, 'prompt' | 'tools' | 'format' | 'maxTokens'> & Partial<Pick<GenerateArgs, 'thinking'>>} args
 *   a prompt of messages
 * @param {{ count: (prompt: PostedPrompt, signal: AbortSignal) => Promise<number>, contextLength: number,
 *   summarize?: Summarize, signal: AbortSignal }} chat
 * @returns {Promise<{ messages: ChatMessage[], dropped: ChatMessage[] }>} */
export async function shortened(args, { count, contextLength, summarize, signal }) {
  const { prompt, tools, format, maxTokens, thinking = null } = args;
  const { messages } = /** @type {{ messages: ChatMessage[] }} */ (prompt);
  const asked = {
    ...prompt,
    ...(thinking !== null && { thinking: thinking !== false }),
    ...(tools && { tools: tools.list, formatted: format !== null }),
  };
  const sizeOf = (/** @type {ChatMessage[]} */ some) => count({ ...asked, messages: some }, signal);
  const most = contextLength - Math.min(maxTokens, Math.floor(contextLength * ROOM));
  if ((await sizeOf(messages)) <= most) return { messages, dropped: [] };

  const groups = groupsOf(messages);
  const without = (/** @type {number} */ n) => {
    const gone = new Set(groups.slice(0, n).flat());
    return messages.filter((message) => !gone.has(message));
  };
  const least = await sizeOf(without(groups.length));
  // If the prompt is too long without any earlier message, the engine rejects it.
  if (!groups.length || least > contextLength) return { messages, dropped: [] };
  const wanted = contextLength * FILLED;
  const limit = least > wanted ? most : wanted;
  let [low, n] = [0, groups.length];
  while (n - low > 1) {
    const middle = (low + n) >> 1;
    if ((await sizeOf(without(middle))) > limit) low = middle;
    else n = middle;
  }
  const kept = without(n);
  const dropped = messages.filter((message) => !kept.includes(message));
  if (!summarize) return { messages: kept, dropped };
  const summary = await summaryOf(summarize, dropped, signal);
  // The summary becomes a message of the user. It is inserted before the last question, because questionOf() takes the
  // user's last message for the question when the chat is shortened again.
  const question = questionOf(messages);
  const at = messages.findIndex((message, i) => message === dropped[0] || i === question);
  /** @type {ChatMessage[]} */
  const said = summary ? [{ role: 'user', content: summary }] : [];
  return { messages: [...kept.slice(0, at), ...said, ...kept.slice(at)], dropped };
}

/** @param {ChatMessage[]} messages */
const questionOf = (messages) => messages.findLastIndex(({ role }) => role === 'user');

/** Returns the groups of messages that can be dropped, oldest first: the turns before the last message of the user,
 * then each round of tool calls after that message with the results, except the last round.
 * @param {ChatMessage[]} messages */
function groupsOf(messages) {
  const question = questionOf(messages);
  /** @type {ChatMessage[][]} */
  const groups = [];
  for (const [i, message] of messages.entries()) {
    if (/^(system|developer)$/.test(message.role) || i === question) continue;
    const begins = i < question ? message.role === 'user' : message.role !== 'tool';
    if (begins || !groups.length) groups.push([]);
    groups[groups.length - 1].push(message);
  }
  return question === messages.length - 1 ? groups : groups.slice(0, -1);
}

/** @param {Summarize} summarize @param {ChatMessage[]} messages @param {AbortSignal} signal */
async function summaryOf(summarize, messages, signal) {
  const copies = messages.map((message) => ({ ...message }));
  const summarized = (async () => summarize(copies, { signal }))();
  const summary = await unlessAborted(summarized, signal);
  if (typeof summary !== 'string') throw badSummary(summary);
  return summary;
}
