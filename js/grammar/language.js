/*
 * language: decides whether a regular grammar node matches a text, or any text. Uses derivatives (J. A. Brzozowski,
 * "Derivatives of regular expressions", 1964): the derivative of a term (a regular expression) by a code point matches
 * the texts that may follow it. Terms are built lazily. Equal terms are one object, so that searches visit few
 * terms.
 */
import { lengths } from './nodes.js';
import { ANY, has } from './ranges.js';

/** @import { Automaton, Node } from './nodes.js' */
/** @import { Ranges } from './ranges.js' */
/** @import { Budget } from './refusal.js' */
/** @typedef {{ id: number, nullable: boolean, kind: string, of: Term[], ranges: Ranges, min: number, max: number,
 *   automaton?: Automaton, steps: Map<number, Term> | undefined }} Term */

/** Maximum number of terms that isEmpty() visits before it gives up. */
const VISITS = 3000;

/** Builds terms from grammar nodes, and answers questions about the texts that they match. */
export class Languages {
  /** @param {Budget} budget */
  constructor(budget) {
    this.budget = budget;
    /** @type {Map<string, Term>} */
    this.terms = new Map();
    /** @type {WeakMap<object, Term>} */
    this.ofNode = new WeakMap();
    /** @type {Map<object, number>} */
    this.automata = new Map();
    this.nothing = this.make('alt', []);
    this.empty = this.make('cat', []);
    this.all = this.make('not', [this.nothing]);
  }

  /** Returns the term with these parts: the existing object if there is one.
   * @param {string} kind @param {Term[]} of @param {Partial<Term>} [more] @returns {Term} */
  make(kind, of, more = {}) {
    const { ranges = [], min = 0, max = 0, automaton } = more;
    const name = automaton ? this.nameOf(automaton) : ranges.join();
    const key = `${kind} ${of.map((term) => term.id)} ${name} ${min} ${max}`;
    const known = this.terms.get(key);
    if (known) return known;
    this.budget.spend('');
    const term = { id: this.terms.size, kind, of, ranges, min, max, automaton, nullable: false, steps: undefined };
    term.nullable = nullable(term);
    this.terms.set(key, term);
    return term;
  }

  /** Returns a name for an automaton, which is the same for the same object. @param {object} automaton */
  nameOf(automaton) {
    if (!this.automata.has(automaton)) this.automata.set(automaton, this.automata.size);
    return `a${this.automata.get(automaton)}`;
  }

  /** Returns the concatenation of two terms, simplified and nested to the right, so that equal
   * concatenations are one object.
   * @param {Term} first @param {Term} rest @returns {Term} */
  cat(first, rest) {
    if (first === this.nothing || rest === this.nothing) return this.nothing;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    return first.kind === 'cat' ? this.cat(first.of[0], this.cat(first.of[1], rest)) : this.make('cat', [first, rest]);
  }

  /** Returns the parts of an `alt` or `and` without nested terms of the same kind, sorted and without duplicates.
   * @param {Term[]} terms @param {string} kind */
  joined(terms, kind) {
    const flat = terms.flatMap((term) => (term.kind === kind ? term.of : [term]));
    this.budget.spend('', flat.length / 4);
    return [...new Set(flat)].sort((a, b) => a.id - b.id);
  }

  /** Returns the union of terms, simplified. @param {Term[]} terms @returns {Term} */
  alt(terms) {
    const parts = this.joined(terms, 'alt').filter((term) => term !== this.nothing);
    if (parts.includes(this.all)) return this.all;
    return parts.length === 1 ? parts[0] : this.make('alt', parts);
  }

  /** Returns the intersection of terms, simplified. @param {Term[]} terms @returns {Term} */
  and(terms) {
    const parts = this.joined(terms, 'and').filter((term) => term !== this.all);
    if (parts.includes(this.nothing)) return this.nothing;
    if (parts.some((term) => term.kind === 'not' && parts.includes(term.of[0]))) return this.nothing;
    return parts.length === 1 ? parts[0] : parts.length ? this.make('and', parts) : this.all;
  }

  /** Returns the complement of a term. A double complement is the term itself. @param {Term} term @returns {Term} */
  not(term) {
    return term.kind === 'not' ? term.of[0] : this.make('not', [term]);
  }

  /** Returns `min` to `max` repetitions of a term, simplified.
   * @param {Term} term @param {number} min @param {number} max @returns {Term} */
  repeat(term, min, max) {
    if (max === 0 || term === this.empty) return this.empty;
    if (term === this.nothing) return min ? this.nothing : this.empty;
    if (term.kind === 'chars' && term.ranges === ANY && min === 0 && max === Infinity) return this.all;
    return min === 1 && max === 1 ? term : this.make('repeat', [term], { min: term.nullable ? 0 : min, max });
  }

  /** Returns the term of a regular grammar node, and caches it. Fails for other nodes.
   * @param {Node} node @returns {Term} */
  term(node) {
    const known = this.ofNode.get(node);
    if (known) return known;
    const term = this.build(node);
    this.ofNode.set(node, term);
    return term;
  }

  /** Builds the term of a node. term() caches it. @param {Node} node @returns {Term} */
  build(node) {
    if ('literal' in node) {
      const points = [...node.literal].map((letter) => /** @type {number} */ (letter.codePointAt(0)));
      return points.reduceRight(
        (/** @type {Term} */ rest, point) => this.cat(this.make('chars', [], { ranges: [[point, point]] }), rest),
        this.empty,
      );
    }
    if ('chars' in node) return node.chars.length ? this.make('chars', [], { ranges: node.chars }) : this.nothing;
    if ('sequence' in node) {
      return node.sequence.reduceRight((/** @type {Term} */ rest, part) => this.cat(this.term(part), rest), this.empty);
    }
    if ('choice' in node) return this.alt(node.choice.map((part) => this.term(part)));
    if ('repeat' in node) return this.repeat(this.term(node.repeat), node.min, node.max);
    if ('both' in node) return this.and(node.both.map((part) => this.term(part)));
    if ('except' in node) return this.and([this.term(node.except[0]), this.not(this.term(node.except[1]))]);
    if ('automaton' in node) return this.make('state', [], { automaton: node.automaton, min: node.automaton.start });
    throw new Error(`not a regular node: ${Object.keys(node)}`);
  }

  /** Returns the derivative of a term by one code point. @param {Term} term @param {number} point @returns {Term} */
  after(term, point) {
    const known = term.steps?.get(point);
    if (known) return known;
    this.budget.spend('');
    const next = this.derive(term, point);
    (term.steps ??= new Map()).set(point, next);
    return next;
  }

  /** Computes a derivative. after() caches it. @param {Term} term @param {number} point @returns {Term} */
  derive(term, point) {
    const { kind, of } = term;
    if (kind === 'chars') return has(term.ranges, point) ? this.empty : this.nothing;
    if (kind === 'cat') {
      if (!of.length) return this.nothing;
      const through = this.cat(this.after(of[0], point), of[1]);
      return of[0].nullable ? this.alt([through, this.after(of[1], point)]) : through;
    }
    if (kind === 'alt') return this.alt(of.map((part) => this.after(part, point)));
    if (kind === 'and') return this.and(of.map((part) => this.after(part, point)));
    if (kind === 'not') return this.not(this.after(of[0], point));
    if (kind === 'repeat') {
      const rest = this.repeat(of[0], Math.max(term.min - 1, 0), term.max - 1);
      return this.cat(this.after(of[0], point), rest);
    }
    const edge = term.automaton?.edges[term.min].find(([lo, hi]) => point >= lo && point <= hi);
    return edge ? this.make('state', [], { automaton: term.automaton, min: edge[2] }) : this.nothing;
  }

  /** Returns whether a regular node matches a whole text. @param {Node} node @param {string} text */
  matches(node, text) {
    let term = this.term(node);
    this.budget.spend('', text.length / 16);
    for (const letter of text) term = this.after(term, /** @type {number} */ (letter.codePointAt(0)));
    return term.nullable;
  }

  /** Divides all code points into classes for which a term has the same derivative. Returns one code point of each
   * class. @param {Term} term */
  heads(term) {
    const cuts = new Set([0, 0xe000]);
    this.collect(term, cuts);
    return [...cuts].filter((point) => has(ANY, point)).sort((a, b) => b - a);
  }

  /** Adds the code points at which the derivative of a term can change to `cuts`.
   * @param {Term} term @param {Set<number>} cuts */
  collect(term, cuts) {
    const edges = term.automaton ? term.automaton.edges[term.min] : [];
    this.budget.spend('', (1 + term.ranges.length + edges.length) / 8);
    for (const [lo, hi] of term.ranges) cuts.add(lo).add(hi + 1);
    for (const [lo, hi] of edges) cuts.add(lo).add(hi + 1);
    if (term.kind === 'cat' && term.of.length) {
      this.collect(term.of[0], cuts);
      if (term.of[0].nullable) this.collect(term.of[1], cuts);
    } else for (const part of term.of) this.collect(part, cuts);
  }

  /** Returns true if a node certainly matches nothing. False can mean undecided. @param {Node} node */
  isEmpty(node) {
    if (surelySome(node)) return false;
    const start = this.term(node);
    const seen = new Set([start]);
    const open = [start];
    while (open.length) {
      const term = /** @type {Term} */ (open.pop());
      if (term.nullable || term === this.all || seen.size > VISITS) return false;
      for (const point of this.heads(term)) {
        const next = this.after(term, point);
        if (next !== this.nothing && !seen.has(next)) open.push(next), seen.add(next);
      }
    }
    return true;
  }
}

/** @type {WeakMap<Node, boolean>} */
const plainlySome = new WeakMap();

/** Returns true if a node obviously matches some text. False means undecided. @param {Node} node @returns {boolean} */
function surelySome(node) {
  if ('literal' in node) return true;
  let known = plainlySome.get(node);
  if (known === undefined) plainlySome.set(node, (known = looksFruitful(node)));
  return known;
}

/** @param {Node} node @returns {boolean} */
function looksFruitful(node) {
  if ('chars' in node) return node.chars.length > 0;
  if ('sequence' in node) return node.sequence.every(surelySome);
  if ('choice' in node) return node.choice.some(surelySome);
  if ('except' in node) return surelyMany(node);
  return 'repeat' in node && (node.min === 0 || surelySome(node.repeat));
}

/** Returns true if a node obviously matches texts of unlimited length. False means undecided. @param {Node} node
 * @returns {boolean} */
function surelyMany(node) {
  if ('except' in node) return surelyMany(node.except[0]) && lengths(node.except[1])[1] < Infinity;
  return 'repeat' in node && node.max === Infinity && 'chars' in node.repeat && node.repeat.chars.length > 0;
}

/** @param {Term} term */
function nullable({ kind, of, min, automaton }) {
  if (kind === 'chars') return false;
  if (kind === 'cat' || kind === 'and') return of.every((part) => part.nullable);
  if (kind === 'alt') return of.some((part) => part.nullable);
  if (kind === 'not') return !of[0].nullable;
  if (kind === 'repeat') return min === 0 || of[0].nullable;
  return automaton?.accept.includes(min) ?? false;
}
