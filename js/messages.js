/* messages: checks and copies the messages of a conversation. */
/** @import { ChatMessage, PostedMessage, ToolCall } from './protocol.js' */
/** @import { GenerateOptions } from './options.js' */
import { show } from './errors.js';
import { badRole, prefixNotLast, toolsInContinued } from './front-errors.js';
import { checkThat, checkValue, jsonOption, object, rule, string } from './options.js';

const ROLES = ['system', 'developer', 'user', 'assistant', 'model', 'tool'];
/** Rule for a list of messages: accepts every array. checkMessages() checks the items. */
export const isMessages = rule('an array of messages { role, content }', Array.isArray);
const isContent = rule("a string or an array of parts { type: 'text', text }", string.fits);
const isPart = {
  ...rule("{ type: 'text', text }: only text is supported", (part) => part.type === 'text' && string.fits(part.text)),
  fault: (/** @type {any} */ part) => (part?.type ? `the type ${show(part.type)}` : show(part)),
};

/** Returns the content of a message: its text, with line breaks between parts. If the only part of a message of the
 * user has language codes, returns this part: the chat template checks the codes (engine/template.js). Throws
 * `bad-option`.
 * @param {string} name @param {any} content @param {boolean} [ofUser] @returns {any} */
export function contentOf(name, content, ofUser) {
  if (!Array.isArray(content)) {
    checkValue(name, content, isContent);
    return content;
  }
  const text = content
    .map((part, i) => {
      checkValue(`Part ${i} of ${name.replace('The', 'the')}`, part ?? null, isPart);
      return part.text;
    })
    .join('\n');
  const [{ source_lang_code: source, target_lang_code: target } = {}, more] = content;
  if (!ofUser || more || source === undefined) return text;
  return [{ type: 'text', text, source_lang_code: `${source}`, target_lang_code: `${target}` }];
}

/** Returns messages as a prompt. A last message with `prefix` becomes the beginning of the answer (`begin`) and of its
 * thoughts (`thought`). @param {any} given
 * @returns {{ messages: PostedMessage[], begin?: string, thought?: string }} */
export function promptOf(given) {
  const messages = checkMessages(given, [], true);
  const { prefix, content, thoughts } = messages[messages.length - 1];
  if (!prefix) return { messages };
  return { messages: messages.slice(0, -1), begin: content, ...(thoughts && { thought: thoughts }) };
}

/** Throws `bad-option` if options cannot be combined with an answer whose beginning is given.
 * @param {GenerateOptions} options */
export function checkBegun({ tools, toolChoice }) {
  if (tools?.length && toolChoice !== 'none') throw toolsInContinued();
}

/** Checks messages and returns a copy with the known properties only. Throws `bad-option`. @param {any} messages
 * @param {any[]} [before] preceding messages, which the result includes. Errors count from the first of `messages`.
 * @param {boolean} [open] whether the last message may have `prefix` @returns {ChatMessage[]} */
export function checkMessages(messages, before = [], open = false) {
  checkValue('messages', messages, isMessages);
  /** Names of called tools, by call id. @type {Map<string, string>} */
  const called = new Map();
  return [...before, ...messages].map((message, n) => {
    const i = n - before.length;
    const { role, content, thoughts = '', aborted, toolCalls, prefix } = message ?? {};
    if (!ROLES.includes(role)) throw badRole(i, ROLES, role);
    const mayBegin = open && i === messages.length - 1 && /^(assistant|model)$/.test(role) && !toolCalls;
    if (prefix && !mayBegin) throw prefixNotLast(i);
    if (role === 'tool') return checkResult(message, i, called);
    const text = contentOf(`The content of message ${i}`, toolCalls ? (content ?? '') : content, role === 'user');
    checkValue(`The thoughts of message ${i}`, thoughts, string);
    const said = { role, content: text, ...(thoughts && { thoughts }), ...(aborted && { aborted }) };
    if (toolCalls) return { ...said, toolCalls: checkCalls(toolCalls, i, called) };
    return { ...said, ...(prefix && { prefix }) };
  });
}

/** @param {any} calls @param {number} i @param {Map<string, string>} called @returns {ToolCall[]} */
function checkCalls(calls, i, called) {
  const fits = Array.isArray(calls) && calls.every((call) => string.fits(call?.name));
  checkThat(`The toolCalls of message ${i}`, calls, 'an array of { id, name, arguments }', fits);
  return calls.map((/** @type {any} */ { id, name, arguments: args }, /** @type {number} */ n) => {
    const known = id ?? `call_${called.size}_${n}`;
    called.set(known, name);
    checkValue(`The arguments of \`${name}\` in message ${i}`, args, object);
    return { id: known, name, arguments: jsonOption(`arguments of \`${name}\` in message ${i}`, args) };
  });
}

/** @param {any} message @param {number} i @param {Map<string, string>} called @returns {ChatMessage} */
function checkResult({ id, name: given, content }, i, called) {
  const name = given ?? called.get(id);
  checkThat(`The id of message ${i}`, given ?? id, 'the id of a call, unless `name` names the tool', string.fits(name));
  const said = jsonOption(`content of message ${i}, a result of \`${name}\`,`, content ?? null);
  return { role: 'tool', name, ...(id !== undefined && { id }), content: said };
}
