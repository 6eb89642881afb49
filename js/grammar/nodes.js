/*
 * nodes: the intermediate representation of a grammar, which all format compilers produce and lower.js compiles. A
 * grammar has named rules, and a rule is a tree of nodes. Only regular nodes (no tokens, JSON strings, objects or
 * recursive rules) can be intersected and subtracted.
 */
import { ANY } from './ranges.js';

/** @import { Ranges } from './ranges.js' */
/** A DFA over code points. `edges[state]` are sorted, disjoint ranges and their targets.
 * @typedef {{ start: number, accept: number[], edges: [number, number, number][][] }} Automaton */
/** One or several properties of a JSON object. key: regular node for their unescaped names; once: whether only one of
 * them may occur.
 * @typedef {{ key: Node, value: Node, required: boolean, once: boolean }} Member */
/** The properties of a JSON object in any order, without the braces. min, max: bounds for their number.
 * @typedef {{ members: Member[], colon: Node, comma: Node, min: number, max: number }} Members */
/** @typedef {{ literal: string } | { chars: Ranges } | { sequence: Node[] } | { choice: Node[] }
 *   | { repeat: Node, min: number, max: number } | { rule: string } | { both: Node[] } | { except: [Node, Node] }
 *   | { jsonString: Node } | { token: number } | { automaton: Automaton } | Members} Node */
/** @typedef {{ rules: Record<string, Node>, start: string }} Grammar */

/** The node that matches no text. @type {Node} */
export const NOTHING = Object.freeze({ choice: [] });
/** The node that matches only the empty text. @type {Node} */
export const EMPTY = Object.freeze({ sequence: [] });
/** The node that matches any one code point. @type {Node} */
export const ANY_CHAR = Object.freeze({ chars: ANY });
/** The node that matches any text. @type {Node} */
export const ANY_TEXT = Object.freeze({ repeat: ANY_CHAR, min: 0, max: Infinity });

/** Returns whether a node is a choice without alternatives, such as NOTHING. Other nodes may match no text either.
 * @param {Node} node */
export const isNothing = (node) => 'choice' in node && node.choice.length === 0;
/** @param {Node} node */
const isEmpty = (node) =>
  ('sequence' in node && node.sequence.length === 0) || ('literal' in node && node.literal === '');

/** Returns whether a text has a lone surrogate, which cannot be encoded in UTF-8. @param {string} text */
export const hasHalfPair = (text) => /[\ud800-\udfff]/u.test(text);

/** Returns the node that matches one text. @param {string} text @returns {Node} */
export const literal = (text) => (text === '' ? EMPTY : { literal: text });

/** Returns the node that matches one code point of a set; NOTHING for the empty set.
 * @param {Ranges} ranges @returns {Node} */
export const chars = (ranges) => (ranges.length ? { chars: ranges } : NOTHING);

/** Returns a node for a sequence, without empty parts and nested sequences; NOTHING if a part is NOTHING.
 * @param {...Node} nodes @returns {Node} */
export function sequence(...nodes) {
  if (nodes.some(isNothing)) return NOTHING;
  const parts = [];
  for (const node of nodes) {
    if (!('sequence' in node)) isEmpty(node) || parts.push(node);
    else for (const part of node.sequence) parts.push(part);
  }
  return parts.length === 1 ? parts[0] : parts.length ? { sequence: parts } : EMPTY;
}

/** Returns a node for a choice, without duplicates and nested choices; NOTHING without alternatives.
 * @param {Node[]} nodes @returns {Node} */
export function choice(nodes) {
  const whole = [...new Set(nodes)];
  if (whole.length === 1) return whole[0];
  const parts = [...new Set(whole.flatMap((node) => ('choice' in node ? node.choice : [node])))];
  return parts.length === 1 ? parts[0] : parts.length ? { choice: parts } : NOTHING;
}

/** Returns a node for `min` to `max` repetitions; NOTHING if `max` is less than `min`.
 * @param {Node} node @param {number} min @param {number} max Infinity for no limit @returns {Node} */
export function repeat(node, min, max) {
  if (max < min) return NOTHING;
  if (max === 0 || isEmpty(node)) return EMPTY;
  if (isNothing(node)) return min === 0 ? EMPTY : NOTHING;
  return min === 1 && max === 1 ? node : { repeat: node, min, max };
}

/** Returns a node that matches a node's texts and the empty text. @param {Node} node */
export const optional = (node) => repeat(node, 0, 1);

/** Returns a node for an intersection.
 * @param {Node[]} nodes regular nodes, all of which a text must match @returns {Node} */
export function both(nodes) {
  if (nodes.some(isNothing)) return NOTHING;
  const parts = [...new Set(nodes.filter((node) => node !== ANY_TEXT))];
  return parts.length === 1 ? parts[0] : parts.length ? { both: parts } : ANY_TEXT;
}

/** Returns a node for the texts of `from` that `without` does not match.
 * @param {Node} from @param {Node} without regular nodes @returns {Node} */
export function except(from, without) {
  if (isNothing(from) || isNothing(without)) return from;
  return without === ANY_TEXT || from === without ? NOTHING : { except: [from, without] };
}

/** Returns the children of a node, none for a leaf. For an object, keys become JSON strings.
 * @param {Node} node @returns {Node[]} */
export function partsOf(node) {
  if ('sequence' in node) return node.sequence;
  if ('choice' in node) return node.choice;
  if ('repeat' in node) return [node.repeat];
  if ('both' in node) return node.both;
  if ('except' in node) return node.except;
  if ('jsonString' in node) return [node.jsonString];
  if ('members' in node) {
    return [...node.members.flatMap(({ key, value }) => [{ jsonString: key }, value]), node.colon, node.comma];
  }
  return [];
}

/** Returns the names of the rules to which a node refers. @param {Node} node @param {() => void} spend called for each
 * part of the node */
export function ruleNames(node, spend) {
  /** @type {Set<string>} */
  const names = new Set();
  const seen = new Set();
  for (const open = [node]; open.length; ) {
    const next = /** @type {Node} */ (open.pop());
    if (seen.has(next)) continue;
    seen.add(next);
    spend();
    if ('rule' in next) names.add(next.rule);
    for (const part of partsOf(next)) open.push(part);
  }
  return names;
}

/** @type {WeakMap<object, [number, number]>} */
const measured = new WeakMap();

/** Returns the minimum and maximum length, in code points, of the texts that a regular node matches. For intersections
 * and differences, the real limits may be narrower. @param {Node} node @returns {[number, number]} */
export function lengths(node) {
  const known = measured.get(node);
  if (known) return known;
  const found = measure(node);
  measured.set(node, found);
  return found;
}

/** @param {Node} node @returns {[number, number]} */
function measure(node) {
  if ('literal' in node) {
    const { length } = [...node.literal];
    return [length, length];
  }
  if ('chars' in node) return [1, 1];
  if ('except' in node) return lengths(node.except[0]);
  if ('repeat' in node) {
    const [least, most] = lengths(node.repeat);
    return [least * node.min, most ? most * node.max : 0];
  }
  const parts = partsOf(node).map(lengths);
  if ('sequence' in node) return parts.reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  if ('choice' in node) return parts.reduce(([a, b], [c, d]) => [Math.min(a, c), Math.max(b, d)], [Infinity, 0]);
  if ('both' in node) return parts.reduce(([a, b], [c, d]) => [Math.max(a, c), Math.min(b, d)], [0, Infinity]);
  return [0, Infinity];
}

/** Restricts a regular node to texts of `min` to `max` code points. If the length of only one part varies, changes that
 * part's repetition count; otherwise adds an intersection. @param {Node} node @param {number} min @param {number} max
 * @returns {Node} */
export function ofLength(node, min, max) {
  const [least, most] = lengths(node);
  if (min <= least && max >= most) return node;
  if (max < least || min > most) return NOTHING;
  if (node === ANY_TEXT) return repeat(ANY_CHAR, min, max);
  const parts = 'sequence' in node ? node.sequence : [node];
  const varying = parts.findIndex((part) => lengths(part)[0] !== lengths(part)[1]);
  const part = parts[varying];
  const fixed = least - (part ? lengths(part)[0] : 0);
  const rest = parts.filter((_, i) => i !== varying).reduce((sum, one) => sum + lengths(one)[1], 0);
  if (part && rest === fixed && 'repeat' in part && lengths(part.repeat).join() === '1,1') {
    const counted = repeat(part.repeat, Math.max(part.min, min - fixed), Math.min(part.max, max - fixed));
    return sequence(...parts.slice(0, varying), counted, ...parts.slice(varying + 1));
  }
  return both([node, repeat(ANY_CHAR, min <= least ? 0 : min, max >= most ? Infinity : max)]);
}
