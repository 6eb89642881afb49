/* response-items: checks the items of a request's input, and converts them to messages. */
/** @import { ChatMessage } from '../protocol.js' */
/** @import { Item, ResponseStore } from './response-store.js' */
import { alternating, newId } from '../answer-parts.js';
import { cutCall, outputWithoutCall, unknownItem, unsupportedItem, wrongValue } from './errors.js';
import { argumentsOf, resultOf, textOf } from './messages.js';

/** Returns whether a value is an object, and neither null nor an array.
 * @param {any} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns a string property of an item. Throws if the property is not a string. @param {Record<string, any>} item
 * @param {string} name @param {string} path path of the item in the request, for messages, such as `input[2]` */
function stringOf(item, name, path) {
  if (typeof item[name] === 'string') return item[name];
  throw wrongValue(`${path}.${name}`, 'a string', item[name]);
}

/** For each type of item, a function that checks an item of a request and returns the fields that are specific to the
 * type.
 * @type {Record<string, (item: Record<string, any>, path: string) => Record<string, any>>} */
const ITEMS = {
  message({ role, content, phase }, path) {
    if (!/^(user|assistant|system|developer)$/.test(role)) {
      throw wrongValue(`${path}.role`, 'user, assistant, system or developer', role);
    }
    const text = textOf(content, `${path}.content`);
    const part = role === 'assistant' ? { type: 'output_text', text, annotations: [] } : { type: 'input_text', text };
    return { role, content: [part], ...(phase && { phase }) };
  },
  function_call(item, path) {
    argumentsOf(item.arguments, `${path}.arguments`);
    return {
      call_id: stringOf(item, 'call_id', path),
      name: stringOf(item, 'name', path),
      arguments: stringOf(item, 'arguments', path),
    };
  },
  function_call_output(item, path) {
    return { call_id: stringOf(item, 'call_id', path), output: textOf(item.output, `${path}.output`) };
  },
  reasoning({ content, summary }, path) {
    const text = content ? textOf(content, `${path}.content`) : '';
    return { summary: summary ?? [], content: text ? [{ type: 'reasoning_text', text }] : [] };
  },
};
/** Prefix of generated ids, by type of item. @type {Record<string, string>} */
export const PREFIXES = { message: 'msg_', function_call: 'fc_', function_call_output: 'fco_', reasoning: 'rs_' };

/** Checks the items of a request's input, and returns them with an id and a status each.
 * @param {any} input a string or items @param {ResponseStore} stored responses that items can refer to
 * @returns {Item[]} */
export function itemsOf(input, stored) {
  if (typeof input === 'string') return itemsOf([{ role: 'user', content: input }], stored);
  if (Array.isArray(input)) return input.map((item, i) => itemOf(item, `input[${i}]`, stored));
  throw wrongValue('input', 'a string or an array of items', input);
}

/** @param {any} item @param {string} path @param {ResponseStore} stored @returns {Item} */
function itemOf(item, path, stored) {
  if (!isObject(item)) throw wrongValue(path, 'an object', item);
  const { id } = item;
  const type = item.type ?? (item.role === undefined ? 'item_reference' : 'message');
  if (type === 'item_reference') {
    const found = stored.item(stringOf(item, 'id', path));
    if (found) return found;
    throw unknownItem(id, `${path}.id`);
  }
  if (!Object.hasOwn(ITEMS, type)) throw unsupportedItem(type, `${path}.type`, Object.keys(ITEMS));
  const known = typeof id === 'string' && id ? id : newId(PREFIXES[type]);
  return { id: known, type, status: 'completed', ...ITEMS[type](item, path) };
}

/** Returns the messages of a conversation. Reasoning and calls are joined with the assistant's message next to them
 * into one message, as the model wrote it.
 * @param {Item[]} items @param {string | null} instructions @returns {ChatMessage[]} */
export function messagesOf(items, instructions) {
  /** @type {ChatMessage[]} */
  const messages = instructions === null ? [] : [{ role: 'system', content: instructions }];
  const called = new Set();
  for (const [i, item] of items.entries()) {
    const { call_id: id, name } = item;
    const next = items[i + 1];
    if (item.type === 'message') messages.push({ role: item.role, content: textOf(item.content, 'input') });
    if (item.type === 'reasoning' && (next?.role === 'assistant' || next?.type === 'function_call')) {
      messages.push({ role: 'assistant', content: '', thoughts: textOf(item.content, 'input') });
    }
    if (item.type === 'function_call') {
      called.add(id);
      const call = { id, name, arguments: argumentsOf(item.arguments, 'input', () => cutCall(id)) };
      messages.push({ role: 'assistant', content: '', toolCalls: [call] });
    }
    if (item.type !== 'function_call_output') continue;
    if (!called.has(id)) throw outputWithoutCall(id);
    messages.push({ role: 'tool', id, content: resultOf(item.output) });
  }
  return alternating(messages);
}
