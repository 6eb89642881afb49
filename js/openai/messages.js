/* messages: converts OpenAI's messages to the package's form. */
/** @import { ChatMessage } from '../protocol.js' */
import { alternating } from '../answer-parts.js';
import { show } from '../errors.js';
import { invalid, unsupported } from './errors.js';

/** Returns messages in the package's form. Rejects parts and roles that are not supported.
 * @param {any} messages @returns {ChatMessage[]} */
export function messagesOf(messages) {
  if (!Array.isArray(messages) || !messages.length) {
    throw invalid("Invalid 'messages': pass a non-empty array of messages.", 'messages');
  }
  return alternating(messages.map((message, i) => messageOf(message, `messages[${i}]`)));
}

/** @param {any} message @param {string} place @returns {ChatMessage} */
function messageOf(message, place) {
  const { role } = message ?? {};
  if (role === 'system' || role === 'developer' || role === 'user') {
    return { role, content: textOf(message.content, `${place}.content`) };
  }
  if (role === 'tool') {
    const id = message.tool_call_id;
    if (typeof id !== 'string') throw invalid(`Invalid '${place}.tool_call_id': pass the id of the call.`, place);
    return { role, id, content: resultOf(textOf(message.content, `${place}.content`)) };
  }
  if (role === 'assistant') return assistantMessageOf(message, place);
  if (role === 'function') throw unsupported('The role `function`', `${place}.role`, 'Use the role `tool`.');
  const roles = 'system, developer, user, assistant or tool';
  throw invalid(`Invalid '${place}.role': pass ${roles} (got ${show(role)}).`, `${place}.role`);
}

/** @param {any} said @param {string} place @returns {ChatMessage} */
function assistantMessageOf(said, place) {
  const { content, refusal, tool_calls: calls, audio, function_call: call, reasoning_content: thoughts } = said;
  if (audio) throw unsupported('`audio` of a message', `${place}.audio`);
  if (call) throw unsupported('`function_call` of a message', `${place}.function_call`, 'Use `tool_calls`.');
  const text = content ?? refusal ?? (calls?.length || thoughts ? '' : content);
  const message = {
    role: /** @type {const} */ ('assistant'),
    content: textOf(text, `${place}.content`),
    ...(typeof thoughts === 'string' && { thoughts }),
  };
  if (!calls?.length) return message;
  if (!Array.isArray(calls)) throw invalid(`Invalid '${place}.tool_calls': pass an array.`, `${place}.tool_calls`);
  return { ...message, toolCalls: calls.map((one, i) => callOf(one, `${place}.tool_calls[${i}]`)) };
}

/** @param {any} call @param {string} place */
function callOf(call, place) {
  if (call?.type === 'custom') throw unsupported('A call of a custom tool', place, 'Use functions.');
  const { id, function: called } = call ?? {};
  const { name, arguments: json } = called ?? {};
  return { id, name, arguments: argumentsOf(json, `${place}.function.arguments`) };
}

/** Parses the arguments of a tool call. @param {any} json @param {string} place @param {string} [problem] message of the
 * error if they are not valid */
export function argumentsOf(json, place, problem = `Invalid '${place}': pass a JSON object, encoded as a string.`) {
  try {
    const value = JSON.parse(json || '{}');
    if (typeof value === 'object' && value) return value;
  } catch {
    // The error for invalid JSON is thrown after this block.
  }
  throw invalid(problem, place);
}

/** Parses a tool's result if it is a JSON object or array, because some chat templates write values in another
 * notation. Returns the text if it has a number beyond the safe integers.
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
 * @param {any} content @param {string} place @returns {string} */
export function textOf(content, place) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) {
    throw invalid(`Invalid '${place}': pass a string or an array of parts (got ${show(content)}).`, place);
  }
  const texts = content.map((part, i) => {
    const type = part?.type;
    const where = `${place}[${i}]`;
    if (!Object.hasOwn(TEXTS, type)) {
      throw unsupported(`The content part \`${type}\``, where, 'Pass parts of the type `text`.');
    }
    const text = part[TEXTS[type]];
    if (typeof text !== 'string') throw invalid(`Invalid '${where}.${TEXTS[type]}': pass a string.`, where);
    return text;
  });
  return texts.join('\n');
}
