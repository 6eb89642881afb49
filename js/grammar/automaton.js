/*
 * automaton: builds one rule of a grammar as an NFA without epsilon transitions (V. M. Glushkov, 1961). An edge reads
 * characters (as a graph of bytes) or a token, or calls another rule. A rule never matches the empty text: callers of a
 * nullable rule get a second edge that skips it. So every rule reads something before it returns, and only left
 * recursion could loop endlessly.
 *
 * Large repetitions are counted instead of unrolled. The matcher has one register per stack frame for the count, so a
 * counted repetition inside another becomes a separate rule. For JSON objects, the register holds the set of properties
 * so far.
 */
import { hasHalfPair } from './nodes.js';
import { regular } from './regular.js';
import { emptyValue, loneSurrogate, stringInString, tooDeep, tooLongText } from './errors.js';

/** @import { Members, Node } from './nodes.js' */
/** @import { Spelling, Spells } from './spell.js' */
/** An edge of an automaton. label: graph node (spell.js), rule or token, depending on `kind`; to: next state; member:
 * index of a JSON property, or -1; act: effect on the register (ACT). Fragments share edges, so edges never change.
 * @typedef {{ kind: number, label: number, to: number, member: number, act: number }} Edge */
/** The part of an automaton for one grammar node. first: edges with which it can begin; last: states in which it can
 * end.
 * @typedef {{ nullable: boolean, first: Edge[], last: number[] }} Fragment */
/** A counted repetition, or the properties of a JSON object. min, max: bounds for the count or the number of
 * properties; once: for each property, whether it may occur only once; required: indices of required properties.
 * @typedef {{ min: number, max: number, once?: boolean[], required?: number[] }} Loop */

export const KIND = { BYTES: 0, CALL: 1, TOKEN: 2 };
/** Effects of an edge on the register of its stack frame, in order: none; count one repetition; leave the loop; add a
 * property; check that another property may follow. */
const ACT = { KEEP: 0, NEXT: 1, EXIT: 2, TAKE: 3, MORE: 4 };

/** Maximum number of states of a repetition that is unrolled instead of counted. */
const WRITTEN_OUT = 24;
const DEEPEST = 1500;
/** Cost of building, simplifying and writing an edge, in units of Lowering.spend() (lower.js). Limits a grammar to
 * 500,000 edges. */
const EDGE = 2.4;
/** Cost of inlining a rule, in units of Lowering.spend() (lower.js). */
const INLINED = 15;
const DEEPEST_INLINED = 4;
/** Maximum number of characters of a literal. */
const LONGEST = 150_000;

/** The members of Lowering (lower.js) that a rule uses.
 * @typedef {{ spell: Spells, spelling: Spelling, rule: (name: string) => Node,
 *   regularRule: (name: string) => Node, productive: (name: string) => boolean, nullable: (node: Node) => boolean,
 *   inlined: (name: string) => boolean, call: (node: Node, how: Spelling) => number, loop: (loop: Loop) => number,
 *   spend: (steps?: number) => void }} Whole */

const QUOTE = 0x22;

/** Builds the states and edges of one rule. */
export class Rule {
  /** @type {Edge[][]} */
  edges = [];
  /** @type {boolean[]} */
  accept = [];
  /** @type {number[]} */
  loop = [];
  #depth = 0;
  /** @type {Set<string>} */
  #inside = new Set();

  /** @param {Whole} whole @param {Spelling} how */
  constructor(whole, how) {
    this.whole = whole;
    this.how = how;
    this.start = this.#state();
  }

  /** Builds the automaton of a grammar node. Returns false if the node matches no text, or only the empty text.
   * @param {Node} node */
  fill(node) {
    const whole = 'members' in node ? this.#members(node) : this.#build(node, false);
    if (!whole?.first.length) return false;
    this.#connect([this.start], whole.first);
    for (const state of whole.last) this.accept[state] = true;
    return true;
  }

  #state() {
    this.whole.spend();
    this.accept.push(false);
    this.loop.push(0);
    return this.edges.push([]) - 1;
  }

  /** @param {number[]} last @param {Edge[]} first @param {number} [act] */
  #connect(last, first, act) {
    for (const from of last) {
      const how = act ?? (this.loop[from] ? ACT.EXIT : ACT.KEEP);
      const edges = this.edges[from];
      this.whole.spend(EDGE * first.length);
      for (const edge of first) {
        const { kind, label, to, member } = edge;
        const own = member >= 0 ? ACT.TAKE : how;
        edges.push(edge.act === own ? edge : { kind, label, to, member, act: own });
      }
    }
  }

  /** @param {number} kind @param {number} label @param {number} [to] @returns {Fragment} */
  #single(kind, label, to = this.#state()) {
    return { nullable: false, first: [{ kind, label, to, member: -1, act: ACT.KEEP }], last: [to] };
  }

  /** Builds the states and edges of a node. Returns null if the node matches no text, not even the empty one.
   * @param {Node} node @param {boolean} counted whether an enclosing loop or object uses the register
   * @returns {Fragment | null} */
  #build(node, counted) {
    if (++this.#depth > DEEPEST) throw tooDeep('its parts');
    const fragment = this.#built(node, counted);
    this.#depth--;
    return fragment;
  }

  /** @param {Node} node @param {boolean} counted @returns {Fragment | null} */
  #built(node, counted) {
    if ('literal' in node) return node.literal ? this.#single(KIND.BYTES, this.#literal(node.literal)) : empty();
    if ('chars' in node) {
      return node.chars.length ? this.#single(KIND.BYTES, this.whole.spell.chars(node.chars, this.how)) : null;
    }
    if ('sequence' in node) return this.#sequence(node.sequence, counted);
    if ('choice' in node) return this.#choice(node.choice, counted);
    if ('repeat' in node) return this.#repeat(node, counted);
    if ('rule' in node) return this.#rule(node.rule, counted);
    if ('token' in node) return this.#single(KIND.TOKEN, node.token);
    if ('jsonString' in node) return this.#string(node);
    if ('members' in node) return this.#called(node);
    return this.#automaton(node);
  }

  /** @param {string} text @param {number} [to] */
  #literal(text, to) {
    const { spell } = this.whole;
    if (text.length > LONGEST) throw tooLongText(text.length, LONGEST);
    this.whole.spend(text.length);
    if (hasHalfPair(text)) throw loneSurrogate('a text');
    return spell.text(text, to ?? 0, this.how);
  }

  /** @param {Node[]} nodes @param {boolean} counted @returns {Fragment | null} */
  #sequence(nodes, counted) {
    const whole = empty();
    for (const node of joinedLiterals(nodes)) {
      const part = this.#build(node, counted);
      if (!part) return null;
      this.#connect(whole.last, part.first);
      if (whole.nullable) for (const edge of part.first) whole.first.push(edge);
      if (!part.nullable) whole.last = part.last;
      else for (const state of part.last) whole.last.push(state);
      whole.nullable &&= part.nullable;
    }
    return whole;
  }

  /** Builds a choice. Literals and character sets lead to one shared state, and literals share the bytes of common
   * prefixes. @param {Node[]} nodes @param {boolean} counted @returns {Fragment | null} */
  #choice(nodes, counted) {
    /** @type {Fragment} */
    const whole = { nullable: false, first: [], last: [] };
    const texts = nodes.flatMap((node) => ('literal' in node ? [node.literal] : []));
    const strings = nodes.flatMap((node) => ('jsonString' in node && textsOf(node)) || []);
    let any = texts.includes('');
    whole.nullable = any;
    const labels = this.#tries([...new Set(texts)].filter(Boolean));
    if (strings.length) labels.push(this.#quoted(strings));
    const to = labels.length || nodes.some((node) => 'chars' in node && node.chars.length) ? this.#state() : -1;
    for (const label of labels) whole.first.push(...this.#single(KIND.BYTES, label, to).first);
    for (const node of nodes) {
      if ('literal' in node || ('jsonString' in node && textsOf(node))) continue;
      if ('chars' in node) {
        if (!node.chars.length) continue;
        whole.first.push(...this.#single(KIND.BYTES, this.whole.spell.chars(node.chars, this.how), to).first);
        continue;
      }
      const part = this.#build(node, counted);
      if (!part) continue;
      any = true;
      whole.nullable ||= part.nullable;
      whole.first.push(...part.first);
      whole.last.push(...part.last);
    }
    if (to >= 0) whole.last.push(to);
    return any || to >= 0 ? whole : null;
  }

  /** Divides texts among as few graph nodes (spell.js) as possible, so that within a node no text is a prefix of
   * another. Returns the nodes. @param {string[]} texts */
  #tries(texts) {
    const labels = [];
    for (let left = texts.sort(); left.length; ) {
      this.whole.spend(left.reduce((sum, text) => sum + 1 + text.length / 8, 0));
      /** @type {string[]} */
      const inner = [];
      const outer = left.filter((text, i) => {
        const within = i + 1 < left.length && left[i + 1].startsWith(text);
        if (within) inner.push(text);
        return !within;
      });
      labels.push(
        this.#trie(
          outer.map((text) => [...text]),
          0,
          false,
        ),
      );
      left = inner;
    }
    return labels;
  }

  /** Returns the graph node (spell.js) for the characters of texts from index `at` on.
   * @param {string[][]} texts sorted @param {number} at @param {boolean} quoted whether a quote follows each text.
   * If not, no text may be a prefix of another. @returns {number} */
  #trie(texts, at, quoted) {
    this.whole.spend(8 + (texts.length * 3) / 4);
    const { spell } = this.whole;
    const [first, last] = [texts[0], texts[texts.length - 1]];
    if (texts.length === 1) {
      return this.#literal(first.slice(at).join(''), quoted ? spell.bytes([QUOTE]) : undefined);
    }
    let end = at;
    while (end < first.length && first[end] === last[end]) end++;
    if (end > at) return this.#literal(first.slice(at, end).join(''), this.#trie(texts, end, quoted));
    /** @type {Map<number, string[][]>} */
    const groups = new Map();
    let ends = false;
    for (const text of texts) {
      if (at === text.length) {
        ends = true;
        continue;
      }
      if (hasHalfPair(text[at])) this.#literal(text[at]);
      const point = /** @type {number} */ (text[at].codePointAt(0));
      const list = groups.get(point);
      if (list) list.push(text);
      else groups.set(point, [text]);
    }
    const segments = [...groups]
      .sort((a, b) => a[0] - b[0])
      .map(([point, list]) => {
        return /** @type {[number, number, number]} */ ([point, point, this.#trie(list, at + 1, quoted)]);
      });
    return spell.segments(segments, this.how, ends ? QUOTE : -1);
  }

  /** @param {{ repeat: Node, min: number, max: number }} node @param {boolean} counted @returns {Fragment | null} */
  #repeat(node, counted) {
    const { repeat, max } = node;
    const min = this.whole.nullable(repeat) ? 0 : node.min;
    if (max === 0) return empty();
    if (max === 1 || (max === Infinity && min < 2)) return this.#loose(repeat, min, max, counted);
    const copies = max === Infinity ? min : max;
    if (weight(repeat, WRITTEN_OUT) * copies <= WRITTEN_OUT) return this.#writtenOut(repeat, min, max, counted);
    if (counted) return this.#called(node);
    const from = this.edges.length;
    const loop = this.whole.loop({ min, max });
    const body = this.#build(repeat, true);
    if (!body) return min === 0 ? empty() : null;
    this.loop.fill(loop, from);
    this.#connect(body.last, body.first, ACT.NEXT);
    return { ...body, nullable: min === 0 };
  }

  /** Builds a repetition that needs no counter, because it is optional or unbounded.
   * @param {Node} node @param {number} min @param {number} max @param {boolean} counted @returns {Fragment | null} */
  #loose(node, min, max, counted) {
    const body = this.#build(node, counted);
    if (!body) return min === 0 ? empty() : null;
    if (max === Infinity) this.#connect(body.last, body.first);
    return { ...body, nullable: min === 0 || body.nullable };
  }

  /** @param {Node} node @param {number} min @param {number} max @param {boolean} counted */
  #writtenOut(node, min, max, counted) {
    /** @type {Node | null} */
    let rest = null;
    for (let i = min; i < max && max !== Infinity; i++) {
      rest = { repeat: rest ? { sequence: [node, rest] } : node, min: 0, max: 1 };
    }
    const nodes = Array.from({ length: max === Infinity ? min - 1 : min }, () => node);
    if (max === Infinity) nodes.push({ repeat: node, min: 1, max });
    return this.#sequence(rest ? [...nodes, rest] : nodes, counted);
  }

  /** @param {string} name @param {boolean} counted @returns {Fragment | null} */
  #rule(name, counted) {
    if (!this.whole.productive(name)) return null;
    // Without a limit, inlining could make the automaton exponentially large.
    const calls = this.#inside.size >= DEEPEST_INLINED || this.#inside.has(name) || !this.whole.inlined(name);
    if (calls) return this.#called({ rule: name });
    this.#inside.add(name);
    this.whole.spend(INLINED);
    const fragment = this.#build(this.whole.rule(name), counted);
    this.#inside.delete(name);
    return fragment;
  }

  /** @param {Node} node @returns {Fragment | null} */
  #called(node) {
    const rule = this.whole.call(node, this.how);
    const nullable = this.whole.nullable(node);
    if (rule < 0) return nullable ? empty() : null;
    return { ...this.#single(KIND.CALL, rule), nullable };
  }

  /** @param {{ jsonString: Node }} node */
  #string(node) {
    if (this.how !== 'text') throw stringInString();
    const texts = textsOf(node);
    return texts ? this.#single(KIND.BYTES, this.#quoted(texts)) : this.#called(node);
  }

  /** @param {string[]} texts */
  #quoted(texts) {
    this.how = this.whole.spelling;
    const sorted = [...new Set(texts)].sort().map((text) => [...text]);
    const label = this.whole.spell.bytes([QUOTE], this.#trie(sorted, 0, true));
    this.how = 'text';
    return label;
  }

  /** Builds the automaton of a JSON string with quotes. Returns false if no string matches. @param {Node} content */
  fillString(content) {
    const quote = () => this.#single(KIND.BYTES, this.whole.spell.bytes([QUOTE]));
    const open = quote();
    this.how = this.whole.spelling;
    const inner = this.#build(content, false);
    const close = quote();
    if (!inner) return false;
    this.#connect([this.start], open.first);
    this.#connect(open.last, inner.first);
    this.#connect(inner.last, close.first);
    if (inner.nullable) this.#connect(open.last, close.first);
    for (const state of close.last) this.accept[state] = true;
    return true;
  }

  /** @param {Node} node @returns {Fragment | null} */
  #automaton(node) {
    const dfa = regular(node, this.whole);
    if (!dfa.edges.length) return null;
    const states = dfa.edges.map(() => this.#state());
    dfa.edges.forEach((edges, i) => {
      /** @type {Map<number, [number, number][]>} */
      const by = new Map();
      for (const [lo, hi, to] of edges) {
        const ranges = by.get(to);
        if (ranges) ranges.push([lo, hi]);
        else by.set(to, [[lo, hi]]);
      }
      this.whole.spend(4 + 2 * (edges.length + by.size));
      this.edges[states[i]] = Array.from(by, ([to, ranges]) => ({
        kind: KIND.BYTES,
        to: states[to],
        member: -1,
        label: this.whole.spell.chars(ranges, this.how),
        act: ACT.KEEP,
      }));
    });
    return {
      nullable: dfa.accept[dfa.start],
      first: [...this.edges[states[dfa.start]]],
      last: states.filter((_, i) => dfa.accept[i]),
    };
  }

  /** @param {Members} node @returns {Fragment | null} */
  #members({ members, colon, comma, min, max }) {
    const from = this.edges.length;
    /** @type {Edge[]} */
    const first = [];
    /** @type {number[]} */
    const last = [];
    /** @type {boolean[]} */
    const once = [];
    /** @type {number[]} */
    const required = [];
    for (const member of members) {
      const index = once.length;
      const fragment = this.#sequence([{ jsonString: member.key }, colon], true);
      const value = this.#build(member.value, true);
      if (!fragment || !value) {
        if (member.required) return null;
        continue;
      }
      once.push(member.once);
      if (member.required) required.push(index);
      if (value.nullable) throw emptyValue();
      this.#connect(fragment.last, value.first);
      last.push(...value.last);
      for (const { kind, label, to } of fragment.first) first.push({ kind, label, to, member: index, act: ACT.TAKE });
    }
    const between = this.#build(comma, true);
    const all = once.every(Boolean) ? once.length : Infinity;
    if (!between || between.nullable || min > max || min > all || required.length > max) return null;
    const nullable = min === 0 && !required.length;
    if (!first.length || max === 0) return nullable ? empty() : null;
    this.loop.fill(this.whole.loop({ min, max, once, required }), from);
    this.#connect(last, between.first, ACT.MORE);
    this.#connect(between.last, first, ACT.TAKE);
    return { nullable, first, last };
  }
}

/** @returns {Fragment} */
const empty = () => ({ nullable: true, first: [], last: [] });

/** @param {Node[]} nodes @returns {Node[]} */
function joinedLiterals(nodes) {
  /** @type {Node[]} */
  const out = [];
  for (const node of nodes) {
    const last = out[out.length - 1];
    if (last && 'literal' in last && 'literal' in node) out[out.length - 1] = { literal: last.literal + node.literal };
    else out.push(node);
  }
  return out;
}

/** Returns the texts of a `jsonString` node that allows only literals, else null. @param {{ jsonString: Node }} node */
function textsOf({ jsonString: inner }) {
  if ('literal' in inner) return [inner.literal];
  if (!('choice' in inner) || !inner.choice.length) return null;
  const texts = inner.choice.flatMap((part) => ('literal' in part ? [part.literal] : []));
  return texts.length === inner.choice.length ? texts : null;
}

/** Returns the approximate number of states for a grammar node. Stops counting above `most`. @param {Node} node
 * @param {number} most @returns {number} */
export function weight(node, most) {
  if ('sequence' in node || 'choice' in node) {
    let sum = 0;
    for (const part of 'sequence' in node ? node.sequence : node.choice) {
      if ((sum += weight(part, most)) > most) break;
    }
    return sum;
  }
  if ('repeat' in node) {
    const body = weight(node.repeat, most);
    if (body > most) return body;
    const { min, max } = node;
    const copies = max === Infinity ? Math.max(min, 1) : max;
    return body * copies > WRITTEN_OUT ? body : body * copies;
  }
  return 'both' in node || 'except' in node || 'automaton' in node ? most + 1 : 1;
}
