/* layout: builds nodes for the whitespace between JSON tokens: none (`compact`), lines that are indented by two spaces
 * per level (`pretty`), or `any`. */
import { chars, literal, repeat, sequence } from './nodes.js';

/** @import { Whitespace } from '../protocol.js' */
/** @import { Node } from './nodes.js' */
/** Nodes for the whitespace in an array or object at some depth. open, close: after the opening and before the closing
 * bracket; comma, colon: separators with the whitespace around them; empty: inside an empty array or object.
 * @typedef {{ open: Node, close: Node, comma: Node, colon: Node, empty: Node }} Layout */

/** Depth up to which `pretty` fixes the indentation. Deeper lines are indented by at least as much. */
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

/** Nodes for the whitespace that the option `whitespace` asks for, at any depth. */
export class Layouts {
  /** @param {Whitespace} kind */
  constructor(kind) {
    this.kind = kind;
    /** @type {Layout[]} */
    this.made = [];
  }

  /** Returns a number for a depth. Depths with the same whitespace layout have the same number.
   * @param {number} depth */
  depth(depth) {
    return this.kind === 'pretty' ? Math.min(depth, COUNTED + 1) : 0;
  }

  /** Returns the whitespace in an array or object.
   * @param {number} depth number of enclosing brackets @returns {Layout} */
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

  /** Returns the whitespace before and after the JSON text. @returns {Node} */
  get around() {
    return this.kind === 'any' ? SPACE : NONE;
  }
}
