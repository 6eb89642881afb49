/*
 * regular: nodes that are intersected or subtracted, as deterministic automata over code points (subset construction,
 * M. O. Rabin and D. Scott, 1959; product; states that lead nowhere are dropped, and those that go on alike are
 * one). Ranges of code points are the letters, cut only where a state needs it.
 */
import { TooComplex, Unsupported } from './refusal.js';

/** @typedef {import('./nodes.js').Node} Node */
/** @typedef {[lo: number, hi: number, to: number]} Edge */
/** edges: sorted and disjoint; accept: by state. Every state leads to an accepting one.
 * @typedef {{ start: number, accept: boolean[], edges: Edge[][] }} Dfa */
/** What is explored: states are numbers, `next` of one is sorted and disjoint.
 * @typedef {{ start: number, accepts: (state: number) => boolean, next: (state: number) => Edge[] }} Lazy */
/** regularRule: the node of a rule that is not recursive; spend: steps of work, which may end it.
 * @typedef {{ regularRule: (name: string) => Node, spend: (steps: number) => void }} Around */

const MOST_PARTS = 200_000;
const MOST_STATES = 20_000;
const MOST_EDGES = 200_000;

const tooLarge = () => new TooComplex('an intersection or difference has too many states');

/** Nondeterministic: empty moves and edges of each state. */
class Parts {
  /** @type {number[][]} */
  moves = [];
  /** @type {Edge[][]} */
  edges = [];
  end = 0;

  /** @param {Around} around */
  constructor(around) {
    this.around = around;
  }

  state() {
    if (this.moves.length === MOST_PARTS) throw tooLarge();
    this.around.spend(5);
    this.edges.push([]);
    return this.moves.push([]) - 1;
  }

  /** Adds a node between two states. @param {Node} node @param {number} from @param {number} to */
  add(node, from, to) {
    if ('literal' in node) return this.#literal(node.literal, from, to);
    if ('chars' in node) {
      this.around.spend(node.chars.length);
      for (const [lo, hi] of node.chars) this.edges[from].push([lo, hi, to]);
    } else if ('sequence' in node) this.#sequence(node.sequence, from, to);
    else if ('choice' in node) for (const part of node.choice) this.#moved(part, from, to);
    else if ('repeat' in node) this.#repeat(node, from, to);
    else if ('rule' in node) this.#moved(this.around.regularRule(node.rule), from, to);
    else if ('automaton' in node) this.#embed(fromAutomaton(node.automaton), from, to);
    else if ('both' in node || 'except' in node) this.#embed(regular(node, this.around), from, to);
    else throw new Unsupported(`${Object.keys(node)[0]} inside an intersection or difference`, '');
  }

  /** Through states of its own, so that loops stay in it. @param {Node} node @param {number} from @param {number} to */
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

/** The language of a node, deterministic while it is explored. @param {Node} node @param {Around} around
 * @returns {Lazy} */
function lazy(node, around) {
  const parts = new Parts(around);
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
      around.spend(5);
    }
    return set.sort((a, b) => a - b);
  };
  /** @param {number[]} seeds */
  const intern = (seeds) => {
    const set = closed(seeds);
    const key = set.join();
    let id = known.get(key);
    if (id === undefined) {
      if (sets.length === MOST_STATES) throw tooLarge();
      known.set(key, (id = sets.push(set) - 1));
    }
    return id;
  };
  return {
    start: intern([first]),
    accepts: (state) => sets[state].includes(end),
    next(state) {
      const edges = sets[state].flatMap((part) => parts.edges[part]);
      around.spend(6 * edges.length);
      return cut(edges, intern);
    },
  };
}

/** Overlapping edges, cut so that they are disjoint; `intern` names a set of targets.
 * @param {Edge[]} edges @param {(targets: number[]) => number} intern @returns {Edge[]} */
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

/** States of two at once; those where the second has nothing left have -1 there if `difference`.
 * @param {Lazy} a @param {Lazy} b @param {boolean} difference @returns {Lazy} */
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
      if (pairs.length === MOST_STATES) throw tooLarge();
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

/** @param {Edge[]} left @param {Edge[]} right both sorted @param {(x: number, y: number) => number} intern
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

/** Every reachable state, without those that lead to no accepting one; none at all: the language is empty.
 * @param {Lazy} source @param {Around} around @returns {Dfa} */
function explore(source, around) {
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
          if (order.length === MOST_STATES) throw tooLarge();
          index.set(to, (at = order.push(to) - 1));
        }
        return /** @type {Edge} */ ([lo, hi, at]);
      }),
    );
    around.spend(10 + 10 * edges[i].length);
    if ((count += edges[i].length) > MOST_EDGES) throw tooLarge();
  }
  return trim({ start: 0, accept: order.map((state) => source.accepts(state)), edges });
}

/** @param {Dfa} dfa @returns {Dfa} */
function trim({ start, accept, edges }) {
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

/** States that go on alike become one, those behind a state before it itself: all but some of those that loops make.
 * @param {Dfa} dfa @returns {Dfa} */
function merged({ start, accept, edges }) {
  const names = new Int32Array(edges.length).fill(-1);
  /** @type {Map<string, number>} */
  const known = new Map();
  /** @type {number[]} */
  const kept = [];
  for (const state of behindFirst(start, edges)) {
    const name = (/** @type {number} */ to) => (to === state ? -1 : names[to] < 0 ? -2 - to : names[to]);
    const text = `${accept[state]} ${joined(edges[state].map(([lo, hi, to]) => [lo, hi, name(to)])).join()}`;
    names[state] = known.get(text) ?? kept.push(state) - 1;
    known.set(text, names[state]);
  }
  return {
    start: names[start],
    accept: kept.map((state) => accept[state]),
    edges: kept.map((state) => joined(edges[state].map(([lo, hi, to]) => [lo, hi, names[to]]))),
  };
}

/** States in an order in which, loops aside, those behind a state come before it.
 * @param {number} start @param {Edge[][]} edges */
function behindFirst(start, edges) {
  /** @type {number[]} */
  const order = [];
  const next = new Int32Array(edges.length).fill(-1);
  for (const open = edges.length ? [start] : []; open.length; ) {
    const state = open[open.length - 1];
    const edge = edges[state][++next[state]];
    if (!edge) order.push(/** @type {number} */ (open.pop()));
    else if (next[edge[2]] < 0) open.push(edge[2]);
  }
  return order;
}

/** Neighbours that lead to the same state as one edge. @param {Edge[]} edges */
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

/** @param {import('./nodes.js').Automaton} automaton @returns {Dfa} */
function fromAutomaton({ start, accept, edges }) {
  const ends = new Set(accept);
  return trim({ start, accept: edges.map((_, i) => ends.has(i)), edges });
}

/** @type {WeakMap<Node, Dfa>} */
const known = new WeakMap();

/** The automaton of a regular node; no states: nothing matches. @param {Node} node
 * @param {Around} around @returns {Dfa} */
export function regular(node, around) {
  const found = known.get(node);
  if (found) return found;
  const dfa = merged('automaton' in node ? fromAutomaton(node.automaton) : explore(combined(node, around), around));
  known.set(node, dfa);
  return dfa;
}

/** @param {Node} node @param {Around} around @returns {Lazy} */
function combined(node, around) {
  if ('both' in node) {
    return node.both.map((part) => combined(part, around)).reduce((a, b) => product(memo(a), memo(b), false));
  }
  if ('except' in node) {
    const [from, what] = node.except.map((part) => memo(combined(part, around)));
    return product(from, what, true);
  }
  return lazy(node, around);
}

/** Each state's edges are looked for once. @param {Lazy} source @returns {Lazy} */
function memo(source) {
  /** @type {Edge[][]} */
  const edges = [];
  return { ...source, next: (state) => (edges[state] ??= source.next(state)) };
}
