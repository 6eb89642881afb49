/* build: grammars of answers with calls: what is said in words, calls, and the grammars of the tools' schemas under
 * new names. */
import { ANY_CHAR, ANY_TEXT, choice, except, literal, optional, repeat, sequence } from '../grammar/nodes.js';
import { eachOnce, mapped, ordered } from '../grammar/ordered.js';
import { Unsupported } from '../grammar/refusal.js';
import { parametersOf } from './messages.js';

/** @import { ToolSpec as Tool } from '../protocol.js' */
/** @import { Grammar, Node } from '../grammar/nodes.js' */

/** id: of a token by its name, null where the vocabulary has none; control: whether no text is ever that token;
 * schema: a grammar of JSON texts; choice: whether there must be calls, or of what; budget: of the compilation.
 * @typedef {{ budget?: import('../grammar/refusal.js').Budget,
 *   tools: Tool[], choice: 'auto' | 'required' | { name: string }, id: (name: string) => number | null,
 *   control: (id: number) => boolean, schema: (schema: any, place: string) => Grammar }} Wanted */

/** A grammar that is being put together. */
export class Builder {
  /** @type {Record<string, Node>} */
  rules = {};
  #wanted;

  /** @param {Wanted} wanted */
  constructor(wanted) {
    this.#wanted = wanted;
  }

  get budget() {
    return this.#wanted.budget;
  }

  /** The tools that may be called, each with its arguments. @param {(node: Node) => Node} change of those
   * @param {(grammar: Grammar) => Grammar} [order] of members
   * @returns {{ name: string, args: Node }[]} */
  tools(change, order = (grammar) => ordered(grammar, this.budget)) {
    const { tools, choice: only, schema } = this.#wanted;
    const named = typeof only === 'string' ? tools : tools.filter(({ name }) => name === only.name);
    return named.map((tool) => {
      // A tool without parameters takes none.
      const { name } = tool;
      const parameters = tool.parameters ? parametersOf(tool) : { type: 'object', maxProperties: 0 };
      const place = `/tools/${tools.indexOf(tool)}/parameters`;
      if (parameters.type !== 'object') {
        throw new Unsupported(`parameters of the tool ${name} that are not of the type object`, `${place}/type`);
      }
      return { name, args: this.#taken(order(schema(parameters, place)), `${name} `, change) };
    });
  }

  /** @param {Grammar} grammar @param {string} prefix @param {(node: Node) => Node} change @returns {Node} */
  #taken({ rules, start }, prefix, change) {
    const renamed = eachOnce((node, visit) => ('rule' in node ? { rule: prefix + node.rule } : mapped(node, visit)));
    for (const [name, node] of Object.entries(rules)) this.rules[prefix + name] = change(renamed(node));
    return { rule: prefix + start };
  }

  /** A token by its name, or where there is none its text. @param {string} name @returns {Node} */
  mark(name) {
    const id = this.#wanted.id(name);
    return id === null ? literal(name) : { token: id };
  }

  /** Words in which no mark of these can be read: where no token stands for it, or one that texts may be. Some control
   * tokens are words too. @param {string[]} marks @param {string[]} [words] @returns {Node} */
  words(marks, words = []) {
    const { id, control } = this.#wanted;
    const isControl = (/** @type {string} */ name) => control(id(name) ?? -1);
    const read = marks.filter((name) => !isControl(name)).map((name) => sequence(ANY_TEXT, literal(name), ANY_TEXT));
    const text = read.length ? except(ANY_TEXT, choice(read)) : ANY_TEXT;
    const said = words.filter(isControl).map((name) => this.mark(name));
    return said.length ? sequence(text, repeat(sequence(choice(said), text), 0, Infinity)) : text;
  }

  /** One call, or as many as are liked; or words before them or instead of them.
   * @param {Node} call @param {Node} between @param {Node} words */
  answer(call, between, words) {
    const calls = this.several ? sequence(call, repeat(sequence(between, call), 0, Infinity)) : call;
    return this.mayAnswer ? sequence(words, optional(calls)) : calls;
  }

  get mayAnswer() {
    return this.#wanted.choice === 'auto';
  }

  get several() {
    return typeof this.#wanted.choice === 'string';
  }

  /** @param {Node} start @returns {Grammar} */
  grammar(start) {
    return { rules: { ...this.rules, answer: start }, start: 'answer' };
  }
}

/** A grammar of JSON without white space with a blank behind each colon and comma, as Python's json.dumps writes it:
 * that is what models have seen most. @param {Node} node @returns {Node} */
export function spaced(node) {
  if ('literal' in node) return node.literal === ',' || node.literal === ':' ? literal(`${node.literal} `) : node;
  return 'jsonString' in node ? node : mapped(node, spaced);
}

/** A text that does not begin with a sign. @param {number} sign @returns {Node} */
export function notFirst(sign) {
  const [low, high] = /** @type {{ chars: [number, number][] }} */ (ANY_CHAR).chars;
  const others = { chars: /** @type {[number, number][]} */ ([[low[0], sign - 1], [sign + 1, low[1]], high]) };
  return optional(sequence(others, ANY_TEXT));
}
