/* dialects: how models call tools, a row each: whether a file's model speaks it, what its template is given, the
 * grammar that an answer is held to, and how calls are read in one. Models whose template takes no tools are told in
 * words, and answer in JSON (llama.cpp calls this form generic). */
import { ANY_TEXT, choice, literal, repeat, sequence } from '../grammar/nodes.js';
import { Builder, notFirst, spaced } from './build.js';
import * as functiongemma from './functiongemma.js';
import { asResponses, functionOf, inWords, oneByOne, usual } from './messages.js';
import { partialJson } from './partial.js';
import { callOf, flat, jsonCall, objectEnd } from './reading.js';

/** @import { Spoken, ToolSpec as Tool } from '../protocol.js' */
/** @import { Node, Grammar } from '../grammar/nodes.js' */
/** @import { Message } from './messages.js' */
/** @import { Parse, Said } from './reading.js' */
/** @import { Wanted } from './build.js' */

/** probe: what a file's template makes of a tool, '' if it takes none; has: a token of that name.
 * @typedef {{ probe: string, has: (name: string) => boolean }} Facts */
/** tools: for the template, undefined if it takes none or there are none; opening: words for the beginning, where a
 * system message may be or not.
 * @typedef {{ messages: Message[], tools?: object[], opening?: string }} Rendering */
/** marks: names of the tokens that calls are read by; opening: what calls begin with, and nothing else: a token, or a
 * sign that is the first.
 * @typedef {{ name: string, fits: (facts: Facts) => boolean, marks: string[],
 *   opening?: { mark: string } | { first: string },
 *   render: (messages: Spoken[], tools: Tool[]) => Rendering, grammar: (wanted: Wanted) => Grammar,
 *   parse: Parse }} Dialect */

/** @param {Tool[]} tools */
const functions = (tools) => (tools.length ? tools.map(functionOf) : undefined);

/** What FunctionGemma was trained to hear before it calls functions. */
const DEVELOPER = 'You are a model that can do function calling with the following functions';

/** Gemma 3 270M, trained on calls: it has its own control tokens. @type {Dialect} */
const FUNCTION_GEMMA = {
  name: 'functiongemma',
  fits: ({ probe, has }) => probe.includes('<start_function_declaration>') && functiongemma.MARKS.every(has),
  marks: functiongemma.MARKS,
  opening: { mark: functiongemma.MARKS[0] },
  render(messages, tools) {
    const told = ['system', 'developer'].includes(messages[0]?.role) || !tools.length;
    const opened = told ? messages : [{ role: 'developer', content: DEVELOPER }, ...messages];
    return { messages: asResponses(opened), tools: functions(tools.map(functiongemma.declared)) };
  },
  grammar: functiongemma.grammar,
  parse: functiongemma.parse,
};

/** Qwen's, SmolLM3's and others': JSON between two tokens, as NousResearch's Hermes has it. @type {Dialect} */
const HERMES = {
  name: 'hermes',
  fits: ({ probe }) => probe.includes('<tool_call>') && !probe.includes('<function='),
  marks: ['<tool_call>', '</tool_call>'],
  opening: { mark: '<tool_call>' },
  render: (messages, tools) => ({ messages: usual(messages), tools: functions(tools) }),
  grammar(wanted) {
    const build = new Builder(wanted);
    const call = sequence(
      build.mark('<tool_call>'),
      literal('\n'),
      jsonCalls(build, 'arguments'),
      literal('\n'),
      build.mark('</tool_call>'),
    );
    return build.grammar(build.answer(call, literal('\n'), build.words(['<tool_call>'], ['<think>', '</think>'])));
  },
  parse(items, spelt) {
    const { text, marks } = flat(items);
    const opening = '<tool_call>';
    const places = [...marks].flatMap(([place, name]) => (name === opening ? [place] : []));
    const next = (/** @type {number} */ from) =>
      spelt.includes(opening) ? text.indexOf(opening, from) : (places.find((place) => place >= from) ?? -1);
    /** @type {Said} */
    const said = { text, calls: [] };
    for (let at = next(0); at >= 0; ) {
      if (said.text === text) said.text = text.slice(0, at);
      const { calls, end } = jsonCall(text, at + opening.length, 'arguments');
      said.calls.push(...calls);
      at = end < 0 ? -1 : next(end);
    }
    return said;
  },
};

/** Llama 3.1 and later: JSON in plain text, from the first character on. Its template takes one call in a message.
 * @type {Dialect} */
const LLAMA3 = {
  name: 'llama3',
  fits: ({ probe, has }) => probe.includes('"parameters"') && has('<|start_header_id|>'),
  marks: [],
  opening: { first: '{' },
  render: (messages, tools) => ({ messages: oneByOne(messages), tools: functions(tools) }),
  grammar(wanted) {
    const build = new Builder(wanted);
    return build.grammar(choiceOf(build, jsonCalls(build, 'parameters'), literal('; '), notFirst(0x7b)));
  },
  parse(items) {
    const { text } = flat(items);
    if (!text.startsWith('{')) return { text, calls: [] };
    /** @type {Said} */
    const said = { text: '', calls: [] };
    for (let at = 0; at >= 0 && at < text.length; ) {
      const { calls, end } = jsonCall(text, at, 'parameters');
      said.calls.push(...calls);
      at = end < 0 ? -1 : text.indexOf('{', end);
    }
    return said;
  },
};

/** Every other model. @type {Dialect} */
export const GENERIC = {
  name: 'generic',
  fits: () => true,
  marks: [],
  render(messages, tools) {
    return { messages: inWords(messages), ...(tools.length && { opening: explained(tools) }) };
  },
  grammar(wanted) {
    const build = new Builder(wanted);
    const call = jsonCalls(build, 'arguments');
    const ways = [sequence(literal('{"tool_call": '), call, literal('}'))];
    if (build.several) {
      const more = repeat(sequence(literal(', '), call), 1, Infinity);
      ways.push(sequence(literal('{"tool_calls": ['), call, more, literal(']}')));
    }
    if (build.mayAnswer) ways.push(sequence(literal('{"response": '), { jsonString: ANY_TEXT }, literal('}')));
    return build.grammar(choice(ways));
  },
  parse(items) {
    const { text } = flat(items);
    const done = objectEnd(text, 0) >= 0;
    const { response = '', tool_call: one, tool_calls: some } = partialJson(text) ?? {};
    const list = /** @type {any[]} */ (Array.isArray(some) ? some : one ? [one] : []);
    const calls = list.flatMap((value, i) => callOf(value, 'arguments', done || i < list.length - 1));
    return { text: typeof response === 'string' ? response : '', calls };
  },
};

/** In the order in which they are tried. */
export const DIALECTS = [FUNCTION_GEMMA, HERMES, LLAMA3, GENERIC];

/** `{"name": "NAME", FIELD: ARGUMENTS}` of each tool. @param {Builder} build @param {string} field */
function jsonCalls(build, field) {
  return choice(
    build.tools(spaced).map(({ name, args }) => {
      return sequence(literal(`{"name": ${JSON.stringify(name)}, "${field}": `), args, literal('}'));
    }),
  );
}

/** Calls or words, never both. @param {Builder} build @param {Node} call @param {Node} between @param {Node} words */
function choiceOf(build, call, between, words) {
  const calls = build.several ? sequence(call, repeat(sequence(between, call), 0, Infinity)) : call;
  return build.mayAnswer ? choice([words, calls]) : calls;
}

/** @param {Tool[]} tools */
function explained(tools) {
  const list = tools.map((tool) => JSON.stringify(functionOf(tool).function)).join('\n');
  return (
    `You can call these tools:\n${list}\n\nAnswer with one JSON object, and nothing else. To call a tool: ` +
    '{"tool_call": {"name": NAME, "arguments": ARGUMENTS}}. To call several at once: {"tool_calls": [CALL, CALL]}. ' +
    'To answer in words: {"response": TEXT}.'
  );
}
