/*
 * regex: compiles regular expressions to regular nodes. Parts without assertions map directly. A part with an assertion
 * is compiled together with its continuation, `rest`: a node for everything up to the end of the text. A lookahead is
 * intersected with the continuation, and `$` requires that it is empty. `^` and `\b` depend on what precedes a
 * position.
 */
import {
  ANY_TEXT,
  EMPTY,
  NOTHING,
  both,
  chars,
  choice,
  except,
  isNothing,
  lengths,
  repeat,
  sequence,
} from './nodes.js';
import { complement } from './ranges.js';
import { WORD, parseRegex } from './regex-parse.js';
import { tooManyBefore, tooManyCopies } from './errors.js';

/** @import { Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */
/** @import { Tree } from './regex-parse.js' */
/** What precedes a position in a text: nothing, a word character, or another character.
 * @typedef {'none' | 'word' | 'other'} Before */

const WORD_CHAR = chars(WORD);
const OTHER_CHAR = chars(complement(WORD));
/** Maximum number of repetitions of a repeated part that has assertions. */
const COPIES = 16;
/** Maximum depth of nested parts, within JavaScript's stack. */
const DEEPEST = 1200;
/** Number of parts of a sequence that can be copied for one step of the work budget. */
const COPIED = 64;
/** Number of parts of a choice that can be joined for one step of the work budget. */
const CHOICES = 16;

/** Returns a function that caches the result of `make` for each tree, because a repeated part is compiled once for each
 * copy. Most trees are characters, whose results are faster to compute again.
 * @template T @param {(tree: Tree) => T} make @returns {(tree: Tree) => T} */
function once(make) {
  /** @type {WeakMap<Tree, { made: T }>} */
  const known = new WeakMap();
  return (tree) => {
    if (tree.kind === 'chars') return make(tree);
    const found = known.get(tree) ?? { made: make(tree) };
    known.set(tree, found);
    return found.made;
  };
}

/** @param {Tree} tree @returns {Tree[]} */
const partsOf = (tree) => ('parts' in tree ? tree.parts : 'part' in tree ? [tree.part] : []);
/** Returns whether a tree has an assertion that depends on the text before it: `^`, `\b` or `\B`.
 * @type {(tree: Tree) => boolean} */
const looksBack = once((tree) => tree.kind === 'start' || tree.kind === 'boundary' || partsOf(tree).some(looksBack));
/** @type {(tree: Tree) => boolean} */
const asserts = once(
  (tree) => tree.kind === 'ahead' || tree.kind === 'end' || looksBack(tree) || partsOf(tree).some(asserts),
);

/** Compiles a tree without assertions. @type {(tree: Tree) => Node} */
const plain = once((tree) => {
  if (tree.kind === 'chars') return chars(tree.ranges);
  if (tree.kind === 'sequence') return sequence(...tree.parts.map(plain));
  if (tree.kind === 'choice') return choice(tree.parts.map(plain));
  if (tree.kind === 'repeat') return repeat(plain(tree.part), tree.min, tree.max);
  throw new Error('an assertion');
});

/** The continuation of a part: nodes for the rest of the text, by the kind of character that precedes it. */
class Rest {
  /** @param {(before: Before) => Node} make @param {boolean} looks whether nodes depend on the preceding character */
  constructor(make, looks) {
    this.make = make;
    this.looks = looks;
    /** @type {Map<Before, Node>} */
    this.made = new Map();
  }

  /** @param {Before} before @returns {Node} */
  at(before) {
    const known = this.made.get(before);
    if (known) return known;
    const node = this.make(before);
    this.made.set(before, node);
    return node;
  }
}

class Compiler {
  /** @param {Budget} budget */
  constructor(budget) {
    this.budget = budget;
    this.depth = 0;
  }

  /** @param {Tree} tree @param {Before} before @param {Rest} rest @returns {Node} */
  compile(tree, before, rest) {
    this.budget.spend(0, 4);
    if (++this.depth > DEEPEST) throw tooManyBefore();
    const node = this.compiled(tree, before, rest);
    if ('choice' in node) this.budget.spend(0, node.choice.length / CHOICES);
    this.depth--;
    return node;
  }

  /** @param {Tree} tree @param {Before} before @param {Rest} rest @returns {Node} */
  compiled(tree, before, rest) {
    if (!asserts(tree)) return this.consume(plain(tree), before, rest);
    switch (tree.kind) {
      case 'start':
        return before === 'none' ? rest.at(before) : NOTHING;
      case 'end':
        return both([rest.at(before), EMPTY]);
      case 'boundary':
        return this.boundary(tree.not, before, rest);
      case 'ahead': {
        const seen = this.compile(tree.part, before, new Rest(() => ANY_TEXT, false));
        return tree.not ? except(rest.at(before), seen) : both([rest.at(before), seen]);
      }
      case 'choice':
        return choice(tree.parts.map((part) => this.compile(part, before, rest)));
      case 'sequence':
        return this.sequence(tree.parts, before, rest);
      case 'repeat':
        return this.repeat(tree, before, rest);
      default:
        throw new Error(tree.kind);
    }
  }

  /** @param {Tree[]} parts @param {Before} before @param {Rest} rest @returns {Node} */
  sequence(parts, before, rest) {
    let later = rest;
    for (let i = parts.length - 1; i >= 0; i--) {
      const part = parts[i];
      const next = later;
      later = new Rest((now) => this.compile(part, now, next), next.looks || looksBack(part));
    }
    return later.at(before);
  }

  /** Returns the sequence of a node and its continuation. If the continuation depends on the preceding character,
   * distinguishes the kinds of the node's last character. @param {Node} node @param {Before} before
   * @param {Rest} rest @returns {Node} */
  consume(node, before, rest) {
    if (!rest.looks) {
      const whole = sequence(node, rest.at('other'));
      if ('sequence' in whole) this.budget.spend(0, whole.sequence.length / COPIED);
      return whole;
    }
    return choice([
      sequence(both([node, EMPTY]), rest.at(before)),
      sequence(both([node, sequence(ANY_TEXT, WORD_CHAR)]), rest.at('word')),
      sequence(both([node, sequence(ANY_TEXT, OTHER_CHAR)]), rest.at('other')),
    ]);
  }

  /** @param {boolean} not @param {Before} before @param {Rest} rest @returns {Node} */
  boundary(not, before, rest) {
    const after = rest.at(before);
    const inWord = sequence(WORD_CHAR, ANY_TEXT);
    return (before === 'word') === not ? both([after, inWord]) : except(after, inWord);
  }

  /** @param {Extract<Tree, { kind: 'repeat' }>} tree @param {Before} before @param {Rest} rest @returns {Node} */
  repeat({ part, min, max }, before, rest) {
    if (max > COPIES) throw tooManyCopies(COPIES);
    return choice(
      Array.from({ length: max - min + 1 }, (_, more) => this.sequence(Array(min + more).fill(part), before, rest)),
    );
  }
}

/** Returns a node for the texts that contain a match of a node. Drops optional parts at the node's ends, because
 * texts contain a match with or without them. @param {Node} node @returns {Node} */
function within(node) {
  const parts = 'sequence' in node ? [...node.sequence] : [node];
  const idle = (/** @type {Node | undefined} */ part) => part !== undefined && lengths(part)[0] === 0;
  while (idle(parts[0])) parts.shift();
  while (idle(parts[parts.length - 1])) parts.pop();
  if (!parts.length && !isNothing(node)) return ANY_TEXT;
  for (const i of [0, parts.length - 1]) {
    const part = parts[i];
    if ('repeat' in part) parts[i] = repeat(part.repeat, part.min, part.min);
  }
  return sequence(ANY_TEXT, ...parts, ANY_TEXT);
}

/** @param {string} text @param {string} flags @param {Budget} budget
 * @param {boolean} search whether the expression may match anywhere in the text @returns {Node} */
function build(text, flags, budget, search) {
  const tree = parseRegex(text, flags, budget);
  if (!asserts(tree)) return search ? within(plain(tree)) : plain(tree);
  const compiler = new Compiler(budget);
  const end = new Rest(() => (search ? ANY_TEXT : EMPTY), false);
  const first = compiler.compile(tree, 'none', end);
  if (!search) return first;
  if (!looksBack(tree)) return sequence(ANY_TEXT, first);
  const ways = [first];
  for (const [letter, before] of /** @type {[Node, Before][]} */ ([
    [WORD_CHAR, 'word'],
    [OTHER_CHAR, 'other'],
  ])) {
    const later = compiler.compile(tree, before, end);
    if (!isNothing(later)) ways.push(sequence(ANY_TEXT, letter, later));
  }
  return choice(ways);
}

/** Returns a node for the texts that contain a match, as `pattern` of a JSON schema requires. @param {string} text
 * @param {Budget} budget */
export const searchNode = (text, budget) => build(text, '', budget, true);

/** Returns a node for the texts that match as a whole. @param {string} text @param {string} flags
 * @param {Budget} budget */
export const wholeNode = (text, flags, budget) => build(text, flags, budget, false);
