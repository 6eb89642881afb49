/* openai-calls: calls from the documentation of OpenAI's client 7 (README, helpers, API reference), for any handler or
 * server with the three models of `Given`. They run in Node and in browsers. */
/** @import { Given } from './openai-calls/check.js' */
import { failuresOf } from './checks.js';
import { CHAT } from './openai-calls/chat.js';
import { OTHERS } from './openai-calls/others.js';
import { STREAMS } from './openai-calls/streams.js';
import { TOOLS } from './openai-calls/tools.js';

export const CALLS = Object.entries({ ...CHAT, ...STREAMS, ...TOOLS, ...OTHERS });

/** Makes all CALLS, one after the other. Returns a text for each one that fails. @param {Given} given */
export const runCalls = (given) => failuresOf(CALLS, given);
