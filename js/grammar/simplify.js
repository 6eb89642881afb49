/* simplify: removes duplicate edges and equivalent states from a rule's automaton, and turns it into number lists. */
import { STATES, merge } from './regular.js';

/** @import { Edge } from './automaton.js' */
/** A simplified rule. ends: for each state, the end of its edges; how, label, to: for each edge, the fields described
 * in src/text/grammar.h.
 * @typedef {{ accept: boolean[], loop: number[], ends: number[], how: number[], label: number[], to: number[] }} Simple
 */

/** @param {Edge} edge */
const howOf = ({ kind, act, member }) => kind | (act << 2) | (Math.max(member, 0) << 5);

/** Returns the simplified rule. Its start is state 0.
 * @param {{ start: number, edges: Edge[][], accept: boolean[], loop: number[] }} rule @returns {Simple} */
export function simplified({ start, edges, accept, loop }) {
  /** @type {Map<number, number>} */
  const letters = new Map();
  /** @param {Edge} edge */
  const letterOf = (edge) => {
    const key = howOf(edge) * STATES + edge.label;
    const known = letters.get(key) ?? letters.size;
    letters.set(key, known);
    return known;
  };
  const own = edges.map((list) => list.map(letterOf));
  const targets = edges.map((list) => list.map(({ to }) => to));
  /** @param {number} state @param {(to: number) => number} name */
  const keyOf = (state, name) => {
    const list = targets[state];
    const kind = -1 - (loop[state] * 2 + Number(accept[state])) * 2 - Number(state === start);
    if (list.length === 1) return [kind, own[state][0] * STATES + name(list[0])];
    const key = new Float64Array(list.length + 1);
    for (let i = 0; i < list.length; i++) key[i + 1] = own[state][i] * STATES + name(list[i]);
    key[0] = kind;
    key.sort();
    let n = 1;
    for (let i = 1; i < key.length; i++) if (key[i] !== key[n - 1]) key[n++] = key[i];
    return key.subarray(0, n);
  };
  const { kept, place } = merge(start, targets, keyOf);
  /** @type {Simple} */
  const out = { accept: [], loop: [], ends: [], how: [], label: [], to: [] };
  for (const state of kept.reverse()) {
    const seen = new Set();
    edges[state].forEach((edge, i) => {
      const to = kept.length - 1 - place[edge.to];
      if (seen.size === seen.add(own[state][i] * STATES + to).size) return;
      out.how.push(howOf(edge));
      out.label.push(edge.label);
      out.to.push(to);
    });
    out.ends.push(out.to.length);
    out.accept.push(accept[state]);
    out.loop.push(loop[state]);
  }
  return out;
}
