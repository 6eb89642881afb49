/* dialects: the forms in which models call tools. Each dialect recognises its models, prepares messages for the chat
 * template, builds the grammar of answers, and parses calls. Models whose template ignores tools get instructions as
 * text and answer in JSON (llama.cpp calls this form generic). */
import { ANY_TEXT, choice, except, literal, repeat, sequence } from '../grammar/nodes.js';
import { Builder, spacing } from './build.js';
import { asResponses, functionOf, joinedResponses, oneCallPerMessage, standardForm, withoutTools } from './messages.js';
import { partialJson } from './partial.js';
import { callOf, flat, jsonCallsIn, objectEnd } from './reading.js';
import { declared, unquotedCalls } from './unquoted.js';

/** @import { PostedMessage, ToolSpec as Tool } from '../protocol.js' */
/** @import { Grammar } from '../grammar/nodes.js' */
/** @import { Message } from './messages.js' */
/** @import { Parse } from './reading.js' */
/** @import { CallGrammarOptions } from './build.js' */

/** Facts by which a dialect recognises a model. probe: the text that the model's template renders for a sample tool, ''
 * if it ignores tools; has: returns whether the vocabulary has a token with a name.
 * @typedef {{ probe: string, has: (name: string) => boolean }} Facts */
/** Input of the chat template. tools: undefined if there are none or the template ignores tools; instructions: text to
 * insert before the conversation.
 * @typedef {{ messages: Message[], tools?: object[], instructions?: string }} Rendering */
/** A form of calls. marks: names of the tokens that delimit calls; openings: texts or tokens with which an answer with
 * calls can begin; first: the first character of every answer with calls, and of no other; stop: the token that ends an
 * answer with calls, besides the model's end tokens; render: `formatted` if answers without calls must follow a format.
 * @typedef {{ name: string, fits: (facts: Facts) => boolean, marks: string[],
 *   first?: string, openings: (tools: Tool[]) => string[], stop?: string,
 *   render: (messages: PostedMessage[], tools: Tool[], formatted?: boolean) => Rendering,
 *   grammar: (wanted: CallGrammarOptions) => Grammar, parse: Parse }} Dialect */

/** @param {Tool[]} tools */
const functions = (tools) => (tools.length ? tools.map(functionOf) : undefined);

/** The instruction that FunctionGemma was trained with. */
const DEVELOPER = 'You are a model that can do function calling with the following functions';

const FUNCTION_GEMMA_CALLS = unquotedCalls({
  start: '<start_function_call>',
  end: '<end_function_call>',
  quote: '<escape>',
  stop: '<start_function_response>',
});
/** The dialect of FunctionGemma (270M). @type {Dialect} */
const FUNCTION_GEMMA = {
  name: 'functiongemma',
  fits: ({ probe, has }) =>
    probe.includes('<start_function_declaration>') && FUNCTION_GEMMA_CALLS.marks.every((name) => has(name)),
  ...FUNCTION_GEMMA_CALLS,
  render(messages, tools) {
    const told = ['system', 'developer'].includes(messages[0]?.role) || !tools.length;
    const opened = told ? messages : [{ role: 'developer', content: DEVELOPER }, ...messages];
    return { messages: asResponses(opened), tools: functions(tools.map(declared)) };
  },
};

const GEMMA4_CALLS = unquotedCalls({
  start: '<|tool_call>',
  end: '<tool_call|>',
  quote: '<|"|>',
  stop: '<|tool_response>',
});
/** The dialect of Gemma 4. @type {Dialect} */
const GEMMA4 = {
  name: 'gemma4',
  fits: ({ probe, has }) => probe.includes('<|tool>') && GEMMA4_CALLS.marks.every((name) => has(name)),
  ...GEMMA4_CALLS,
  render: (messages, tools) => ({ messages: joinedResponses(messages), tools: functions(tools.map(declared)) }),
};

/** The dialect of Hermes by NousResearch, Qwen, SmolLM3 and others: JSON between two tokens. @type {Dialect} */
const HERMES = {
  name: 'hermes',
  fits: ({ probe }) => probe.includes('<tool_call>') && !probe.includes('<function='),
  marks: ['<tool_call>', '</tool_call>'],
  openings: () => ['<tool_call>'],
  render: (messages, tools) => ({ messages: standardForm(messages), tools: functions(tools) }),
  grammar(wanted) {
    const build = new Builder(wanted);
    const call = sequence(
      build.mark('<tool_call>'),
      literal('\n'),
      jsonCalls(build, 'arguments'),
      literal('\n'),
      build.mark('</tool_call>'),
    );
    const words = build.words('<tool_call>', ['<think>', '</think>']);
    return build.grammar(build.answer(build.calls(call, literal('\n')), words));
  },
  parse(items, spelled) {
    const { text, marks } = flat(items);
    const opening = '<tool_call>';
    const places = [...marks].flatMap(([place, name]) => (name === opening ? [place] : []));
    const next = (/** @type {number} */ from) =>
      spelled.includes(opening) ? text.indexOf(opening, from) : (places.find((place) => place >= from) ?? -1);
    const first = next(0);
    if (first < 0) return { text, calls: [] };
    return { text: text.slice(0, first), calls: jsonCallsIn(text, 'arguments', next) };
  },
};

/** The dialect of Llama 3.1 and later: the whole answer is JSON. The template accepts one call per message.
 * @type {Dialect} */
const LLAMA3 = {
  name: 'llama3',
  fits: ({ probe, has }) => probe.includes('"parameters"') && has('<|start_header_id|>'),
  marks: [],
  first: '{',
  openings: (tools) => tools.map(({ name }) => callStart(name, 'parameters')),
  render: (messages, tools) => ({ messages: oneCallPerMessage(messages), tools: functions(tools) }),
  grammar(wanted) {
    const build = new Builder(wanted);
    const words = except(ANY_TEXT, sequence(literal('{'), ANY_TEXT));
    return build.grammar(build.either(build.calls(jsonCalls(build, 'parameters'), literal('; ')), words));
  },
  parse(items) {
    const { text } = flat(items);
    if (!text.startsWith('{')) return { text, calls: [] };
    return { text: '', calls: jsonCallsIn(text, 'parameters', (from) => text.indexOf('{', from)) };
  },
};

const ONE_CALL = '{"tool_call": ';
const SEVERAL_CALLS = '{"tool_calls": [';
/** The dialect of models that no other dialect recognises. @type {Dialect} */
const GENERIC = {
  name: 'generic',
  fits: () => true,
  marks: [],
  openings: () => [ONE_CALL, SEVERAL_CALLS],
  render(messages, tools, formatted = false) {
    const instructions = tools.length && { instructions: instructionsFor(tools, formatted) };
    return { messages: withoutTools(messages), ...instructions };
  },
  grammar(wanted) {
    const build = new Builder(wanted);
    const call = jsonCalls(build, 'arguments');
    const ways = [sequence(literal(ONE_CALL), call, literal('}'))];
    if (build.several) {
      const more = repeat(sequence(literal(', '), call), 1, Infinity);
      ways.push(sequence(literal(SEVERAL_CALLS), call, more, literal(']}')));
    }
    const words = sequence(literal('{"response": '), { jsonString: ANY_TEXT }, literal('}'));
    return build.grammar(build.either(choice(ways), words));
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

/** The dialects, in the order in which they are tested. The last one fits every model. */
export const DIALECTS = [FUNCTION_GEMMA, GEMMA4, HERMES, LLAMA3, GENERIC];

/** Returns a grammar of `{"name": "NAME", "FIELD": ARGUMENTS}` with each tool's name. @param {Builder} build
 * @param {string} field */
function jsonCalls(build, field) {
  return choice(
    build.tools(spacing()).map(({ name, args }) => {
      return sequence(literal(callStart(name, field)), args, literal('}'));
    }),
  );
}

/** @param {string} name @param {string} field */
const callStart = (name, field) => `{"name": ${JSON.stringify(name)}, "${field}": `;

/** @param {Tool[]} tools @param {boolean} formatted whether answers without calls must follow a
 * format */
function instructionsFor(tools, formatted) {
  const list = tools.map((tool) => JSON.stringify(functionOf(tool).function)).join('\n');
  return (
    `You can call these tools:\n${list}\n\n` +
    'Answer with one JSON object, and nothing else. To call a tool: ' +
    '{"tool_call": {"name": NAME, "arguments": ARGUMENTS}}. To call several at once: {"tool_calls": [CALL, CALL]}. ' +
    (formatted ? 'Otherwise answer in the required format.' : 'To answer in words: {"response": TEXT}.')
  );
}
