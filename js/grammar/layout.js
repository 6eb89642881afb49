/* layout: the whitespace of JSON: none, that of JSON.stringify with two spaces, or any. */
import { chars, literal, repeat, sequence } from './nodes.js';

/** @typedef {import('./nodes.js').Node} Node */
/** Whitespace in an array or object at some depth: after its opening bracket, before the closing one, around commas and
 * colons, and inside an empty one.
 * @typedef {{ open: Node, close: Node, comma: Node, colon: Node, empty: Node }} Layout */

/** Depth up to which `pretty` is exact. Deeper lines may have any further indentation. */
const COUNTED = 12;

const SPACE = repeat(
  chars([
    [9, 10],
    [13, 13],
    [32, 32],
  ]),
  0,
  Infinity,
);
const NONE = literal('');
/** @type {Layout} */
const COMPACT = { open: NONE, close: NONE, comma: literal(','), colon: literal(':'), empty: NONE };
/** @type {Layout} */
const FREE = {
  open: SPACE,
  close: SPACE,
  comma: sequence(SPACE, literal(','), SPACE),
  colon: sequence(SPACE, literal(':'), SPACE),
  empty: SPACE,
};

/** @param {number} depth */
function line(depth) {
  if (depth <= COUNTED) return literal(`\n${'  '.repeat(depth)}`);
  return sequence(literal(`\n${'  '.repeat(COUNTED)}`), repeat(literal(' '), 0, Infinity));
}

/** @typedef {'compact' | 'pretty' | 'any'} Whitespace */

/** The whitespace of one document. */
export class Layouts {
  /** @param {Whitespace} kind */
  constructor(kind) {
    this.kind = kind;
    /** @type {Layout[]} */
    this.made = [];
  }

  /** Returns a depth that is equal for equal layouts. @param {number} depth */
  depth(depth) {
    return this.kind === 'pretty' ? Math.min(depth, COUNTED + 1) : 0;
  }

  /** @param {number} depth of the brackets @returns {Layout} */
  at(depth) {
    if (this.kind !== 'pretty') return this.kind === 'compact' ? COMPACT : FREE;
    this.made[depth] ??= {
      open: line(depth + 1),
      close: line(depth),
      comma: sequence(literal(','), line(depth + 1)),
      colon: literal(': '),
      empty: NONE,
    };
    return this.made[depth];
  }

  /** Whitespace around the document. @returns {Node} */
  get around() {
    return this.kind === 'any' ? SPACE : NONE;
  }
}
