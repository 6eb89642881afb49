/* messages: conversations with tools as chat templates take them (the form that Hugging Face's chat templates agree
 * on): `tool_calls` of an assistant, role `tool` for results, tools as functions. What a dialect needs otherwise. */
/** @import { Spoken, ToolCall, ToolSpec as Tool } from '../protocol.js' */

/** A message as templates take it. @typedef {Record<string, any> & { role: string, content: any }} Message */

/** What arguments must be: an object, also where the schema says no type. @param {Tool} tool */
export function parametersOf({ parameters = { properties: {} } }) {
  return Object.hasOwn(parameters, 'type') ? parameters : { type: 'object', ...parameters };
}

/** @param {Tool} tool */
export function functionOf(tool) {
  const { name, description = '' } = tool;
  return { type: 'function', function: { name, description, parameters: parametersOf(tool) } };
}

/** As JSON, unless it is a text. @param {any} value */
export const written = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

/** @param {Spoken} message @returns {Message} */
export function plain({ role, content }) {
  return { role: role === 'model' ? 'assistant' : role, content };
}

/** @param {Spoken} message @returns {Message} */
function withCalls(message) {
  if (!message.toolCalls?.length) return plain(message);
  const calls = message.toolCalls.map(({ id, name, arguments: args }) => {
    return { id, type: 'function', function: { name, arguments: args } };
  });
  return { ...plain(message), tool_calls: calls };
}

/** The usual form. @param {Spoken[]} messages */
export function usual(messages) {
  return messages.map((message) => {
    const { role, content, name, id } = message;
    return role === 'tool' ? { role, name, tool_call_id: id, content: written(content) } : withCalls(message);
  });
}

/** One call in a message, and its result behind it: for templates that take no more.
 * @param {Spoken[]} messages @returns {Message[]} */
export function oneByOne(messages) {
  /** @type {Spoken[]} */
  const out = [];
  for (let at = 0; at < messages.length; at++) {
    const { toolCalls = [], ...message } = messages[at];
    if (toolCalls.length < 2) {
      out.push(messages[at]);
      continue;
    }
    const behind = messages.slice(at + 1);
    const most = behind.findIndex(({ role }) => role !== 'tool');
    const results = most < 0 ? behind : behind.slice(0, most);
    toolCalls.forEach((call, i) => {
      out.push({ ...message, content: i ? '' : message.content, toolCalls: [call] });
      out.push(...results.filter((result, n) => (result.id ? result.id === call.id : n === i)));
    });
    at += results.length;
  }
  return usual(out);
}

/** Results by the name of what was called, as values; those that follow one another as one message.
 * @param {Spoken[]} messages @returns {Message[]} */
export function asResponses(messages) {
  /** @type {Message[]} */
  const out = [];
  messages.forEach((message, i) => {
    if (message.role !== 'tool') return void out.push(withCalls(message));
    const { name, content } = message;
    if (messages[i - 1]?.role !== 'tool') out.push({ role: 'tool', content: [] });
    out.at(-1)?.content.push({ name, response: content });
  });
  return out;
}

/** With words only, for templates that know nothing of tools: calls as the JSON that they were, results as what the
 * user says next.
 * @param {Spoken[]} messages @returns {Message[]} */
export function inWords(messages) {
  /** @type {Message[]} */
  const out = [];
  messages.forEach((message, i) => {
    const { role, name, content, toolCalls } = message;
    if (toolCalls?.length) return void out.push({ role: 'assistant', content: callsInWords(toolCalls) });
    if (role !== 'tool') return void out.push(plain(message));
    const words = JSON.stringify({ tool_response: { name, content } });
    if (messages[i - 1]?.role === 'tool') out[out.length - 1].content += `\n${words}`;
    else out.push({ role: 'user', content: words });
  });
  return out;
}

/** @param {readonly ToolCall[]} calls */
function callsInWords(calls) {
  const said = calls.map(({ name, arguments: args }) => ({ name, arguments: args }));
  return JSON.stringify(said.length > 1 ? { tool_calls: said } : { tool_call: said[0] });
}

/** Words before all else that is said: with the system message, if there is one.
 * @param {Message[]} messages @param {string} words @param {boolean} system whether there may be such a message */
export function preceded(messages, words, system) {
  const [first, ...rest] = messages;
  const role = first?.role;
  if (role === 'system' || role === 'developer') {
    return [{ ...first, content: `${first.content}\n\n${words}` }, ...rest];
  }
  if (system) return [{ role: 'system', content: words }, ...messages];
  const at = messages.findIndex((message) => message.role === 'user');
  return messages.map((message, i) => (i === at ? { ...message, content: `${words}\n\n${message.content}` } : message));
}
