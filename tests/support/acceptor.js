/*
 * acceptor: decides whether a grammar of js/grammar matches a text, slowly and independently of the engine's automaton:
 * for each node and start position, it computes the set of positions where the node can end. It shares no code with the
 * compilers that it judges; strings are decoded by JSON.parse.
 */

/** @typedef {import('../../js/grammar/nodes.js').Node} Node */
/** @typedef {import('../../js/grammar/nodes.js').Grammar} Grammar */

class Acceptor {
  /** @param {Grammar['rules']} rules @param {string} text */
  constructor(rules, text) {
    this.rules = rules;
    this.letters = [...text];
    /** @type {Map<Node, Map<number, Set<number>>>} */
    this.known = new Map();
  }

  /** Returns the positions where a node that begins at `from` can end. @param {Node} node @param {number} from
   * @returns {Set<number>} */
  ends(node, from) {
    let places = this.known.get(node);
    if (!places) this.known.set(node, (places = new Map()));
    const before = places.get(from);
    if (before) return before;
    places.set(from, new Set());
    const found = this.find(node, from);
    places.set(from, found);
    return found;
  }

  /** @param {Node} node @param {number} from @returns {Set<number>} */
  find(node, from) {
    if ('literal' in node) {
      const letters = [...node.literal];
      const fits = letters.every((letter, i) => this.letters[from + i] === letter);
      return new Set(fits ? [from + letters.length] : []);
    }
    if ('chars' in node) {
      const code = this.letters[from]?.codePointAt(0) ?? -1;
      return new Set(node.chars.some(([lo, hi]) => code >= lo && code <= hi) ? [from + 1] : []);
    }
    if ('sequence' in node) return node.sequence.reduce((places, part) => this.through(part, places), new Set([from]));
    if ('choice' in node) return new Set(node.choice.flatMap((part) => [...this.ends(part, from)]));
    if ('repeat' in node) return this.repeated(node, from);
    if ('rule' in node) return this.ends(this.rules[node.rule], from);
    if ('both' in node) {
      const [first, ...rest] = node.both.map((part) => this.ends(part, from));
      return new Set([...first].filter((end) => rest.every((set) => set.has(end))));
    }
    if ('except' in node) {
      const without = this.ends(node.except[1], from);
      return new Set([...this.ends(node.except[0], from)].filter((end) => !without.has(end)));
    }
    if ('jsonString' in node) return this.string(node.jsonString, from);
    if ('automaton' in node) return this.run(node.automaton, from);
    if ('members' in node) return this.members(node, from);
    return new Set();
  }

  /** @param {Node} node @param {Set<number>} places @returns {Set<number>} */
  through(node, places) {
    const all = new Set();
    for (const place of places) for (const end of this.ends(node, place)) all.add(end);
    return all;
  }

  /** @param {Extract<Node, { repeat: Node }>} node @param {number} from */
  repeated({ repeat, min, max }, from) {
    const all = new Set();
    let places = new Set([from]);
    for (let count = 0; count <= max && places.size; count++) {
      const before = all.size;
      if (count >= min) for (const place of places) all.add(place);
      if (count > min && all.size === before) break;
      places = this.through(repeat, places);
    }
    return all;
  }

  /** Returns the positions where a JSON string that begins at `from` can end.
   * @param {Node} node accepts the unescaped text @param {number} from */
  string(node, from) {
    if (this.letters[from] !== '"') return new Set();
    let end = from + 1;
    while (end < this.letters.length && this.letters[end] !== '"') end += this.letters[end] === '\\' ? 2 : 1;
    let value;
    try {
      value = JSON.parse(this.letters.slice(from, end + 1).join(''));
    } catch {
      return new Set();
    }
    return new Set(value.isWellFormed() && holds(node, this.rules, value) ? [end + 1] : []);
  }

  /** @param {import('../../js/grammar/nodes.js').Automaton} automaton @param {number} from */
  run({ start, accept, edges }, from) {
    const all = new Set();
    let state = start;
    for (let place = from; ; place++) {
      if (accept.includes(state)) all.add(place);
      const code = this.letters[place]?.codePointAt(0) ?? -1;
      const edge = edges[state].find(([lo, hi]) => code >= lo && code <= hi);
      if (!edge) return all;
      state = edge[2];
    }
  }

  /** @param {Extract<Node, { members: any }>} node @param {number} from */
  members({ members, colon, comma, min, max }, from) {
    const all = new Set();
    const seen = new Set();
    const open = [{ place: from, bits: 0n, count: 0 }];
    for (let state = open.pop(); state; state = open.pop()) {
      const { place, bits, count } = state;
      const wants = members.every((one, i) => !one.required || (bits >> BigInt(i)) & 1n);
      if (count >= min && wants) all.add(place);
      if (count >= max) continue;
      for (const start of count ? this.ends(comma, place) : [place]) {
        members.forEach((one, i) => {
          if (one.once && (bits >> BigInt(i)) & 1n) return;
          for (const end of this.through(one.value, this.through(colon, this.string(one.key, start)))) {
            const next = { place: end, bits: bits | (1n << BigInt(i)), count: count + 1 };
            const key = `${end} ${next.bits} ${next.count}`;
            if (!seen.has(key)) seen.add(key), open.push(next);
          }
        });
      }
    }
    return all;
  }
}

/** @type {WeakMap<Node, Map<string, boolean>>} */
const answers = new WeakMap();

/** @param {Node} node @param {Grammar['rules']} rules @param {string} text */
function holds(node, rules, text) {
  const known = answers.get(node) ?? new Map();
  answers.set(node, known);
  if (!known.has(text)) known.set(text, new Acceptor(rules, text).ends(node, 0).has([...text].length));
  return /** @type {boolean} */ (known.get(text));
}

/** Returns whether a grammar matches the whole text. @param {Grammar} grammar @param {string} text */
export function accepts({ rules, start }, text) {
  const acceptor = new Acceptor(rules, text);
  return acceptor.ends({ rule: start }, 0).has(acceptor.letters.length);
}
