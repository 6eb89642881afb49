/*
 * simplify: a rule as numbers, without edges that it has twice, without states that nothing leads to, and with states
 * that go on alike as one (looked for in rounds, from the back to the front).
 */
/** @typedef {import('./automaton.js').Edge} Edge */
/** `ends`: where the edges of each state end; `how`, `label`, `to`: by edge (src/text/grammar.h).
 * @typedef {{ accept: boolean[], loop: number[], ends: number[], how: number[], label: number[], to: number[] }} Simple
 */

const ROUNDS = 8;
/** More states than any rule has. */
const STATES = 2 ** 22;

/** @param {Edge} edge */
const howOf = ({ kind, act, member }) => kind | (act << 2) | (Math.max(member, 0) << 5);

/** What edges do and read, as numbers of their own. */
class Letters {
  /** @type {Map<number, number>} */
  #known = new Map();
  /** @type {number[]} */
  how = [];
  /** @type {number[]} */
  label = [];

  /** @param {Edge} edge */
  of(edge) {
    const how = howOf(edge);
    const key = how * STATES + edge.label;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.#known.set(key, this.how.length);
    this.label.push(edge.label);
    return this.how.push(how) - 1;
  }
}

/** @param {number[]} list few ones, nearly sorted */
const sorted = (list) => (list.length > 1 ? Float64Array.from(list).sort() : list);

/** Edges of a state as sorted numbers, each once. @param {number[]} letters @param {Edge[]} edges
 * @param {Int32Array} same @returns {number[]} */
function keysOf(letters, edges, same) {
  const keys = sorted(edges.map(({ to }, i) => letters[i] * STATES + same[to]));
  const out = [];
  for (let i = 0; i < keys.length; i++) if (!i || keys[i] !== keys[i - 1]) out.push(keys[i]);
  return out;
}

/** @param {{ start: number, edges: Edge[][], accept: boolean[], loop: number[] }} rule @returns {Simple} */
export function simplified({ start, edges, accept, loop }) {
  const names = new Letters();
  const letters = edges.map((list) => list.map((edge) => names.of(edge)));
  const same = Int32Array.from(edges, (_, i) => i);
  /** @type {number[][]} */
  let keys = [];
  for (let round = 0, changed = true; changed && round < ROUNDS; round++) {
    keys = edges.map((list, i) => (same[i] === i ? keysOf(letters[i], list, same) : keys[i]));
    changed = merge(keys, same, (i) => (loop[i] * 2 + Number(accept[i])) * 2 + Number(i === start));
    for (let i = 0; i < same.length; i++) same[i] = same[same[i]];
  }
  return renumbered({ start, accept, loop }, keys, same, names);
}

/** States that go on alike become one. @param {number[][]} keys of their edges @param {Int32Array} same
 * @param {(state: number) => number} kind @returns whether there were any */
function merge(keys, same, kind) {
  let size = 16;
  while (size < 2 * keys.length) size *= 2;
  const table = new Int32Array(size).fill(-1);
  let changed = false;
  for (let i = keys.length - 1; i >= 0; i--) {
    if (same[i] !== i) continue;
    const own = kind(i);
    const list = keys[i];
    let hash = own;
    for (const key of list) hash = Math.imul(hash ^ key ^ (Math.floor(key / STATES) << 7), 0x9e3779b1);
    let slot = (hash ^ (hash >>> 15)) & (size - 1);
    for (; table[slot] >= 0; slot = (slot + 1) & (size - 1)) {
      const other = table[slot];
      if (kind(other) === own && isEqual(keys[other], list)) break;
    }
    if (table[slot] < 0) table[slot] = i;
    else {
      same[i] = table[slot];
      changed = true;
    }
  }
  return changed;
}

/** @param {number[]} a @param {number[]} b */
function isEqual(a, b) {
  let i = a.length === b.length ? 0 : -1;
  while (i >= 0 && i < a.length && a[i] === b[i]) i++;
  return i === a.length;
}

/** @param {{ start: number, accept: boolean[], loop: number[] }} rule @param {number[][]} keys
 * @param {Int32Array} same @param {Letters} names @returns {Simple} */
function renumbered({ start, accept, loop }, keys, same, names) {
  const place = new Int32Array(keys.length).fill(-1);
  const order = [start];
  /** @type {Simple} */
  const out = { accept: [], loop: [], ends: [], how: [], label: [], to: [] };
  place[start] = 0;
  for (let i = 0; i < order.length; i++) {
    const seen = new Set();
    for (const key of keys[order[i]]) {
      const letter = Math.floor(key / STATES);
      const next = same[key - letter * STATES];
      if (place[next] < 0) place[next] = order.push(next) - 1;
      if (seen.size !== seen.add(letter * STATES + next).size) {
        out.how.push(names.how[letter]);
        out.label.push(names.label[letter]);
        out.to.push(place[next]);
      }
    }
    out.ends.push(out.to.length);
    out.accept.push(accept[order[i]]);
    out.loop.push(loop[order[i]]);
  }
  return out;
}
