/* messages: converts OpenAI's messages to the package's form. Parameters named `path` contain the path of a value in
 * the request, for error messages, such as `messages[2].content`. */
/** @import { ChatMessage } from '../protocol.js' */
import { alternating } from '../answer-parts.js';
import {
  audioMessage,
  customCall,
  functionCallMessage,
  functionRole,
  unsupportedContent,
  wrongArguments,
  wrongPart,
  wrongValue,
} from './errors.js';

/** Returns messages in the package's form. Rejects parts and roles that are not supported.
 * @param {any} messages @returns {ChatMessage[]} */
export function messagesOf(messages) {
  if (!Array.isArray(messages) || !messages.length) {
    throw wrongPart('messages', 'a non-empty array of messages');
  }
  return alternating(messages.map((message, i) => messageOf(message, `messages[${i}]`)));
}

/** @param {any} message @param {string} path @returns {ChatMessage} */
function messageOf(message, path) {
  const { role } = message ?? {};
  if (role === 'system' || role === 'developer' || role === 'user') {
    return { role, content: textOf(message.content, `${path}.content`) };
  }
  if (role === 'tool') {
    const id = message.tool_call_id;
    if (typeof id !== 'string') throw wrongPart(`${path}.tool_call_id`, 'the id of the call', path);
    return { role, id, content: resultOf(textOf(message.content, `${path}.content`)) };
  }
  if (role === 'assistant') return assistantMessageOf(message, path);
  if (role === 'function') throw functionRole(`${path}.role`);
  throw wrongValue(`${path}.role`, 'system, developer, user, assistant or tool', role);
}

/** @param {any} said @param {string} path @returns {ChatMessage} */
function assistantMessageOf(said, path) {
  const { content, refusal, tool_calls: calls, audio, function_call: call, reasoning_content: thoughts } = said;
  if (audio) throw audioMessage(`${path}.audio`);
  if (call) throw functionCallMessage(`${path}.function_call`);
  const text = content ?? refusal ?? (calls?.length || thoughts ? '' : content);
  const message = {
    role: /** @type {const} */ ('assistant'),
    content: textOf(text, `${path}.content`),
    ...(typeof thoughts === 'string' && { thoughts }),
  };
  if (!calls?.length) return message;
  if (!Array.isArray(calls)) throw wrongPart(`${path}.tool_calls`, 'an array');
  return { ...message, toolCalls: calls.map((one, i) => callOf(one, `${path}.tool_calls[${i}]`)) };
}

/** @param {any} call @param {string} path */
function callOf(call, path) {
  if (call?.type === 'custom') throw customCall(path);
  const { id, function: called } = call ?? {};
  const { name, arguments: json } = called ?? {};
  return { id, name, arguments: argumentsOf(json, `${path}.function.arguments`) };
}

/** Parses the arguments of a tool call. @param {any} json @param {string} path path in the request, for messages
 * @param {(path: string) => Error} [wrong] returns the error if they are not valid */
export function argumentsOf(json, path, wrong = wrongArguments) {
  try {
    const value = JSON.parse(json || '{}');
    if (typeof value === 'object' && value) return value;
  } catch {
    // The error for invalid JSON is thrown after this block.
  }
  throw wrong(path);
}

/** Returns a tool's result as a value if it is a JSON object or array, because some chat templates do not write values
 * as JSON. Returns the text unchanged if it has a number beyond the safe integers, which parsing could round.
 * @param {string} text */
export function resultOf(text) {
  let exact = /^\s*[{[]/.test(text);
  if (!exact) return text;
  try {
    const value = JSON.parse(text, (_, part) => {
      exact &&= typeof part !== 'number' || Math.abs(part) <= Number.MAX_SAFE_INTEGER;
      return part;
    });
    return exact ? value : text;
  } catch {
    return text;
  }
}

/** Name of the field that has the text, by type of content part. @type {Record<string, string>} */
const TEXTS = {
  text: 'text',
  refusal: 'refusal',
  input_text: 'text',
  output_text: 'text',
  reasoning_text: 'text',
};

/** Returns the text of a message's content, which is a string or parts. Joins parts by line breaks.
 * @param {any} content @param {string} path path in the request, for messages @returns {string} */
export function textOf(content, path) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) {
    throw wrongValue(path, 'a string or an array of parts', content);
  }
  const texts = content.map((part, i) => {
    const type = part?.type;
    const where = `${path}[${i}]`;
    if (!Object.hasOwn(TEXTS, type)) throw unsupportedContent(type, where);
    const text = part[TEXTS[type]];
    if (typeof text !== 'string') throw wrongPart(`${where}.${TEXTS[type]}`, 'a string', where);
    return text;
  });
  return texts.join('\n');
}
