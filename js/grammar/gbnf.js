/*
 * gbnf: parses grammars in llama.cpp's syntax (its grammars/README.md): rules `name ::= ...`, starting at `root`, with
 * literals, character sets, groups, alternatives, repetitions, comments, and tokens by id or name.
 */
import { ANY_CHAR, chars, choice, hasHalfPair, literal, repeat, sequence } from './nodes.js';
import { complement, scalars } from './ranges.js';
import * as errors from './errors.js';

/** @import { Grammar, Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */

const NAME = /[a-zA-Z0-9_-]+/y;
const SPACES = /(?:[ \t]|#[^\r\n]*)*/y;
const SPACES_AND_LINES = /(?:[ \t\r\n]|#[^\r\n]*)*/y;
/** Matches `|` at the start of a new line. llama.cpp allows that only inside groups. */
const CONTINUATION = /(?:[ \t\r\n]|#[^\r\n]*[\r\n])*\|/y;
const ESCAPES = /** @type {Record<string, string>} */ ({
  t: '\t',
  r: '\r',
  n: '\n',
  '\\': '\\',
  '"': '"',
  '[': '[',
  ']': ']',
});
const CODES = /** @type {Record<string, number>} */ ({ x: 2, u: 4, U: 8 });
const COUNTS = /\{\s*(?:(\d+)\s*)?(?:(,)\s*(?:(\d+)\s*)?)?\}/y;
const LAST = 0x10ffff;

class Parser {
  /** @param {string} text @param {Budget} budget
   * @param {((text: string) => number | null | undefined) | undefined} tokenOf returns the id of a token by its text */
  constructor(text, budget, tokenOf) {
    this.text = text;
    this.budget = budget;
    this.tokenOf = tokenOf;
    this.at = 0;
    /** @type {Map<string, Node>} */
    this.rules = new Map();
    /** Names of referenced rules, with the offset of the first reference. @type {Map<string, number>} */
    this.wanted = new Map([['root', 0]]);
  }

  /** @param {string} text */
  take(text) {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  /** @param {RegExp} shape a sticky expression (flag y) */
  match(shape) {
    shape.lastIndex = this.at;
    const found = shape.exec(this.text);
    if (found) this.at += found[0].length;
    return found;
  }

  /** Skips spaces and comments. @param {boolean} lines whether to skip line breaks, too */
  space(lines) {
    this.match(lines ? SPACES_AND_LINES : SPACES);
  }

  grammar() {
    this.space(true);
    while (this.at < this.text.length) this.rule();
    for (const [name, place] of this.wanted) {
      if (!this.rules.has(name)) throw errors.ruleMissing(name, place);
    }
    return { rules: Object.fromEntries(this.rules), start: 'root' };
  }

  rule() {
    const place = this.at;
    const name = this.match(NAME)?.[0];
    if (!name) throw errors.nameMissing(this.at);
    this.space(false);
    if (!this.take('::=')) throw errors.definitionMissing(name, this.at);
    if (this.rules.has(name)) throw errors.definedTwice(name, place);
    this.space(true);
    this.rules.set(name, this.choice(false));
    if (this.at < this.text.length && !/[\r\n]/.test(this.text[this.at])) throw errors.ruleGoesOn(this.at);
    this.space(true);
  }

  /** @param {boolean} nested whether the choice is in a group, which can span several lines @returns {Node} */
  choice(nested) {
    const parts = [this.sequence(nested)];
    while (this.take('|') || this.match(CONTINUATION)) {
      this.space(true);
      parts.push(this.sequence(nested));
    }
    return choice(parts);
  }

  /** @param {boolean} nested @returns {Node} */
  sequence(nested) {
    const parts = [];
    for (let part = this.item(); part; part = this.item()) {
      this.budget.spend(this.at);
      this.space(nested);
      parts.push(this.repeated(part, nested));
      this.space(nested);
    }
    return sequence(...parts);
  }

  /** @param {Node} part @param {boolean} nested @returns {Node} */
  repeated(part, nested) {
    let node = part;
    for (let count = this.count(); count; count = this.count()) {
      node = repeat(node, count[0], count[1]);
      this.space(nested);
    }
    return node;
  }

  /** @returns {[number, number] | undefined} */
  count() {
    if (this.take('*')) return [0, Infinity];
    if (this.take('+')) return [1, Infinity];
    if (this.take('?')) return [0, 1];
    if (this.text[this.at] !== '{') return undefined;
    const place = this.at;
    const found = this.match(COUNTS);
    if (!found || !(found[1] || found[3])) throw errors.badCounts(place);
    const min = Number(found[1] ?? 0);
    const max = found[2] ? (found[3] ? Number(found[3]) : Infinity) : min;
    if (max < min) throw errors.badOrder(place);
    return [min, max];
  }

  /** @returns {Node | undefined} */
  item() {
    const place = this.at;
    if (this.take('"')) return this.literal(place);
    if (this.take('[')) return this.set(place);
    if (this.take('.')) return ANY_CHAR;
    if (this.text[this.at] === '!') throw errors.negatedToken(this.at);
    if (this.take('<')) return this.token(place);
    if (this.take('(')) {
      this.space(true);
      const inner = this.choice(true);
      if (!this.take(')')) throw errors.notClosed('a group', place);
      return inner;
    }
    const name = this.match(NAME)?.[0];
    if (!name) return undefined;
    if (!this.wanted.has(name)) this.wanted.set(name, place);
    return { rule: name };
  }

  /** @param {number} place @returns {Node} */
  literal(place) {
    let text = '';
    while (!this.take('"')) text += this.letter(place);
    if (hasHalfPair(text)) throw errors.loneSurrogate('a text', place);
    return literal(text);
  }

  /** Parses one character or escape of a literal or set.
   * @param {number} place offset of the literal or set, for errors @returns {string} */
  letter(place) {
    if (this.at >= this.text.length) throw errors.notClosed('a "text" or a [set]', place);
    if (!this.take('\\')) {
      const letter = String.fromCodePoint(/** @type {number} */ (this.text.codePointAt(this.at)));
      this.at += letter.length;
      return letter;
    }
    const kind = this.text[this.at++];
    const size = CODES[kind];
    if (kind in ESCAPES) return ESCAPES[kind];
    const digits = size ? this.text.slice(this.at, this.at + size) : '';
    const code = parseInt(digits, 16);
    if (!size || !/^[0-9a-fA-F]+$/.test(digits) || digits.length < size || code > LAST) {
      throw errors.unknownEscape(kind ?? '', this.at - 2);
    }
    this.at += size;
    return String.fromCodePoint(code);
  }

  /** @param {number} place @returns {Node} */
  set(place) {
    const not = this.take('^');
    const ranges = [];
    while (!this.take(']')) {
      const from = this.code(place);
      const dash = this.text[this.at] === '-' && this.text[this.at + 1] !== ']';
      if (dash) this.at++;
      const to = dash ? this.code(place) : from;
      if (to < from) throw errors.rangeReversed(place);
      ranges.push(/** @type {[number, number]} */ ([from, to]));
    }
    const all = scalars(ranges);
    return chars(not ? complement(all) : all);
  }

  /** @param {number} place */
  code(place) {
    return /** @type {number} */ (this.letter(place).codePointAt(0));
  }

  /** @param {number} place @returns {Node} */
  token(place) {
    const end = this.text.indexOf('>', this.at);
    if (end < 0) throw errors.notClosed('a <token>', place);
    const name = this.text.slice(this.at, end);
    const id = /^\[(\d{1,9})\]$/.exec(name)?.[1];
    this.at = end + 1;
    const token = id === undefined ? (this.tokenOf?.(`<${name}>`) ?? null) : Number(id);
    if (token === null) throw errors.unknownToken(name, place);
    return { token };
  }
}

/** Parses a GBNF grammar. Throws `Unsupported` with the offset of an error.
 * @param {string} text @param {Budget} budget
 * @param {(text: string) => number | null | undefined} [tokenOf] returns the id of a token by its text; without it,
 * tokens by name are rejected
 * @returns {Grammar} */
export const gbnfGrammar = (text, budget, tokenOf) => new Parser(text, budget, tokenOf).grammar();
