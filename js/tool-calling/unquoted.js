/* unquoted: the call format of FunctionGemma and Gemma 4: `call:NAME{key:value,…}` between two tokens, with strings
 * between two quote tokens and everything else unquoted (ai.google.dev/gemma/docs/functiongemma). Parsing converts a
 * call to JSON; building a grammar converts the JSON grammar of a tool's schema to this form. */
import { ANY_TEXT, EMPTY, choice, literal, optional, sequence } from '../grammar/nodes.js';
import { Ordering, eachOnce, mapped } from '../grammar/ordered.js';
import { needsFreeNames } from './errors.js';
import { fruitful } from '../grammar/trim.js';
import { Builder } from './build.js';
import { parametersOf } from './messages.js';
import { partialJson } from './partial.js';

/** @import { PartialCall as Call, ToolSpec as Tool } from '../protocol.js' */
/** @import { Grammar, Member, Node } from '../grammar/nodes.js' */
/** @import { CallGrammarOptions } from './build.js' */
/** @import { Item, ParsedAnswer } from './reading.js' */

/** Names of tokens. start, end: delimiters of a call; quote: delimiter of a string; stop: end of an answer with calls,
 * if the model writes it. @typedef {{ start: string, end: string, quote: string, stop?: string }} CallMarks */

/** Matches a name that needs no quotes in a call. */
const BARE = /^[^\s:{}[\],"]+$/;
/** Matches a key without quotes after a brace or a comma. */
const BARE_KEY = /([{,]\s*)([^\s:{}[\],"]+)\s*:/g;

/** Returns the properties of a dialect whose calls have these tokens. @param {CallMarks} names */
export function unquotedCalls(names) {
  const { start, end, quote, stop } = names;
  return {
    marks: [start, end, quote],
    openings: () => [start],
    stop,
    parse: (/** @type {Item[]} */ items) => parse(items, names),
    grammar: (/** @type {CallGrammarOptions} */ wanted) => grammar(wanted, names),
  };
}

/** @param {Item[]} items @param {CallMarks} names @returns {ParsedAnswer} */
function parse(items, { start, end: last, quote }) {
  /** @type {ParsedAnswer} */
  const said = { text: '', calls: [] };
  for (let at = 0; at < items.length; at++) {
    const item = items[at];
    if ('text' in item) said.text += item.text;
    else if (item.mark === start) {
      const end = items.findIndex((other, i) => i > at && 'mark' in other && other.mark === last);
      said.calls.push(...callOf(items.slice(at + 1, end < 0 ? undefined : end), quote, end >= 0));
      if (end < 0) break;
      at = end;
    }
  }
  return said;
}

/** Returns the call, or nothing if its name is incomplete. @param {Item[]} items the parts between the delimiters of a
 * call @param {string} quote @param {boolean} done @returns {Call[]} */
function callOf([first, ...rest], quote, done) {
  const [, name, args] = (first && 'text' in first && /^\s*call:([^{]*)(\{[^]*)$/.exec(first.text)) || [];
  if (name === undefined) return [];
  return [{ name: name.trim(), arguments: partialJson(jsonOf([{ text: args }, ...rest], quote)), done }];
}

/** @param {Item[]} items @param {string} quote */
function jsonOf(items, quote) {
  let json = '';
  let quoted = false;
  for (const item of items) {
    if ('mark' in item) {
      json += item.mark === quote ? '"' : '';
      quoted = item.mark === quote ? !quoted : quoted;
    } else if (quoted) json += JSON.stringify(item.text).slice(1, -1);
    else json += item.text.replace(BARE_KEY, (_, before, key) => `${before}${JSON.stringify(key)}:`);
  }
  return json;
}

/** Returns a tool in the form that the model's template expects: each schema has one type. @param {Tool} tool
 * @returns {Tool} */
export function declared(tool) {
  return { ...tool, parameters: typed(parametersOf(tool)) };
}

/** Returns a schema in which each part has one type: its first type that is not `null`, or '' if there is none.
 * @param {any} schema
 * @returns {any} */
function typed(schema) {
  if (typeof schema === 'boolean') return { type: '' };
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema;
  const { properties, items } = schema;
  const types = [schema.type].flat();
  const members = Object.entries(properties ?? {}).map(([name, value]) => [name, typed(value)]);
  return {
    ...schema,
    type: types.find((type) => type !== 'null') ?? types[0] ?? '',
    ...(properties && { properties: Object.fromEntries(members) }),
    ...(items && { items: typed(items) }),
  };
}

/** @param {CallGrammarOptions} wanted @param {CallMarks} names @returns {Grammar} */
function grammar(wanted, { start, end, quote, stop }) {
  const build = new Builder(wanted);
  const tools = build.tools(converter(build, build.mark(quote)), (as) => as);
  const able = fruitful(build.rules, () => true, build.budget);
  for (const { name, args, place } of tools) {
    if (!able.has(args.rule)) throw needsFreeNames(name, place);
  }
  const calls = choice(tools.map(({ name, args }) => sequence(literal(`call:${name}`), args)));
  const call = sequence(build.mark(start), calls, build.mark(end));
  const behind = stop ? optional(build.mark(stop)) : EMPTY;
  return build.grammar(build.answer(build.calls(call, EMPTY, behind), ANY_TEXT));
}

/** Returns a function that converts nodes of a JSON grammar to the unquoted form. @param {Builder} build
 * @param {Node} quote */
function converter(build, quote) {
  const text = (/** @type {Node} */ content) => sequence(quote, content, quote);
  const key = (/** @type {Node} */ name) => ('literal' in name && BARE.test(name.literal) ? name : text(name));
  // Leaves out properties without a fixed name, because calls contain declared parameters only.
  const order = new Ordering(build.rules, { key, sort: sorted, others: false }, build.budget);
  return eachOnce((node, visit) => {
    if ('jsonString' in node) return text(node.jsonString);
    return 'members' in node ? order.members(node, visit) : mapped(node, visit);
  });
}

/** Sorts properties as the model's template does, by Jinja's dictsort. @param {Member[]} members */
function sorted(members) {
  const folded = (/** @type {Member} */ { key }) => ('literal' in key ? key.literal.toLowerCase() : '');
  return members.sort((a, b) => (folded(a) < folded(b) ? -1 : Number(folded(a) > folded(b))));
}
