/* openai-calls: calls from the documentation of OpenAI's client 7 (README, helpers, API reference), for any handler or
 * server with the three models of `Given`. They run in Node and in browsers. */
/** @import { Given } from './openai-calls/check.js' */
import { CHAT } from './openai-calls/chat.js';
import { OTHERS } from './openai-calls/others.js';
import { STREAMS } from './openai-calls/streams.js';
import { TOOLS } from './openai-calls/tools.js';

export const CALLS = Object.entries({ ...CHAT, ...STREAMS, ...TOOLS, ...OTHERS });

/** @param {Given} given */
export async function runCalls(given) {
  /** @type {string[]} */
  const failed = [];
  for (const [name, run] of CALLS) {
    try {
      await run(given);
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? error.stack : error}`);
    }
  }
  return failed;
}
