/* build: builds grammars of answers that may call tools, from text, calls and the grammars of the tools' schemas. The
 * dialects (dialects.js) use it. */
import { ANY_TEXT, EMPTY, choice, except, literal, optional, repeat, sequence } from '../grammar/nodes.js';
import { eachOnce, mapped, ordered } from '../grammar/ordered.js';
import { notObject } from './errors.js';
import { checkKeywords } from '../grammar/schema.js';
import { parametersOf } from './messages.js';

/** @import { ToolSpec as Tool } from '../protocol.js' */
/** @import { Grammar, Node } from '../grammar/nodes.js' */

/** Input for a grammar of answers. id: returns the id of the token with a name, or null; control: returns whether an id
 * is a control token; schema: compiles a schema into a grammar of its JSON texts; choice: whether the answer must call
 * tools, or which one; text: grammar of an answer without calls, if it has a format.
 * @typedef {{ budget: import('../grammar/refusal.js').Budget, text?: Grammar | null,
 *   tools: Tool[], choice: 'auto' | 'required' | { name: string }, id: (name: string) => number | null,
 *   control: (id: number) => boolean, schema: (schema: any, place: string) => Grammar }} CallGrammarOptions */

/** Builds the grammar of one answer. */
export class Builder {
  /** @type {Record<string, Node>} */
  rules = {};
  #wanted;

  /** @param {CallGrammarOptions} wanted */
  constructor(wanted) {
    this.#wanted = wanted;
  }

  /** Work budget of the compilation. */
  get budget() {
    return this.#wanted.budget;
  }

  /** Returns the callable tools, each with the grammar of its arguments. Throws `bad-format` for unusable `parameters`.
   * @param {(node: Node) => Node} change maps the node of each rule of the arguments
   * @param {(grammar: Grammar) => Grammar} [order] fixes the order of properties
   * @returns {{ name: string, args: { rule: string }, place: string }[]} place: JSON pointer of its parameters */
  tools(change, order = (grammar) => ordered(grammar, this.budget)) {
    const { tools, choice: only, schema } = this.#wanted;
    const named = typeof only === 'string' ? tools : tools.filter(({ name }) => name === only.name);
    return named.map((tool) => {
      // A tool without `parameters` has no arguments: only an empty object matches.
      const { name } = tool;
      const parameters = tool.parameters ? parametersOf(tool) : { type: 'object', maxProperties: 0 };
      const place = `/tools/${tools.indexOf(tool)}/parameters`;
      // Checks the original schema, because parametersOf() adds a type: with it, a schema without any other keyword
      // that limits values would pass.
      checkKeywords(tool.parameters ?? {}, place);
      if (parameters.type !== 'object') throw notObject(name, `${place}/type`);
      return { name, args: this.#taken(order(schema(parameters, place)), `${name} `, change), place };
    });
  }

  /** Adds a grammar's rules under prefixed names. Returns a reference to the start rule. @param {Grammar} grammar
   * @param {string} prefix @param {(node: Node) => Node} change */
  #taken({ rules, start }, prefix, change) {
    const renamed = eachOnce((node, visit) => ('rule' in node ? { rule: prefix + node.rule } : mapped(node, visit)));
    for (const [name, node] of Object.entries(rules)) this.rules[prefix + name] = change(renamed(node));
    return { rule: prefix + start };
  }

  /** Returns a node for the token `name`, or for the name as text if there is no such token. @param {string} name
   * @returns {Node} */
  mark(name) {
    const id = this.#wanted.id(name);
    return id === null ? literal(name) : { token: id };
  }

  /** Returns a node for texts without the delimiter `mark`. A control token cannot occur in text anyway; another
   * delimiter is excluded by its spelling. @param {string} mark
   * @param {string[]} words control tokens that are allowed between texts @returns {Node} */
  words(mark, words) {
    const { id, control } = this.#wanted;
    const isControl = (/** @type {string} */ name) => control(id(name) ?? -1);
    const text = isControl(mark) ? ANY_TEXT : except(ANY_TEXT, sequence(ANY_TEXT, literal(mark), ANY_TEXT));
    const said = words.filter(isControl).map((name) => this.mark(name));
    return said.length ? sequence(text, repeat(sequence(choice(said), text), 0, Infinity)) : text;
  }

  /** Returns the grammar of one call, or of several if the tool choice allows it. @param {Node} call
   * @param {Node} between @param {Node} [behind] what follows the last call */
  calls(call, between, behind = EMPTY) {
    const more = this.several ? repeat(sequence(between, call), 0, Infinity) : EMPTY;
    return sequence(call, more, behind);
  }

  /** Returns the grammar of an answer: calls or, with the tool choice `auto`, text before or instead of them. Text
   * in a format can only replace calls, not precede them. @param {Node} calls @param {Node} words */
  answer(calls, words) {
    const free = this.#wanted.choice === 'auto' && !this.#wanted.text;
    return free ? sequence(words, optional(calls)) : this.either(calls, words);
  }

  /** Returns the grammar of an answer: calls or, with the tool choice `auto`, text instead of calls. The text is
   * `words`, or follows the format. @param {Node} calls @param {Node} words */
  either(calls, words) {
    const { choice: wanted, text } = this.#wanted;
    // The prefix of a format's rules is a space, which no tool name has, so the prefix is unique.
    return wanted === 'auto' ? choice([text ? this.#taken(text, ' ', (node) => node) : words, calls]) : calls;
  }

  /** Whether an answer may have several calls: not if the tool choice names a tool. */
  get several() {
    return typeof this.#wanted.choice === 'string';
  }

  /** Returns a grammar with the rules that were added so far.
   * @param {Node} start node of the start rule @returns {Grammar} */
  grammar(start) {
    return { rules: { ...this.rules, answer: start }, start: 'answer' };
  }
}

/** Returns a function that adds a space after each colon and comma to nodes of compact JSON. Python's json.dumps writes
 * this form, so models have seen it most often. */
export const spacing = () =>
  eachOnce((node, visit) => {
    if ('literal' in node) return node.literal === ',' || node.literal === ':' ? literal(`${node.literal} `) : node;
    return 'jsonString' in node ? node : mapped(node, visit);
  });
