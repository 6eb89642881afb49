/* prompts: validates prompts as the Prompt API's specification requires, and converts them to conversations that chat
 * templates accept. */
/** @import { PromptInput, PromptMessage } from './idl.js' */
/** @import { ChatMessage } from '../protocol.js' */
import { isA } from '../errors.js';
import { lateSystem, misplacedPrefix, notJson, notText, unsupportedContent, unsupportedFlag } from './errors.js';

/** Limits that apply where a JSON schema has none.
 * @typedef {object} SchemaBounds
 * @property {number} [maxLength] Maximum characters of a string.
 * @property {number} [maxItems] Maximum items of an array.
 * @property {number} [maxProperties] Maximum members of an object.
 */
/** @typedef {ChatMessage & { content: string }} Said */

/** Returns the text of a message. Throws NotSupportedError for other content. @param {PromptMessage} message */
function textOf({ content }) {
  if (typeof content === 'string') return content;
  return content
    .map(({ type, value }) => {
      if (type !== 'text') throw unsupportedContent(type);
      if (typeof value !== 'string') throw notText();
      return value;
    })
    .join('');
}

/** Returns the messages of a prompt. Throws a TypeError, or a DOMException named SyntaxError or NotSupportedError.
 * @param {PromptInput} input @param {boolean} started whether the session already has messages @returns {Said[]} */
export function messagesOf(input, started) {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!input.length) return [{ role: 'user', content: '' }];
  return input.map((message, i) => {
    const { role, prefix } = message;
    if (prefix && (role !== 'assistant' || i < input.length - 1)) throw misplacedPrefix();
    if (role === 'system' && (started || i > 0)) throw lateSystem();
    return { role, content: textOf(message) };
  });
}

/** Returns a conversation in which the user begins and roles alternate, as some chat templates require. Joins
 * successive messages with the same role, and adds an empty user message where one is missing.
 * @param {readonly Said[]} messages @returns {Said[]} */
export function conversationOf(messages) {
  /** @type {Said[]} */
  const turns = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (message.role === 'assistant' && (!last || last.role === 'system')) turns.push({ role: 'user', content: '' });
    if (last?.role === message.role && message.role !== 'tool' && !last.toolCalls) {
      turns[turns.length - 1] = { ...message, content: `${last.content}\n${message.content}` };
    } else {
      turns.push(message);
    }
  }
  return turns.some(({ role }) => role === 'user') ? turns : [...turns, { role: 'user', content: '' }];
}

/** Returns the option `format` for a constraint, undefined without one. Throws NotSupportedError for a RegExp with one
 * of the flags i, m, s and v.
 * @param {any} constraint @param {SchemaBounds} [bounds] */
export function formatOf(constraint, bounds) {
  if (!constraint) return undefined;
  if (!isRegExp(constraint)) return { schema: constraint, ...bounds };
  const [flag] = constraint.flags.match(/[imsv]/) ?? [];
  if (flag) throw unsupportedFlag(flag);
  return { regex: constraint };
}

/** Returns whether an answer that was cut off satisfies the constraint. Only a regular expression can accept such an
 * answer. @param {any} constraint @param {string} text */
export function followsCut(constraint, text) {
  return isRegExp(constraint) && new RegExp(constraint.source, constraint.flags.replace(/[gy]/g, '')).test(text);
}

/** Returns the messages. If the last message begins an answer that follows a schema, removes the white space between
 * its JSON tokens, because constrained answers have none. @param {Said[]} messages @param {any} constraint
 * @returns {Said[]} */
export function compacted(messages, constraint) {
  const last = messages[messages.length - 1];
  if (!constraint || isRegExp(constraint) || last.role !== 'assistant') return messages;
  const content = last.content.replace(/("(?:[^"\\]|\\.)*"?)|\s+/gs, '$1');
  return messages.with(-1, { ...last, content });
}

/** @param {any} value */
const isRegExp = (value) => isA('RegExp', value);

/** Returns the messages, with a description of the constraint at the end of the last user message.
 * @param {Said[]} messages @param {any} constraint @returns {Said[]} */
export function withConstraint(messages, constraint) {
  if (!constraint) return messages;
  const words = isRegExp(constraint)
    ? `Answer only with text that matches the regular expression ${constraint}`
    : `Answer only with JSON of this JSON Schema: ${jsonText(constraint)}`;
  const at = messages.findLastIndex(({ role }) => role === 'user');
  if (at < 0) {
    const first = messages.filter(({ role }) => role === 'system');
    return [...first, { role: 'user', content: words }, ...messages.slice(first.length)];
  }
  return messages.with(at, { ...messages[at], content: `${messages[at].content}\n\n${words}` });
}

/** @param {object} schema */
function jsonText(schema) {
  try {
    return JSON.stringify(schema);
  } catch (cause) {
    throw notJson(cause);
  }
}
