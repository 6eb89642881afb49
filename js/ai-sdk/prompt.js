/* prompt: converts prompts of the AI SDK to messages. */
/** @import { ChatMessage } from '../protocol.js' */
/** @import { MessageV4 } from './specification.js' */
import { alternating } from '../answer-parts.js';
import { callDenied, filePart } from './errors.js';

/** Converts the messages of a prompt. Throws an UnsupportedFunctionalityError for files.
 * @param {readonly MessageV4[]} prompt
 * @returns {ChatMessage[]} */
export function messagesOf(prompt) {
  const messages = prompt.flatMap(({ role, content }) => {
    if (typeof content === 'string') return [{ role: /** @type {ChatMessage['role']} */ (role), content }];
    content.forEach(refuseFile);
    const parts = /** @type {any[]} */ (content);
    const results = parts.filter(({ type }) => type === 'tool-result').map(resultOf);
    if (role === 'tool') return results;
    if (role === 'user') return [{ role: /** @type {const} */ ('user'), content: textOf(parts, '\n') }];
    return [answerOf(parts), ...results];
  });
  return alternating(messages);
}

/** @param {any} part */
function refuseFile({ type, mediaType }) {
  if (type === 'file' || type === 'reasoning-file') throw filePart(mediaType);
}

/** @param {any[]} parts @param {string} separator @param {string} [kind] @returns {string} */
function textOf(parts, separator, kind = 'text') {
  return parts
    .filter(({ type }) => type === kind)
    .map(({ text }) => text)
    .join(separator);
}

/** @param {any[]} parts @returns {ChatMessage} */
function answerOf(parts) {
  const toolCalls = parts
    .filter(({ type }) => type === 'tool-call')
    // In answers of other providers' models, the input of a tool call can be of any type.
    .map(({ toolCallId: id, toolName: name, input }) => ({
      id,
      name,
      arguments: typeof input === 'object' && input !== null ? input : { input },
    }));
  const thoughts = textOf(parts, '', 'reasoning');
  const content = textOf(parts, '');
  return { role: 'assistant', content, ...(thoughts && { thoughts }), ...(toolCalls.length && { toolCalls }) };
}

/** @param {any} part @returns {ChatMessage} */
function resultOf({ toolCallId: id, toolName: name, output }) {
  return { role: 'tool', id, name, content: outputOf(output) };
}

/** @param {any} output @returns {unknown} */
function outputOf({ type, value, reason = callDenied() }) {
  if (type === 'execution-denied') return { error: reason };
  if (/^error-/.test(type)) return { error: value };
  if (type !== 'content') return value;
  value.forEach(refuseFile);
  return textOf(value, '\n');
}
