/* messages: converts conversations with tools to the form that chat templates accept. The standard form is Hugging
 * Face's: `tool_calls` of the assistant, role `tool` for results, tools as functions. Some dialects need another
 * form. */
/** @import { PostedMessage, ToolCall, ToolSpec as Tool } from '../protocol.js' */

/** A message in the form of chat templates. @typedef {Record<string, any> & { role: string, content: any }} Message */

/** Returns the schema of a tool's arguments. Adds the type `object` if the schema has no type. @param {Tool} tool */
export function parametersOf({ parameters = { properties: {} } }) {
  return Object.hasOwn(parameters, 'type') ? parameters : { type: 'object', ...parameters };
}

/** Returns a tool in OpenAI's form. @param {Tool} tool */
export function functionOf(tool) {
  const { name, description = '' } = tool;
  return { type: 'function', function: { name, description, parameters: parametersOf(tool) } };
}

/** Returns a value as JSON text; returns a string unchanged. @param {any} value */
const toText = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

/** Returns a message in the form of chat templates, without its calls. @param {PostedMessage} message
 * @returns {Message} */
function plain({ role, content, thoughts }) {
  return { role: role === 'model' ? 'assistant' : role, content, ...(thoughts && { thoughts }) };
}

/** @param {PostedMessage} message @returns {Message} */
function withCalls(message) {
  if (!message.toolCalls?.length) return plain(message);
  const calls = message.toolCalls.map(({ id, name, arguments: args }) => {
    return { id, type: 'function', function: { name, arguments: args } };
  });
  return { ...plain(message), tool_calls: calls };
}

/** Sorts successive results by the order of their calls, because templates write no ids. A result without an id keeps
 * its place. @param {PostedMessage[]} messages */
function inCallOrder(messages) {
  let group = 0;
  /** @type {readonly ToolCall[]} */
  let calls = [];
  const ranked = messages.map((message, i) => {
    if (message.role !== 'tool') [group, calls] = [i, message.toolCalls ?? []];
    const call = calls.findIndex(({ id }) => id === message.id);
    return { message, group, rank: call < 0 ? i - group : call + 1 };
  });
  return ranked.sort((a, b) => a.group - b.group || a.rank - b.rank).map(({ message }) => message);
}

/** Converts messages to Hugging Face's form: calls in `tool_calls`, results with the role `tool`.
 * @param {PostedMessage[]} messages */
export function standardForm(messages) {
  return inCallOrder(messages).map((message) => {
    const { role, content, name, id } = message;
    return role === 'tool' ? { role, name, tool_call_id: id, content: toText(content) } : withCalls(message);
  });
}

/** Converts messages to a form with one call per message, followed by the call's result, for templates that accept only
 * one call.
 * @param {PostedMessage[]} messages @returns {Message[]} */
export function oneCallPerMessage(messages) {
  /** @type {PostedMessage[]} */
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
  return standardForm(out);
}

/** Converts messages to a form in which results of tools are objects { name, response }. Successive results become
 * one message. @param {PostedMessage[]} messages */
export const asResponses = (messages) => responsesIn(messages, 'content', () => ({ role: 'tool', content: [] }));

/** Converts messages to a form in which a message with calls also has their results. Drops the text of such a message:
 * templates write it after the results and end the turn there, so that the model could not answer the results.
 * @param {PostedMessage[]} messages */
export const joinedResponses = (messages) =>
  responsesIn(messages, 'tool_responses', (out) => ({
    role: 'assistant',
    ...(out.at(-1)?.tool_calls && out.pop()),
    content: '',
  }));

/** Collects successive results of tools in the property `name` of one message, which `begin` makes.
 * @param {PostedMessage[]} messages @param {string} name @param {(out: Message[]) => Message} begin */
function responsesIn(messages, name, begin) {
  /** @type {Message[]} */
  const out = [];
  inCallOrder(messages).forEach((message, i) => {
    if (message.role !== 'tool') return void out.push(withCalls(message));
    if (messages[i - 1]?.role !== 'tool') out.push({ ...begin(out), [name]: [] });
    out.at(-1)?.[name].push({ name: message.name, response: message.content });
  });
  return out;
}

/** Converts messages to a form without tools, for templates that ignore tools: calls become the JSON that the model
 * wrote, results become messages of the user.
 * @param {PostedMessage[]} messages @returns {Message[]} */
export function withoutTools(messages) {
  /** @type {Message[]} */
  const out = [];
  inCallOrder(messages).forEach((message, i) => {
    const { role, name, content, toolCalls } = message;
    if (toolCalls?.length) {
      const said = [content, callsAsText(toolCalls)].filter(Boolean).join('\n');
      return void out.push({ ...plain(message), content: said });
    }
    if (role !== 'tool') return void out.push(plain(message));
    const text = JSON.stringify({ tool_response: { name, content } });
    if (messages[i - 1]?.role === 'tool') out[out.length - 1].content += `\n${text}`;
    else out.push({ role: 'user', content: text });
  });
  return out;
}

/** @param {readonly ToolCall[]} calls */
function callsAsText(calls) {
  const said = calls.map(({ name, arguments: args }) => ({ name, arguments: args }));
  return JSON.stringify(said.length > 1 ? { tool_calls: said } : { tool_call: said[0] });
}

/** Inserts instructions before a conversation: at the end of its system message, or in a new one.
 * @param {Message[]} messages @param {string} instructions */
export function withInstructions(messages, instructions) {
  const [first, ...rest] = messages;
  if (first?.role !== 'system' && first?.role !== 'developer') {
    return [{ role: 'system', content: instructions }, ...messages];
  }
  return [{ ...first, content: `${first.content}\n\n${instructions}` }, ...rest];
}
