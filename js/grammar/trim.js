/*
 * trim: removes rules that match no text (a contradictory schema, endless recursion), and the alternatives and optional
 * properties that need them. Otherwise an answer could begin a rule that it can never complete.
 */
import { EMPTY, NOTHING, choice, isNothing, repeat, sequence } from './nodes.js';
import { eachOnce } from './ordered.js';
import { contradiction } from './errors.js';

/** @import { Languages } from './language.js' */
/** @import { Grammar, Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */

/** Returns the names of the rules that match some text. @param {Grammar['rules']} rules
 * @param {(node: Node) => boolean} hasText whether a regular node matches some text @param {Budget} budget */
export function fruitful(rules, hasText, budget) {
  /** @type {Set<string>} */
  const good = new Set();
  /** @type {Map<string, Set<string>>} */
  const waiting = new Map();
  const open = Object.keys(rules);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (good.has(name)) continue;
    budget.spend('', 2);
    /** @type {Set<string>} */
    const missing = new Set();
    if (!endsBy(good, missing, hasText, budget)(rules[name])) {
      for (const other of missing) waiting.set(other, (waiting.get(other) ?? new Set()).add(name));
      continue;
    }
    good.add(name);
    open.push(...(waiting.get(name) ?? []));
  }
  return good;
}

/** Returns a function that decides whether a node matches some text, assuming that only the rules in `good` do. Visits
 * each node once, because there may be very many paths to a shared node. @param {Set<string>} good
 * @param {Set<string>} missing collects needed rules that are not in `good` @param {(node: Node) => boolean} hasText
 * @param {Budget} budget @returns {(node: Node) => boolean} */
function endsBy(good, missing, hasText, budget) {
  /** @type {Map<Node, boolean>} */
  const known = new Map();
  const ends = (/** @type {Node} */ node) => {
    if ('literal' in node) return true;
    const before = known.get(node);
    if (before !== undefined) return before;
    budget.spend('', 1 / 4);
    const found = endsIn(node);
    known.set(node, found);
    return found;
  };
  /** @param {Node} node @returns {boolean} */
  const endsIn = (node) => {
    if ('rule' in node) {
      if (!good.has(node.rule)) missing.add(node.rule);
      return good.has(node.rule);
    }
    if ('sequence' in node) return node.sequence.every(ends);
    if ('choice' in node) return node.choice.some(ends);
    if ('repeat' in node) return node.min === 0 || ends(node.repeat);
    if ('members' in node) {
      const able = node.members.map(({ value }) => ends(value));
      const count = node.members.reduce((sum, { once }, i) => sum + (able[i] ? (once ? 1 : Infinity) : 0), 0);
      return count >= node.min && node.members.every(({ required }, i) => !required || able[i]);
    }
    return 'token' in node || hasText(node);
  };
  return ends;
}

/** Returns a function that prunes a node. Visits shared nodes once. @param {(node: Node) => boolean} ends
 * @param {string[]} names collects the rules to which pruned nodes refer @param {Budget} budget */
const pruning = (ends, names, budget) =>
  eachOnce((node, inner) => {
    budget.spend('', 2);
    if ('sequence' in node) return ends(node) ? sequence(...node.sequence.map(inner)) : NOTHING;
    if ('choice' in node) return choice(node.choice.map(inner).filter((part) => !isNothing(part)));
    if ('repeat' in node) {
      return ends(node.repeat) ? repeat(inner(node.repeat), node.min, node.max) : node.min ? NOTHING : EMPTY;
    }
    if ('members' in node) {
      const members = node.members.filter(({ value }) => ends(value));
      if (!ends(node)) return NOTHING;
      const most = members.every(({ once }) => once) ? members.length : Infinity;
      const left = members.map((one) => ({ ...one, value: inner(one.value) }));
      return { ...node, members: left, max: Math.min(node.max, most) };
    }
    if (!ends(node)) return NOTHING;
    if ('rule' in node) names.push(node.rule);
    return node;
  });

/** Returns the grammar without rules and alternatives that match no text. Throws `Unsupported` if nothing is left.
 * @param {Grammar} grammar @param {Languages} languages @param {Budget} budget @returns {Grammar} */
export function trimmed(grammar, languages, budget) {
  /** @type {Map<Node, boolean>} */
  const known = new Map();
  const hasText = (/** @type {Node} */ node) => {
    const before = known.get(node);
    if (before !== undefined) return before;
    const some = !languages.isEmpty('jsonString' in node ? node.jsonString : node);
    known.set(node, some);
    return some;
  };
  const good = fruitful(grammar.rules, hasText, budget);
  if (!good.has(grammar.start)) throw contradiction('value');
  /** @type {Grammar['rules']} */
  const rules = Object.create(null);
  /** @type {string[]} */
  const open = [grammar.start];
  const pruned = pruning(endsBy(good, new Set(), hasText, budget), open, budget);
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (name in rules) continue;
    budget.spend('', 2);
    rules[name] = pruned(grammar.rules[name]);
  }
  return { rules, start: grammar.start };
}
