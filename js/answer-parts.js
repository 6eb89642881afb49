/* answer-parts: functions that js/openai and js/ai-sdk share: ids, the JSON of tool calls that are still being
 * generated, the option for a reasoning effort, and conversations with alternating roles. */
/** @import { GenerateOptions } from './options.js' */
/** @import { ChatMessage } from './protocol.js' */

/** Maximum number of thought tokens by reasoning effort. Higher efforts have no limit.
 * @type {Record<string, number>} */
const BUDGETS = { minimal: 64, low: 256, medium: 1024 };

/** Returns the option `thinking` for a reasoning effort, or undefined if the model does not think.
 * @param {string} effort
 * @param {{ thinking: boolean }} info of the model @returns {GenerateOptions['thinking']} */
export function thinkingFor(effort, { thinking }) {
  if (!thinking) return undefined;
  return effort in BUDGETS ? { budget: BUDGETS[effort] } : effort !== 'none';
}

/** Returns a conversation that chat templates with alternating turns accept: joins successive messages with the same
 * role, and inserts an empty user message if the assistant would begin.
 * @param {ChatMessage[]} messages @returns {ChatMessage[]} */
export function alternating(messages) {
  /** @type {ChatMessage[]} */
  const turns = [];
  for (const message of messages) {
    const last = turns.at(-1);
    const continues = last && authorOf(last) === authorOf(message) && message.role !== 'tool';
    if (continues) turns[turns.length - 1] = joined(last, message);
    else turns.push(message);
  }
  const begin = turns.findIndex((message) => authorOf(message) !== 'system');
  if (turns[begin]?.role !== 'assistant') return turns;
  return [...turns.slice(0, begin), { role: 'user', content: '' }, ...turns.slice(begin)];
}

/** @param {ChatMessage} message */
const authorOf = ({ role }) => (role === 'developer' ? 'system' : role);

/** @param {ChatMessage} first @param {ChatMessage} second @returns {ChatMessage} */
function joined(first, second) {
  const content = [first.content, second.content].filter(Boolean).join('\n\n');
  const thoughts = [first.thoughts, second.thoughts].filter(Boolean).join('\n\n');
  const calls = [...(first.toolCalls ?? []), ...(second.toolCalls ?? [])];
  return { ...first, content, ...(thoughts && { thoughts }), ...(calls.length && { toolCalls: calls }) };
}

/** Returns an id of 24 random hexadecimal digits. @param {string} prefix */
export function newId(prefix) {
  const bytes = [...crypto.getRandomValues(new Uint8Array(12))];
  return prefix + bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Writes a value that is still being generated as JSON text that only grows. JavaScript objects move integer property
 * names to the front. So this class remembers the order of properties, and writes nothing after an integer name until
 * the value is complete. */
export class ArgumentWriter {
  #written = '';
  #isOrdered = true;
  /** Property names of each JSON object in the order of their first appearance, by the object's path in the value.
   * @type {Map<string, string[]>} */
  #names = new Map();

  /** Returns the JSON text that is new since the last call. @param {any} value @param {boolean} done whether the value
   * is complete */
  next(value, done) {
    const text = this.#json(value, '');
    // While a value is incomplete, closing quotes and brackets at its end are left out, because its last string or list
    // may still grow.
    const sure = done ? text : text.replace(/["\]}]*$/, '');
    if (!(done || this.#isOrdered) || !sure.startsWith(this.#written)) return '';
    const fresh = sure.slice(this.#written.length);
    this.#written = sure;
    return fresh;
  }

  /** @param {any} value @param {string} path @returns {string} */
  #json(value, path) {
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    if (Array.isArray(value)) return `[${value.map((item, i) => this.#json(item, `${path}/${i}`))}]`;
    const known = this.#names.get(path) ?? [];
    const names = [...known, ...Object.keys(value).filter((name) => !known.includes(name))];
    this.#names.set(path, names);
    this.#isOrdered &&= !names.some((name) => /^\d+$/.test(name));
    const members = names.map((name) => {
      const key = JSON.stringify(name);
      return `${key}:${this.#json(value[name], `${path}/${key}`)}`;
    });
    return `{${members}}`;
  }
}
