/*
 * ordered: rewrites a grammar so that JSON objects have their properties in the order of the schema. Answers use it, to
 * make the next name predictable. Texts that are only validated may have any order.
 */
import { EMPTY, NOTHING, choice, repeat, sequence } from './nodes.js';
import { bounded } from './refusal.js';

/** @import { Grammar, Member, Members, Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */
/** How to write JSON objects. key: returns the node for a property's name; sort: orders the named properties; others:
 * whether properties without a fixed name may follow.
 * @typedef {{ key: (name: Node) => Node, sort?: (names: Member[]) => Member[], others?: boolean }} Writing */
/** @typedef {{ parts: { required: boolean, node: Node }[], rest: Node, comma: Node, min: number, max: number,
 *   prefix: string }} List */

/** Returns the grammar with properties in the order of the schema. @param {Grammar} grammar
 * @param {Budget} [budget] @returns {Grammar} */
export function ordered({ rules, start }, budget) {
  /** @type {Grammar['rules']} */
  const made = Object.create(null);
  const order = new Ordering(made, { key: (name) => ({ jsonString: name }) }, budget);
  return bounded(() => {
    for (const [name, node] of Object.entries(rules)) made[name] = order.node(node);
    return { rules: made, start };
  });
}

/** Orders the properties of JSON objects. Adds to a grammar the rules that the order needs. */
export class Ordering {
  #rules;
  #writing;
  #budget;
  #objects = 0;
  /** Functions that build referenced rules. Deferring them avoids recursion: an object may have tens of thousands of
   * properties. @type {(() => void)[]} */
  #open = [];

  /** @param {Grammar['rules']} rules @param {Writing} writing @param {Budget} [budget] */
  constructor(rules, writing, budget) {
    this.#rules = rules;
    this.#writing = writing;
    this.#budget = budget;
  }

  /** Returns a copy of a node in which every object has its properties in order. */
  node = eachOnce((node, visit) => {
    this.#budget?.spend('');
    return 'members' in node ? this.members(node, visit) : mapped(node, visit);
  });

  /** Returns a node for the properties of an object in order. Adds its rules to the grammar.
   * @param {Members} node @param {(value: Node) => Node} value maps the node of a property's value @returns {Node} */
  members({ members, colon, comma, min, max }, value) {
    const { key, sort = (list) => list, others = true } = this.#writing;
    const written = (/** @type {Member} */ member) => sequence(key(member.key), colon, value(member.value));
    const named = sort(members.filter(({ once }) => once));
    const free = members.filter(({ once }) => !once);
    // Required properties without a fixed name follow those with a fixed name.
    const needed = free.filter(({ required }) => required);
    const parts = [...named, ...needed].map((member) => ({ required: member.required, node: written(member) }));
    const rest = others ? choice(free.map(written)) : NOTHING;
    const first = this.#tail({ parts, rest, comma, min, max, prefix: `object ${this.#objects++}` }, 0, 0);
    for (let make = this.#open.pop(); make; make = this.#open.pop()) make();
    return first;
  }

  /** Returns the node for the rest of a JSON object: properties from index `at` on, after `count` properties were
   * written. @param {List} list @param {number} at @param {number} count @returns {Node} */
  #tail(list, at, count) {
    const { parts, rest, comma, min, max, prefix } = list;
    if (count > max) return NOTHING;
    if (at === parts.length) return this.#rest(rest, comma, min - count, max - count, count > 0);
    const rule = `${prefix} ${at} ${count}`;
    if (rule in this.#rules) return { rule };
    this.#budget?.spend('', 4);
    this.#rules[rule] = NOTHING;
    this.#open.push(() => {
      const { required, node } = parts[at];
      // If the number of properties is not limited, `count` only tells whether the next property needs a comma.
      const most = rest === NOTHING ? parts.length : Infinity;
      const next = min > 1 || max < most ? count + 1 : 1;
      const taken = sequence(count ? comma : EMPTY, node, this.#tail(list, at + 1, next));
      this.#rules[rule] = required ? taken : choice([taken, this.#tail(list, at + 1, count)]);
    });
    return { rule };
  }

  /** Returns the node for `min` to `max` properties without a fixed name. @param {Node} node matches one property
   * @param {Node} comma @param {number} min @param {number} max @param {boolean} behind whether other properties
   * precede these @returns {Node} */
  #rest(node, comma, min, max, behind) {
    if (behind) return repeat(sequence(comma, node), Math.max(min, 0), max);
    const some = max < 1 ? NOTHING : sequence(node, repeat(sequence(comma, node), Math.max(min - 1, 0), max - 1));
    return min > 0 ? some : choice([EMPTY, some]);
  }
}

/** Returns a function that maps nodes by `change` and caches the results. Nodes share parts, so visiting a part at each
 * use could take exponential time.
 * @param {(node: Node, visit: (node: Node) => Node) => Node} change @returns {(node: Node) => Node} */
export function eachOnce(change) {
  /** @type {Map<Node, Node>} */
  const done = new Map();
  const visit = (/** @type {Node} */ node) => {
    const known = done.get(node);
    if (known) return known;
    const changed = change(node, visit);
    done.set(node, changed);
    return changed;
  };
  return visit;
}

/** Returns a copy of a node with its children mapped by `change`. @param {any} node
 * @param {(node: Node) => Node} change @returns {Node} */
export function mapped(node, change) {
  if ('sequence' in node) return { sequence: node.sequence.map(change) };
  if ('choice' in node) return { choice: node.choice.map(change) };
  if ('both' in node) return { both: node.both.map(change) };
  if ('except' in node) return { except: /** @type {[Node, Node]} */ (node.except.map(change)) };
  if ('repeat' in node) return { ...node, repeat: change(node.repeat) };
  if ('jsonString' in node) return { jsonString: change(node.jsonString) };
  if (!('members' in node)) return node;
  const members = node.members.map((/** @type {any} */ member) => {
    return { ...member, key: change(member.key), value: change(member.value) };
  });
  return { ...node, members, colon: change(node.colon), comma: change(node.comma) };
}
