/*
 * regex-parse: parses regular expressions in ECMAScript's syntax (ECMA-262, 22.2.1, flag u; also identity escapes of
 * punctuation, which many schemas use). Rejects constructs that are not regular, with an error that names them.
 */
import { ANY, complement, intersect, normal, scalars } from './ranges.js';
import * as errors from './errors.js';

/** @import { Ranges } from './ranges.js' */
/** @import { Budget } from './refusal.js' */
/** @typedef {{ kind: 'chars', ranges: Ranges } | { kind: 'sequence' | 'choice', parts: Tree[] }
 *   | { kind: 'repeat', part: Tree, min: number, max: number } | { kind: 'start' | 'end' }
 *   | { kind: 'boundary', not: boolean } | { kind: 'ahead', part: Tree, not: boolean }} Tree */

const DIGIT = /** @type {Ranges} */ ([[48, 57]]);
export const WORD = /** @type {Ranges} */ ([
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
]);
const SPACE = /** @type {Ranges} */ ([
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
const LINE_ENDS = /** @type {Ranges} */ ([
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]);
const CLASSES = /** @type {Record<string, Ranges>} */ ({
  d: DIGIT,
  D: complement(DIGIT),
  w: WORD,
  W: complement(WORD),
  s: SPACE,
  S: complement(SPACE),
});
const CONTROLS = /** @type {Record<string, number>} */ ({ t: 9, n: 10, v: 11, f: 12, r: 13 });
/** Maximum depth of nested groups, within JavaScript's stack. */
const DEEPEST = 500;

/** Cost of a character set with the flag i, which tests all characters with case, in steps of the work budget. */
const CASED = 150;
/** Maximum number of cached results of anyCase(). */
const MOST_CLOSURES = 500;

/** Cost of a Unicode property, in steps of the work budget: PROPERTY for testing all code points, and PROPERTY_RANGE
 * for each range of the result. */
const PROPERTY = 14_000;
const PROPERTY_RANGE = 18;

/** @type {Map<string, Ranges>} */
const properties = new Map();

/** Returns the code points that have a Unicode property, as the platform's regular expressions define it.
 * @param {string} name @param {number} place */
function propertyRanges(name, place) {
  const known = properties.get(name);
  if (known) return known;
  let all;
  try {
    all = new RegExp(`\\p{${name}}+`, 'gu');
  } catch {
    throw errors.unknownProperty(name, place);
  }
  const ranges = [];
  for (let from = 0; from < 0x110000; from += 0x800) {
    if (from === 0xd800) continue;
    const size = from < 0x10000 ? 1 : 2;
    const units = [];
    for (let point = from; point < from + 0x800; point++) {
      if (size === 1) units.push(point);
      else units.push(0xd7c0 + (point >> 10), 0xdc00 | (point & 1023)); // String.fromCodePoint() is slower
    }
    const letters = String.fromCharCode(...units);
    for (const found of letters.matchAll(all)) {
      const at = from + found.index / size;
      ranges.push(/** @type {[number, number]} */ ([at, at + found[0].length / size - 1]));
    }
  }
  properties.set(name, normal(ranges));
  return normal(ranges);
}

/** Characters that have another case. @type {string[] | undefined} */
let cased;
/** Results of anyCase(), by flag and ranges. @type {Map<string, Ranges>} */
const closures = new Map();

const hex = (/** @type {number} */ code) => `\\u${code.toString(16).padStart(4, '0')}`;
const longHex = (/** @type {number} */ code) => `\\u{${code.toString(16)}}`;

/** Adds the characters that match if case is ignored, by the platform's own rule (ECMA-262, 22.2.2.7.3), which depends
 * on the flag u. @param {Ranges} ranges @param {boolean} unicode @returns {Ranges} */
function anyCase(ranges, unicode) {
  const key = `${unicode} ${ranges}`;
  const known = closures.get(key);
  if (known) return known;
  cased ??= ['Changes_When_Casemapped', 'Changes_When_Casefolded']
    .flatMap((name) => propertyRanges(name, 0))
    .flatMap(([lo, hi]) => Array.from({ length: hi - lo + 1 }, (_, i) => String.fromCodePoint(lo + i)));
  const [most, escape] = unicode ? [0x10ffff, longHex] : [0xffff, hex];
  const set = ranges.flatMap(([lo, hi]) => (lo > most ? [] : `${escape(lo)}-${escape(Math.min(hi, most))}`));
  const test = new RegExp(`[${set.join('')}]`, unicode ? 'iu' : 'i');
  const more = cased.filter((letter) => test.test(letter)).map((letter) => Number(letter.codePointAt(0)));
  const all = scalars([...ranges, ...more.map((code) => /** @type {[number, number]} */ ([code, code]))]);
  if (closures.size >= MOST_CLOSURES) closures.clear();
  closures.set(key, all);
  return all;
}

/** @param {number} code @returns {Ranges} */
const point = (code) => [[code, code]];
/** @param {Ranges} ranges */
const isPoint = (ranges) => ranges.length === 1 && ranges[0][0] === ranges[0][1];

class Parser {
  /** @param {string} text @param {string} flags @param {Budget} budget */
  constructor(text, flags, budget) {
    this.budget = budget;
    this.letters = [...text];
    this.at = 0;
    this.depth = 0;
    this.ignoreCase = flags.includes('i');
    this.unicode = flags.includes('u');
    this.any = flags.includes('s') ? ANY : complement(LINE_ENDS);
  }

  get next() {
    return this.letters[this.at];
  }

  /** @param {string} text */
  take(text) {
    for (let i = 0; i < text.length; i++) if (this.letters[this.at + i] !== text[i]) return false;
    this.at += text.length;
    return true;
  }

  /** @returns {Tree} */
  choice() {
    if (++this.depth > DEEPEST) throw errors.tooDeep('groups', this.at);
    const parts = [this.sequence()];
    while (this.take('|')) parts.push(this.sequence());
    this.depth--;
    return parts.length === 1 ? parts[0] : { kind: 'choice', parts };
  }

  /** @returns {Tree} */
  sequence() {
    const parts = [];
    while (this.at < this.letters.length && this.next !== '|' && this.next !== ')') parts.push(this.repeated());
    return parts.length === 1 ? parts[0] : { kind: 'sequence', parts };
  }

  /** @returns {Tree} */
  repeated() {
    this.budget.spend(this.at, 2);
    const from = this.at;
    const part = this.atom();
    const count = this.quantifier();
    if (!count) return part;
    if (part.kind === 'ahead' || part.kind === 'start' || part.kind === 'end' || part.kind === 'boundary') {
      throw errors.assertionRepeated(from);
    }
    this.take('?');
    return { kind: 'repeat', part, min: count[0], max: count[1] };
  }

  /** @returns {[number, number] | undefined} */
  quantifier() {
    if (this.take('*')) return [0, Infinity];
    if (this.take('+')) return [1, Infinity];
    if (this.take('?')) return [0, 1];
    if (this.next !== '{') return undefined;
    let end = this.at + 1;
    while (/^[\d,]/.test(this.letters[end] ?? '')) end++;
    const text = this.letters.slice(this.at, end + 1).join('');
    const found = /^\{(\d+)(?:(,)(\d*))?\}$/.exec(text);
    if (!found) return undefined;
    const min = Number(found[1]);
    const max = found[2] ? (found[3] ? Number(found[3]) : Infinity) : min;
    if (min > max) throw errors.countsReversed(text, this.at);
    this.at = end + 1;
    return [min, max];
  }

  /** @returns {Tree} */
  atom() {
    const place = this.at;
    if (this.take('(')) return this.group(place);
    if (this.take('[')) return { kind: 'chars', ranges: this.set(place) };
    if (this.take('.')) return { kind: 'chars', ranges: this.any };
    if (this.take('^')) return { kind: 'start' };
    if (this.take('$')) return { kind: 'end' };
    if (this.take('\\')) return this.escape(place);
    if (this.quantifier()) throw errors.nothingToRepeat(this.letters[place], place);
    return this.chars(this.letter());
  }

  /** @returns {Ranges} */
  letter() {
    return point(/** @type {number} */ (this.letters[this.at++].codePointAt(0)));
  }

  /** @param {Ranges} ranges @returns {Tree} */
  chars(ranges) {
    return { kind: 'chars', ranges: this.wide(scalars(ranges)) };
  }

  /** @param {Ranges} ranges */
  wide(ranges) {
    this.budget.spend(this.at, ranges.length / 2);
    if (!this.ignoreCase) return ranges;
    if (this.budget.isNew(`${ranges}`)) this.budget.spend(this.at, CASED + ranges.length);
    return anyCase(ranges, this.unicode);
  }

  /** @param {number} place @returns {Tree} */
  group(place) {
    let ahead;
    if (this.take('?')) {
      if (this.take('=')) ahead = { not: false };
      else if (this.take('!')) ahead = { not: true };
      else if (this.take('<=') || this.take('<!')) throw errors.lookbehind(place);
      else if (this.take('<')) while (this.at < this.letters.length && !this.take('>')) this.at++;
      else if (!this.take(':')) throw errors.unknownGroup(this.next ?? '', place);
    }
    const part = this.choice();
    if (!this.take(')')) throw errors.notClosed('a group', place);
    return ahead ? { kind: 'ahead', part, not: ahead.not } : part;
  }

  /** Parses an escape outside a character set, after its backslash. @param {number} place @returns {Tree} */
  escape(place) {
    const letter = this.next;
    if (letter === 'b' || letter === 'B') {
      this.at++;
      // With the flags i and u, \b counts ſ and K (the Kelvin sign) as word characters.
      if (this.ignoreCase && this.unicode) throw errors.unsupported(`\\${letter} with the flags i and u`, place);
      return { kind: 'boundary', not: letter === 'B' };
    }
    if (letter !== undefined && /[1-9]/.test(letter)) throw errors.unsupported(`the back-reference \\${letter}`, place);
    if (letter === 'k') throw errors.namedReference(place);
    return this.chars(this.escaped(place));
  }

  /** Parses an escaped character or class, after the backslash. @param {number} place @returns {Ranges} */
  escaped(place) {
    const letter = this.letters[this.at++];
    if (letter === undefined) throw errors.endsInEscape(place);
    if (letter === 'W' && this.ignoreCase) return complement(anyCase(WORD, this.unicode));
    if (letter in CLASSES) return CLASSES[letter];
    if (letter in CONTROLS) return point(CONTROLS[letter]);
    if (letter === '0' && !/\d/.test(this.next ?? '')) return point(0);
    if (letter === 'p' || letter === 'P') return this.property(letter === 'P', place);
    if (letter === 'x' || letter === 'u') return this.code(letter, place);
    if (letter === 'c' && /[a-zA-Z]/.test(this.next ?? '')) {
      const [[code]] = this.letter();
      return point(code % 32);
    }
    if (/[a-zA-Z0-9]/.test(letter)) throw errors.unknownEscape(letter, place);
    this.at--;
    return this.letter();
  }

  /** @param {boolean} not @param {number} place */
  property(not, place) {
    const end = this.letters.indexOf('}', this.at);
    if (this.next !== '{' || end < 0) throw errors.propertyMissing(place);
    const name = this.letters.slice(this.at + 1, end).join('');
    this.at = end + 1;
    const isNew = this.budget.isNew(name);
    if (isNew) this.budget.spend(place, PROPERTY);
    const ranges = intersect(propertyRanges(name, place), ANY);
    if (isNew) this.budget.spend(place, PROPERTY_RANGE * ranges.length);
    return not ? complement(ranges) : ranges;
  }

  /** Parses \xHH, \uHHHH, \u{H...} and surrogate pairs. @param {string} kind @param {number} place @returns {Ranges} */
  code(kind, place) {
    const rest = this.letters.slice(this.at, this.at + 12).join('');
    const shape =
      kind === 'x' ? /^([0-9a-f]{2})/i : /^(?:\{([0-9a-f]{1,6})\}|([0-9a-f]{4})(?:\\u(d[c-f][0-9a-f]{2}))?)/i;
    const found = shape.exec(rest);
    if (!found) throw errors.escapeIncomplete(kind, place);
    const code = parseInt(found[1] ?? found[2], 16);
    const low = found[3] ? parseInt(found[3], 16) : 0;
    if (low && code >= 0xd800 && code < 0xdc00) {
      this.at += found[0].length;
      return point(0x10000 + (code - 0xd800) * 0x400 + low - 0xdc00);
    }
    this.at += low ? 4 : found[0].length;
    return point(code);
  }

  /** @param {number} place @returns {Ranges} */
  set(place) {
    const not = this.take('^');
    const ranges = [];
    while (!this.take(']')) {
      if (this.at >= this.letters.length) throw errors.notClosed('a character class', place);
      const from = this.member();
      this.budget.spend(this.at, from.length / 4);
      const range = this.next === '-' && this.letters[this.at + 1] !== ']' && this.at + 1 < this.letters.length;
      if (!range) {
        ranges.push(...from);
        continue;
      }
      const dash = this.at++;
      const to = this.member();
      if (!isPoint(from) || !isPoint(to)) ranges.push(...from, ...point(45), ...to);
      else if (to[0][0] < from[0][0]) throw errors.rangeReversed(dash);
      else ranges.push(/** @type {[number, number]} */ ([from[0][0], to[0][0]]));
    }
    const wide = this.wide(scalars(ranges));
    return not ? complement(wide) : wide;
  }

  /** @returns {Ranges} */
  member() {
    const place = this.at;
    if (!this.take('\\')) return this.letter();
    if (this.take('b')) return point(8);
    if (this.take('-')) return point(45);
    return this.escaped(place);
  }
}

/** Parses a regular expression. Throws `Unsupported` with the offset of what is malformed or not supported.
 * @param {string} text @param {string} flags @param {Budget} budget @returns {Tree} */
export function parseRegex(text, flags, budget) {
  const unknown = /[^dgisuy]/.exec(flags)?.[0];
  if (unknown) throw errors.unsupported(`the flag ${unknown}`, 0);
  const parser = new Parser(text, flags, budget);
  const tree = parser.choice();
  if (parser.at < parser.letters.length) throw errors.notOpened(parser.at);
  return tree;
}
