/*
 * regular: compiles intersections and differences of regular nodes to DFAs over code points: subset construction (M. O.
 * Rabin and D. Scott, 1959), product, removal of dead states, merging of equivalent states. Edges are labelled with
 * ranges of code points, which are split only where a state needs it.
 */
import { notRegular, tooManyStates } from './errors.js';

/** @import { Automaton, Node } from './nodes.js' */
/** @typedef {[lo: number, hi: number, to: number]} Edge */
/** A DFA. edges: by state, sorted and disjoint; accept: by state. Every state can reach an accepting state.
 * @typedef {{ start: number, accept: boolean[], edges: Edge[][] }} Dfa */
/** A DFA that is explored lazily. `next` returns sorted, disjoint edges.
 * @typedef {{ start: number, accepts: (state: number) => boolean, next: (state: number) => Edge[] }} Lazy */
/** Functions of lower.js. regularRule: returns the node of a rule, which must not be recursive; spend: spends a part of
 * the work budget.
 * @typedef {{ regularRule: (name: string) => Node, spend: (steps: number) => void }} Context */

const MOST_PARTS = 200_000;
const MOST_STATES = 20_000;
const MOST_EDGES = 200_000;
const MAX_PASSES = 8;
/** Status of a state in merge(): the targets of its edges are being visited (OPEN), or were visited (DONE). */
const OPEN = 1;
const DONE = 2;
/** Exceeds all state numbers. Base for packing two state numbers into a double. */
export const STATES = 2 ** 22;

/** An NFA with epsilon transitions. */
class Parts {
  /** @type {number[][]} */
  moves = [];
  /** @type {Edge[][]} */
  edges = [];

  /** @param {Context} context */
  constructor(context) {
    this.context = context;
  }

  state() {
    if (this.moves.length === MOST_PARTS) throw tooManyStates();
    this.context.spend(5);
    this.edges.push([]);
    return this.moves.push([]) - 1;
  }

  /** @param {Node} node @param {number} from @param {number} to */
  add(node, from, to) {
    if ('literal' in node) return this.#literal(node.literal, from, to);
    if ('chars' in node) {
      this.context.spend(node.chars.length);
      for (const [lo, hi] of node.chars) this.edges[from].push([lo, hi, to]);
    } else if ('sequence' in node) this.#sequence(node.sequence, from, to);
    else if ('choice' in node) for (const part of node.choice) this.#moved(part, from, to);
    else if ('repeat' in node) this.#repeat(node, from, to);
    else if ('rule' in node) this.#moved(this.context.regularRule(node.rule), from, to);
    else if ('automaton' in node) this.#embed(fromAutomaton(node.automaton), from, to);
    else if ('both' in node || 'except' in node) this.#embed(regular(node, this.context), from, to);
    else throw notRegular();
  }

  /** Adds the automaton of a node between two new states, so that the node's loops cannot mix with those of its
   * neighbours. @param {Node} node @param {number} from @param {number} to */
  #moved(node, from, to) {
    const a = this.state();
    const b = this.state();
    this.moves[from].push(a);
    this.moves[b].push(to);
    this.add(node, a, b);
  }

  /** @param {string} text @param {number} from @param {number} to */
  #literal(text, from, to) {
    let at = from;
    for (const letter of text) {
      const next = this.state();
      const point = /** @type {number} */ (letter.codePointAt(0));
      this.edges[at].push([point, point, next]);
      at = next;
    }
    this.moves[at].push(to);
  }

  /** @param {Node[]} nodes @param {number} from @param {number} to */
  #sequence(nodes, from, to) {
    let at = from;
    for (const node of nodes) {
      const next = this.state();
      this.#moved(node, at, next);
      at = next;
    }
    this.moves[at].push(to);
  }

  /** @param {{ repeat: Node, min: number, max: number }} node @param {number} from @param {number} to */
  #repeat({ repeat, min, max }, from, to) {
    let at = from;
    for (let i = 0; i < min; i++) at = this.#after(repeat, at);
    if (max === Infinity) {
      const loop = this.state();
      this.moves[at].push(loop);
      this.#moved(repeat, loop, loop);
      at = loop;
    }
    for (let i = min; i < max && max !== Infinity; i++) {
      this.moves[at].push(to);
      at = this.#after(repeat, at);
    }
    this.moves[at].push(to);
  }

  /** @param {Node} node @param {number} at */
  #after(node, at) {
    const next = this.state();
    this.#moved(node, at, next);
    return next;
  }

  /** @param {Dfa} dfa @param {number} from @param {number} to */
  #embed(dfa, from, to) {
    const states = dfa.edges.map(() => this.state());
    dfa.edges.forEach((edges, i) => {
      for (const [lo, hi, next] of edges) this.edges[states[i]].push([lo, hi, states[next]]);
      if (dfa.accept[i]) this.moves[states[i]].push(to);
    });
    if (states.length) this.moves[from].push(states[dfa.start]);
  }
}

/** @param {Node} node @param {Context} context @returns {Lazy} */
function lazy(node, context) {
  const parts = new Parts(context);
  const first = parts.state();
  const end = parts.state();
  parts.add(node, first, end);
  /** @type {Map<string, number>} */
  const known = new Map();
  /** @type {number[][]} */
  const sets = [];
  const mark = new Int32Array(parts.moves.length).fill(-1);
  let round = 0;
  /** @param {number[]} seeds */
  const closed = (seeds) => {
    const set = [];
    round++;
    for (const open = seeds.slice(); open.length; ) {
      const state = /** @type {number} */ (open.pop());
      if (mark[state] === round) continue;
      mark[state] = round;
      if (state === end || parts.edges[state].length) set.push(state);
      open.push(...parts.moves[state]);
      context.spend(5);
    }
    return set.sort((a, b) => a - b);
  };
  /** @param {number[]} seeds */
  const intern = (seeds) => {
    const set = closed(seeds);
    const key = set.join();
    let id = known.get(key);
    if (id === undefined) {
      if (sets.length === MOST_STATES) throw tooManyStates();
      known.set(key, (id = sets.push(set) - 1));
    }
    return id;
  };
  return {
    start: intern([first]),
    accepts: (state) => sets[state].includes(end),
    next(state) {
      const edges = sets[state].flatMap((part) => parts.edges[part]);
      context.spend(6 * edges.length);
      return cut(edges, intern);
    },
  };
}

/** Splits overlapping edges into disjoint edges. intern: returns the state for a set of targets. @param {Edge[]} edges
 * @param {(targets: number[]) => number} intern @returns {Edge[]} */
function cut(edges, intern) {
  if (edges.length === 1) return [[edges[0][0], edges[0][1], intern([edges[0][2]])]];
  const sorted = edges.slice().sort((a, b) => a[0] - b[0]);
  const points = [...new Set(edges.flatMap(([lo, hi]) => [lo, hi + 1]))].sort((a, b) => a - b);
  /** @type {Edge[]} */
  const out = [];
  /** @type {Edge[]} */
  let active = [];
  let next = 0;
  for (let i = 0; i + 1 < points.length; i++) {
    active = active.filter(([, hi]) => hi >= points[i]);
    while (next < sorted.length && sorted[next][0] === points[i]) active.push(sorted[next++]);
    if (active.length) out.push([points[i], points[i + 1] - 1, intern(active.map(([, , to]) => to))]);
  }
  return out;
}

/** Returns the product of two DFAs: their intersection or difference. For a difference, -1 is the state of the second
 * DFA after it failed. @param {Lazy} a
 * @param {Lazy} b @param {boolean} difference @returns {Lazy} */
function product(a, b, difference) {
  /** @type {Map<number, number>} */
  const known = new Map();
  /** @type {[number, number][]} */
  const pairs = [];
  /** @param {number} x @param {number} y */
  const intern = (x, y) => {
    const key = x * (MOST_STATES + 1) + y + 1;
    let id = known.get(key);
    if (id === undefined) {
      if (pairs.length === MOST_STATES) throw tooManyStates();
      known.set(key, (id = pairs.push([x, y]) - 1));
    }
    return id;
  };
  return {
    start: intern(a.start, b.start),
    accepts(state) {
      const [x, y] = pairs[state];
      return a.accepts(x) && (difference ? y < 0 || !b.accepts(y) : b.accepts(y));
    },
    next(state) {
      const [x, y] = pairs[state];
      return meet(a.next(x), y < 0 ? [] : b.next(y), intern, difference);
    },
  };
}

/** Returns the edges of a pair of states in product().
 * @param {Edge[]} left @param {Edge[]} right both sorted @param {(x: number, y: number) => number} intern
 * @param {boolean} difference @returns {Edge[]} */
function meet(left, right, intern, difference) {
  /** @type {Edge[]} */
  const out = [];
  let j = 0;
  for (const [lo, hi, x] of left) {
    let at = lo;
    while (j > 0 && right[j - 1][1] >= lo) j--;
    for (; at <= hi; j++) {
      while (j < right.length && right[j][1] < at) j++;
      const found = j < right.length && right[j][0] <= hi ? right[j] : null;
      if (difference && (!found || found[0] > at)) {
        const end = found ? found[0] - 1 : hi;
        out.push([at, end, intern(x, -1)]);
        at = end + 1;
      }
      if (!found) break;
      const from = Math.max(at, found[0]);
      const end = Math.min(hi, found[1]);
      out.push([from, end, intern(x, found[2])]);
      at = end + 1;
    }
  }
  return out;
}

/** Computes all reachable states of a lazy DFA and drops states that cannot reach an accepting state.
 * @param {Lazy} source @param {Context} context @returns {Dfa} */
function explore(source, context) {
  /** @type {Edge[][]} */
  const edges = [];
  const order = [source.start];
  const index = new Map([[source.start, 0]]);
  let count = 0;
  for (let i = 0; i < order.length; i++) {
    edges.push(
      source.next(order[i]).map(([lo, hi, to]) => {
        let at = index.get(to);
        if (at === undefined) {
          if (order.length === MOST_STATES) throw tooManyStates();
          index.set(to, (at = order.push(to) - 1));
        }
        return /** @type {Edge} */ ([lo, hi, at]);
      }),
    );
    context.spend(10 + 10 * edges[i].length);
    if ((count += edges[i].length) > MOST_EDGES) throw tooManyStates();
  }
  return trim({ start: 0, accept: order.map((state) => source.accepts(state)), edges });
}

/** Returns for each state whether it can reach an accepting state. @param {Edge[][]} edges @param {boolean[]} accept */
export function living(edges, accept) {
  /** @type {number[][]} */
  const back = edges.map(() => []);
  edges.forEach((list, from) => {
    for (const [, , to] of list) back[to].push(from);
  });
  const alive = accept.slice();
  for (const open = alive.flatMap((yes, i) => (yes ? [i] : [])); open.length; ) {
    for (const from of back[/** @type {number} */ (open.pop())]) {
      if (!alive[from]) open.push(from);
      alive[from] = true;
    }
  }
  return alive;
}

/** @param {Dfa} dfa @returns {Dfa} */
function trim({ start, accept, edges }) {
  const alive = living(edges, accept);
  /** @type {number[]} */
  const place = [];
  const kept = edges.flatMap((_, i) => (alive[i] ? [i] : []));
  kept.forEach((state, i) => {
    place[state] = i;
  });
  return {
    start: alive[start] ? place[start] : 0,
    accept: kept.map((state) => alive[start] && accept[state]),
    edges: alive[start]
      ? kept.map((state) => edges[state].filter(([, , to]) => alive[to]).map(([lo, hi, to]) => [lo, hi, place[to]]))
      : [],
  };
}

/** @typedef {{ key: ArrayLike<number>, state: number, next: Entry | undefined }} Entry */

class Keys {
  /** @type {Map<number, Entry>} */
  #byHash = new Map();

  /** Returns the state that the first call with an equal key passed. @param {ArrayLike<number>} key
   * @param {number} state */
  first(key, state) {
    let hash = key.length;
    for (let i = 0; i < key.length; i++) {
      hash = Math.imul(hash ^ key[i] ^ (Math.floor(key[i] / STATES) << 7), 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    const head = this.#byHash.get(hash);
    for (let entry = head; entry; entry = entry.next) if (isEqual(entry.key, key)) return entry.state;
    this.#byHash.set(hash, { key, state, next: head });
    return state;
  }
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function isEqual(a, b) {
  let i = a.length === b.length ? 0 : -1;
  while (i >= 0 && i < a.length && a[i] === b[i]) i++;
  return i === a.length;
}

/** Merges equivalent states. A pass visits the states in depth-first order, so that the targets of a state's edges are
 * usually merged before the state. It merges a state with an earlier state that has the same edges. In a cycle of
 * several states, a target can be merged after the state, so passes are repeated until one merges nothing, at most
 * MAX_PASSES times. Equivalent cycles of several states are not merged. Drops states that `start` does not reach.
 * @param {number} start @param {number[][]} targets of the edges of each state
 * @param {(state: number, name: (to: number) => number) => ArrayLike<number>} keyOf returns a list of numbers that is
 *   equal for states that may merge, with `name(to)` in place of each target
 * @returns {{ kept: number[], place: Int32Array }} kept: the remaining states, the start last; place: for each state,
 *   the index in `kept` of the state that it merged into */
export function merge(start, targets, keyOf) {
  const same = Int32Array.from(targets, (_, i) => i);
  /** @type {number[]} */
  let kept = [];
  for (let pass = 0, again = true; pass < MAX_PASSES && again; pass++) {
    kept = [];
    let merges = false;
    let cycles = false;
    const keys = new Keys();
    const next = new Int32Array(targets.length);
    const seen = new Uint8Array(targets.length);
    for (const open = targets.length ? [same[start]] : []; open.length; ) {
      const state = open[open.length - 1];
      const list = targets[state];
      seen[state] = OPEN;
      while (next[state] < list.length && seen[same[list[next[state]]]]) next[state]++;
      if (next[state] < list.length) {
        open.push(same[list[next[state]]]);
        continue;
      }
      open.pop();
      seen[state] = DONE;
      cycles ||= list.some((to) => seen[same[to]] !== DONE);
      same[state] = keys.first(
        keyOf(state, (to) => 1 + same[to]),
        state,
      );
      // Two states that each lead to themselves can be equal, so a state's own number is replaced by 0.
      if (same[state] === state && list.some((to) => same[to] === state))
        same[state] = keys.first(
          keyOf(state, (to) => (same[to] === state ? 0 : 1 + same[to])),
          state,
        );
      if (same[state] === state) kept.push(state);
      else merges = true;
    }
    for (let i = 0; i < same.length; i++) same[i] = same[same[i]];
    again = merges && cycles;
  }
  const index = new Int32Array(targets.length);
  kept.forEach((state, i) => {
    index[state] = i;
  });
  return { kept, place: same.map((state) => index[state]) };
}

/** @param {Dfa} dfa @returns {Dfa} */
function merged({ start, accept, edges }) {
  const renamed = (/** @type {number} */ state, /** @type {(to: number) => number} */ name) =>
    joined(edges[state].map(([lo, hi, to]) => [lo, hi, name(to)]));
  /** @param {number} state @param {(to: number) => number} name */
  const keyOf = (state, name) => {
    const key = [Number(accept[state])];
    for (const [lo, hi, to] of renamed(state, name)) key.push(lo, hi, to);
    return key;
  };
  const targets = edges.map((list) => list.map(([, , to]) => to));
  const { kept, place } = merge(start, targets, keyOf);
  return {
    start: place[start] ?? 0,
    accept: kept.map((state) => accept[state]),
    edges: kept.map((state) => renamed(state, (to) => place[to])),
  };
}

/** @param {Edge[]} edges */
function joined(edges) {
  /** @type {Edge[]} */
  const out = [];
  for (const [lo, hi, to] of edges) {
    const last = out[out.length - 1];
    if (last && last[1] + 1 === lo && last[2] === to) last[1] = hi;
    else out.push([lo, hi, to]);
  }
  return out;
}

/** @param {Automaton} automaton @returns {Dfa} */
function fromAutomaton({ start, accept, edges }) {
  const ends = new Set(accept);
  return trim({ start, accept: edges.map((_, i) => ends.has(i)), edges });
}

/** @type {WeakMap<Node, Dfa>} */
const known = new WeakMap();

/** Returns the DFA of a regular node. It has no states if the node matches nothing. @param {Node} node
 * @param {Context} context
 * @returns {Dfa} */
export function regular(node, context) {
  const found = known.get(node);
  if (found) return found;
  const dfa = merged('automaton' in node ? fromAutomaton(node.automaton) : explore(combined(node, context), context));
  known.set(node, dfa);
  return dfa;
}

/** @param {Node} node @param {Context} context @returns {Lazy} */
function combined(node, context) {
  if ('both' in node) {
    return node.both.map((part) => combined(part, context)).reduce((a, b) => product(memo(a), memo(b), false));
  }
  if ('except' in node) {
    const [from, what] = node.except.map((part) => memo(combined(part, context)));
    return product(from, what, true);
  }
  return lazy(node, context);
}

/** @param {Lazy} source @returns {Lazy} */
function memo(source) {
  /** @type {Edge[][]} */
  const edges = [];
  return { ...source, next: (state) => (edges[state] ??= source.next(state)) };
}
