/* functiongemma: how FunctionGemma writes a call: `call:NAME{key:value,…}` between two control tokens, texts between
 * `<escape>` tokens, keys and all else bare (ai.google.dev/gemma/docs/functiongemma). To be read it is turned into
 * JSON; the grammar of a tool's schema, which is one of JSON texts, is turned the other way. */
import { ANY_TEXT, EMPTY, choice, literal, sequence } from '../grammar/nodes.js';
import { Ordering, eachOnce, mapped } from '../grammar/ordered.js';
import { Builder } from './build.js';
import { parametersOf } from './messages.js';
import { partialJson } from './partial.js';

/** @import { PartialCall as Call, ToolSpec as Tool } from '../protocol.js' */
/** @import { Grammar, Member, Node } from '../grammar/nodes.js' */
/** @import { Wanted } from './build.js' */
/** @import { Item, Said } from './reading.js' */

export const MARKS = ['<start_function_call>', '<end_function_call>', '<escape>'];
const [START, END, ESCAPE] = MARKS;
/** A name that can stand as it is. */
const BARE = /^[^\s:{}[\],"]+$/;
/** A key that needs no quotes, in a bare text: behind a brace or a comma. */
const BARE_KEY = /([{,]\s*)([^\s:{}[\],"]+)\s*:/g;

/** @param {Item[]} items @returns {Said} */
export function parse(items) {
  /** @type {Said} */
  const said = { text: '', calls: [] };
  for (let at = 0; at < items.length; at++) {
    const item = items[at];
    if ('text' in item) said.text += item.text;
    else if (item.mark === START) {
      const end = items.findIndex((other, i) => i > at && 'mark' in other && other.mark === END);
      said.calls.push(...callOf(items.slice(at + 1, end < 0 ? undefined : end), end >= 0));
      if (end < 0) break;
      at = end;
    }
  }
  return said;
}

/** @param {Item[]} items between the two marks @param {boolean} done @returns {Call[]} */
function callOf([first, ...rest], done) {
  const [, name, args] = (first && 'text' in first && /^\s*call:([^{]*)(\{[^]*)$/.exec(first.text)) || [];
  if (name === undefined) return [];
  return [{ name: name.trim(), arguments: partialJson(jsonOf([{ text: args }, ...rest])), done }];
}

/** @param {Item[]} items */
function jsonOf(items) {
  let json = '';
  let quoted = false;
  for (const item of items) {
    if ('mark' in item) {
      json += item.mark === ESCAPE ? '"' : '';
      quoted = item.mark === ESCAPE ? !quoted : quoted;
    } else if (quoted) json += JSON.stringify(item.text).slice(1, -1);
    else json += item.text.replace(BARE_KEY, (_, before, key) => `${before}${JSON.stringify(key)}:`);
  }
  return json;
}

/** A tool as the model's template takes it: that writes one type of each value. @param {Tool} tool @returns {Tool} */
export function declared(tool) {
  return { ...tool, parameters: typed(parametersOf(tool)) };
}

/** None is written as nothing. @param {any} schema @returns {any} */
function typed(schema) {
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

/** @param {Wanted} wanted @returns {Grammar} */
export function grammar(wanted) {
  const build = new Builder(wanted);
  const turn = new Turning(build);
  const tools = build.tools(
    (node) => turn.node(node),
    (as) => as,
  );
  const calls = choice(tools.map(({ name, args }) => sequence(literal(`call:${name}`), args)));
  const call = sequence(build.mark(START), calls, build.mark(END));
  return build.grammar(build.answer(call, EMPTY, ANY_TEXT));
}

/** Grammars of JSON texts turned into those of bare ones. */
class Turning {
  #escape;
  #order;

  /** @param {Builder} build */
  constructor(build) {
    this.#escape = build.mark(ESCAPE);
    // Those without names are left out: calls have none that is not asked for.
    this.#order = new Ordering(
      build.rules,
      { key: (name) => this.#key(name), sort: sorted, others: false },
      build.budget,
    );
  }

  node = eachOnce((node, visit) => {
    if ('jsonString' in node) return this.#text(node.jsonString);
    return 'members' in node ? this.#order.members(node, visit) : mapped(node, visit);
  });

  /** @param {Node} language @returns {Node} */
  #text(language) {
    return sequence(this.#escape, language, this.#escape);
  }

  /** @param {Node} name @returns {Node} */
  #key(name) {
    return 'literal' in name && BARE.test(name.literal) ? name : this.#text(name);
  }
}

/** In the order of the model's template, which is that of Jinja's dictsort. @param {Member[]} members */
function sorted(members) {
  const folded = (/** @type {Member} */ { key }) => ('literal' in key ? key.literal.toLowerCase() : '');
  return members.sort((a, b) => (folded(a) < folded(b) ? -1 : Number(folded(a) > folded(b))));
}
