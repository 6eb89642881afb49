/*
 * spell: encodes characters as bytes, in an acyclic graph that stores equal nodes once (graph.js). The encoding is
 * UTF-8, or all spellings inside a JSON string (the character itself, \n, \u0041 in upper and lower case, surrogate
 * pairs). Node 0 ends every encoding. The edges of automata (automaton.js) read such nodes.
 */
import { Graph } from './graph.js';

/** A range of code points, `lo` to `hi`, and the graph node to which it leads.
 * @typedef {[lo: number, hi: number, to: number]} Segment */
/** A range of bytes, `lo` to `hi`, and the graph node to which it leads.
 * @typedef {[lo: number, hi: number, to: number]} Span */
/** How to encode characters. 'text': UTF-8; 'any': every spelling inside a JSON string; 'shortest': only the shortest
 * spelling inside a JSON string.
 * @typedef {'text' | 'any' | 'shortest'} Spelling */

const END = 0;
/** The letters after a backslash of the characters that have a short escape. */
const SHORT = new Map([...'"\\/\b\t\n\f\r'].map((char, i) => [char.charCodeAt(0), '"\\/btnfr'.charCodeAt(i)]));
/** Orders ranges by their starts. @param {number[]} a @param {number[]} b */
const byStart = (a, b) => a[0] - b[0];
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const FIRST_PRINTABLE = 0x20;

/** Encodes the characters of one grammar. All methods return a node of the graph. */
export class Spells {
  graph = new Graph();
  /** @type {Map<string, number>} */
  #classes = new Map();
  /** @type {Record<Spelling, Map<number, number>>} */
  #letters = { text: new Map(), any: new Map(), shortest: new Map() };

  /** @param {Span[]} spans sorted, disjoint */
  #node(spans) {
    for (const [lo, hi, to] of spans) this.graph.put(lo, hi, to);
    return this.graph.made();
  }

  /** @param {number} byte @param {number} to */
  #byte(byte, to) {
    this.graph.put(byte, byte, to);
    return this.graph.made();
  }

  /** Returns the node that spells bytes and then leads to `to`. @param {number[]} bytes @param {number} [to] */
  bytes(bytes, to = END) {
    let node = to;
    for (let i = bytes.length - 1; i >= 0; i--) node = this.#byte(bytes[i], node);
    return node;
  }

  /** Returns the node that spells any one code point of the ranges, and then ends.
   * @param {[number, number][]} ranges @param {Spelling} how */
  chars(ranges, how) {
    const key = `${how} ${ranges.join()}`;
    let node = this.#classes.get(key);
    if (node === undefined) {
      node = this.segments(
        ranges.map(([lo, hi]) => [lo, hi, END]),
        how,
      );
      this.#classes.set(key, node);
    }
    return node;
  }

  /** Returns the node that spells a text, which must have no lone surrogates.
   * @param {string} text @param {number} to the next node @param {Spelling} how */
  text(text, to, how) {
    let node = to;
    for (let i = text.length - 1; i >= 0; i--) {
      const low = text.charCodeAt(i) >> 10 === 0x37;
      node = this.#letter(/** @type {number} */ (text.codePointAt(low ? --i : i)), node, how);
    }
    return node;
  }

  /** @param {number} point @param {number} to @param {Spelling} how */
  #letter(point, to, how) {
    if (how === 'text' && point < 0x80) return this.#byte(point, to);
    const key = to * 0x200000 + point;
    const known = this.#letters[how].get(key);
    if (known !== undefined) return known;
    const plain = point >= FIRST_PRINTABLE && point < 0x7f && !SHORT.has(point);
    const node = !plain
      ? this.segments([[point, point, to]], how)
      : how === 'any'
        ? this.#plain(point, to)
        : this.#byte(point, to);
    this.#letters[how].set(key, node);
    return node;
  }

  /** Returns the node for an ASCII character that has no short escape: the character itself, or \u and its code.
   * @param {number} point @param {number} to */
  #plain(point, to) {
    const low = point & 15;
    const graph = this.graph;
    if (low < 10) graph.put(0x30 + low, 0x30 + low, to);
    else {
      graph.put(0x37 + low, 0x37 + low, to);
      graph.put(0x57 + low, 0x57 + low, to);
    }
    const high = this.#byte(0x30 + (point >> 4), graph.made());
    const code = this.#byte(0x75, this.#byte(0x30, this.#byte(0x30, high)));
    const raw = point < BACKSLASH;
    if (raw) graph.put(point, point, to);
    graph.put(BACKSLASH, BACKSLASH, code);
    if (!raw) graph.put(point, point, to);
    return graph.made();
  }

  /** Returns the node that spells the code points of segments, each leading to its segment's target.
   * @param {Segment[]} segments sorted, disjoint
   * @param {Spelling} how @param {number} [closing] a byte that leads to the end */
  segments(segments, how, closing = -1) {
    if (how === 'text') return this.#node(this.#utf8(segments));
    const raw = without(segments, [
      [0, FIRST_PRINTABLE - 1],
      [QUOTE, QUOTE],
      [BACKSLASH, BACKSLASH],
    ]);
    const escaped = this.#escapes(segments, how);
    const spans = this.#utf8(raw);
    if (escaped.length) spans.push([BACKSLASH, BACKSLASH, this.#node(escaped)]);
    if (closing >= 0) spans.push([closing, closing, END]);
    return this.#node(spans.sort(byStart));
  }

  /** @param {Segment[]} segments */
  #utf8(segments) {
    /** @type {Span[]} */
    const spans = [];
    const forms = [
      [0, 0x7f, 0, 0],
      [0x80, 0x7ff, 1, 0xc0],
      [0x800, 0xffff, 2, 0xe0],
      [0x10000, 0x10ffff, 3, 0xf0],
    ];
    for (const [lo, hi, tail, lead] of forms) {
      const part = within(segments, lo, hi);
      if (!part.length) continue;
      if (tail === 0) spans.push(...part);
      else spans.push(...this.#split(part, tail, 6, (a, b) => [[lead + a, lead + b]]));
    }
    return spans;
  }

  /** Groups segments by the first digit of their code points, which have `digits` more digits of `bits` bits each.
   * @param {Segment[]} segments @param {number} digits @param {number} bits
   * @param {(a: number, b: number) => number[][]} write returns the byte ranges of the digits `a` to `b` */
  #split(segments, digits, bits, write) {
    /** @type {Span[]} */
    const spans = [];
    const size = 2 ** (bits * digits);
    /** @type {Segment[]} */
    let open = [];
    let digit = -1;
    const close = () => {
      if (!open.length) return;
      const whole = open.length === 1 && open[0][0] === 0 && open[0][1] === size - 1;
      const to = whole ? this.#full(digits, bits, open[0][2]) : this.#rest(open, digits, bits);
      for (const [a, b] of write(digit, digit)) spans.push([a, b, to]);
      open = [];
    };
    for (const [lo, hi, to] of segments) {
      for (let at = lo; at <= hi; ) {
        const own = Math.floor(at / size);
        const last = Math.floor((hi + 1) / size) - 1;
        if (own !== digit) close();
        if (at === own * size && last >= own) {
          close();
          const node = this.#full(digits, bits, to);
          for (const [a, b] of write(own, last)) spans.push([a, b, node]);
          at = (last + 1) * size;
          continue;
        }
        digit = own;
        const end = Math.min(hi, (own + 1) * size - 1);
        open.push([at - own * size, end - own * size, to]);
        at = end + 1;
      }
    }
    close();
    return spans;
  }

  /** @param {Segment[]} segments @param {number} digits @param {number} bits @returns {number} */
  #rest(segments, digits, bits) {
    if (digits === 0) return segments[0][2];
    const write = bits === 6 ? continuation : hexDigits;
    return this.#node(this.#split(segments, digits - 1, bits, write).sort(byStart));
  }

  /** Returns the node that spells any `digits` digits of `bits` bits each. @param {number} digits
   * @param {number} bits @param {number} to */
  #full(digits, bits, to) {
    let node = to;
    for (let i = 0; i < digits; i++) {
      node = this.#node(bits === 6 ? [[0x80, 0xbf, node]] : hexDigits(0, 15).map(([a, b]) => [a, b, node]));
    }
    return node;
  }

  /** Returns the spans that may follow a backslash in a JSON string. @param {Segment[]} segments
   * @param {Spelling} how */
  #escapes(segments, how) {
    /** @type {Span[]} */
    const spans = [];
    for (const [point, letter] of SHORT) {
      const to = target(segments, point);
      if (to !== null && !(how === 'shortest' && letter === 0x2f)) spans.push([letter, letter, to]);
    }
    const coded =
      how === 'any'
        ? segments
        : within(segments, 0, FIRST_PRINTABLE - 1).flatMap((segment) =>
            without(
              [segment],
              [...SHORT.keys()].sort((a, b) => a - b).map((p) => [p, p]),
            ),
          );
    if (coded.length) spans.push([0x75, 0x75, this.#code(coded, how)]);
    return spans.sort(byStart);
  }

  /** Returns the node that spells code points as four hexadecimal digits, or as a surrogate pair.
   * @param {Segment[]} segments @param {Spelling} how */
  #code(segments, how) {
    const units = within(segments, 0, 0xffff);
    const high = this.#surrogates(within(segments, 0x10000, 0x10ffff));
    const all = [...units, ...high].sort(byStart);
    if (how === 'any') return this.#node(this.#split(all, 3, 4, hexDigits).sort(byStart));
    // In the shortest spelling, only control characters are codes, so their first two digits are 00.
    const last = (/** @type {Segment[]} */ part) =>
      part
        .flatMap(([lo, hi, to]) => lowerDigits(lo & 15, hi & 15).map(([a, b]) => /** @type {Span} */ ([a, b, to])))
        .sort(byStart);
    /** @type {Span[]} */
    const third = [];
    for (const digit of [0, 1]) {
      const part = within(all, 16 * digit, 16 * digit + 15);
      if (part.length) third.push([0x30 + digit, 0x30 + digit, this.#node(last(part))]);
    }
    return this.bytes([0x30, 0x30], this.#node(third));
  }

  /** Returns segments of high surrogates, each of which leads to `\u` and the matching low surrogates.
   * @param {Segment[]} segments */
  #surrogates(segments) {
    /** @type {Map<number, Segment[]>} */
    const parts = new Map();
    /** @type {Segment[]} */
    const out = [];
    for (const [lo, hi, to] of segments) {
      const a = lo - 0x10000;
      const b = hi - 0x10000;
      for (let at = a; at <= b; ) {
        const unit = at >> 10;
        const last = ((b + 1) >> 10) - 1;
        if ((at & 1023) === 0 && last >= unit) {
          out.push([0xd800 + unit, 0xd800 + last, this.#low([[0xdc00, 0xdfff, to]])]);
          at = (last + 1) << 10;
          continue;
        }
        const end = Math.min(b, (unit << 10) + 1023);
        const list = parts.get(unit) ?? [];
        list.push([0xdc00 + (at & 1023), 0xdc00 + (end & 1023), to]);
        parts.set(unit, list);
        at = end + 1;
      }
    }
    for (const [unit, list] of parts) out.push([0xd800 + unit, 0xd800 + unit, this.#low(list)]);
    return out;
  }

  /** @param {Segment[]} units */
  #low(units) {
    const digits = this.#node(this.#split(units, 3, 4, hexDigits).sort(byStart));
    return this.bytes([BACKSLASH, 0x75], digits);
  }
}

/** @param {number} a @param {number} b */
const continuation = (a, b) => [[0x80 + a, 0x80 + b]];

/** @param {number} a @param {number} b */
function lowerDigits(a, b) {
  const out = [];
  if (a <= 9) out.push([0x30 + a, 0x30 + Math.min(b, 9)]);
  if (b >= 10) out.push([0x57 + Math.max(a, 10), 0x57 + b]);
  return out;
}

/** @param {number} a @param {number} b */
function hexDigits(a, b) {
  const graph = b >= 10 ? [[0x37 + Math.max(a, 10), 0x37 + b]] : [];
  return [...lowerDigits(a, b), ...graph].sort(byStart);
}

/** @param {Segment[]} segments @param {number} lo @param {number} hi @returns {Segment[]} */
function within(segments, lo, hi) {
  return segments.flatMap((segment) => {
    const a = Math.max(segment[0], lo);
    const b = Math.min(segment[1], hi);
    return a <= b ? [/** @type {Segment} */ ([a, b, segment[2]])] : [];
  });
}

/** @param {Segment[]} segments @param {number[][]} holes sorted @returns {Segment[]} */
function without(segments, holes) {
  return segments.flatMap(([lo, hi, to]) => {
    /** @type {Segment[]} */
    const out = [];
    let from = lo;
    for (const [a, b] of holes) {
      if (b < from || a > hi) continue;
      if (a > from) out.push([from, a - 1, to]);
      from = b + 1;
    }
    if (from <= hi) out.push([from, hi, to]);
    return out;
  });
}

/** @param {Segment[]} segments @param {number} point */
function target(segments, point) {
  const segment = segments.find(([lo, hi]) => lo <= point && point <= hi);
  return segment ? segment[2] : null;
}
