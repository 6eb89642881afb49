/*
 * numbers: builds grammar nodes for JSON numbers in a range or with a given divisor, without rounding: DFAs read the
 * decimal digits, compare them with a bound, and carry the remainder of the division in their states.
 */
import { NOTHING, chars, choice, literal, optional, repeat, sequence } from './nodes.js';
import { tooManyDigits, tooManyDigitsInAll } from './errors.js';
import { living } from './regular.js';

/** @import { Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */
/** A number. An integer that exceeds a double's precision may be a BigInt. @typedef {number | bigint} Value */
/** @typedef {{ lo: Value, loOpen: boolean, hi: Value, hiOpen: boolean }} Interval */
/** A set of numbers: those in any of the intervals that are multiples of all `multiples` and of none of `notMultiples`.
 * @typedef {{ intervals: Interval[], multiples: number[], notMultiples: number[] }} Numbers */
/** A DFA over the digits of an unsigned number: `step` returns the state after '0' to '9' or '.', `accepts` whether the
 * number may end in a state.
 * @typedef {{ start: string, step: (state: string, letter: string) => string | undefined,
 *   accepts: (state: string) => boolean }} Reader */

/** Maximum number of states of an automaton (MOST_STATES), and of an automaton that also counts digits
 * (LIMITED_STATES). */
const MOST_STATES = 4000;
const LIMITED_STATES = 8000;
const LETTERS = [...'.0123456789'];

/** Returns the set of all numbers. @returns {Numbers} */
export const everyNumber = () => ({
  intervals: [{ lo: -Infinity, loOpen: true, hi: Infinity, hiOpen: true }],
  multiples: [],
  notMultiples: [],
});

/** @param {Interval} a @param {Interval} b @returns {Interval} */
function common(a, b) {
  const low = a.lo > b.lo || (a.lo === b.lo && a.loOpen) ? a : b;
  const high = a.hi < b.hi || (a.hi === b.hi && a.hiOpen) ? a : b;
  return { lo: low.lo, loOpen: low.loOpen, hi: high.hi, hiOpen: high.hiOpen };
}

/** @param {Interval} interval */
const holdsSome = ({ lo, loOpen, hi, hiOpen }) => lo < hi || (lo === hi && !loOpen && !hiOpen);

/** @param {Interval[]} a @param {Interval[]} b both sorted */
function intersection(a, b) {
  const all = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const one = common(a[i], b[j]);
    if (holdsSome(one)) all.push(one);
    if (a[i].hi < b[j].hi || (a[i].hi === b[j].hi && a[i].hiOpen)) i++;
    else j++;
  }
  return all;
}

/** Returns the intersection of two sets. Their intervals must be sorted.
 * @param {Numbers} a @param {Numbers} b @returns {Numbers} */
export function bothNumbers(a, b) {
  return {
    intervals: intersection(a.intervals, b.intervals),
    multiples: [...new Set([...a.multiples, ...b.multiples])],
    notMultiples: [...new Set([...a.notMultiples, ...b.notMultiples])],
  };
}

/** @param {Value[]} points */
const sorted = (points) => [...new Set(points)].sort((a, b) => (a < b ? -1 : 1));

/** Returns one interval for each number, sorted and without duplicates.
 * @param {Value[]} points @returns {Interval[]} */
export const pointIntervals = (points) =>
  sorted(points).map((point) => ({ lo: point, loOpen: false, hi: point, hiOpen: false }));

/** Returns the open intervals between points, before the first point and after the last. @param {Value[]} points
 * @returns {Interval[]} */
export function gaps(points) {
  const edges = /** @type {Value[]} */ ([-Infinity, ...sorted(points), Infinity]);
  return edges.slice(1).map((hi, i) => ({ lo: edges[i], loOpen: true, hi, hiOpen: true }));
}

/** Returns true if a set of numbers is certainly empty. @param {Numbers} numbers */
export function noNumber({ intervals, multiples, notMultiples }) {
  if (!intervals.length || multiples.some((step) => notMultiples.includes(step))) return true;
  const [step] = multiples;
  return (
    step !== undefined &&
    intervals.every(({ lo, loOpen, hi, hiOpen }) => {
      if (typeof lo === 'bigint' || typeof hi === 'bigint' || !Number.isFinite(lo) || !Number.isFinite(hi))
        return false;
      const first = Math.ceil(lo / step) * step;
      return (
        Number.isSafeInteger(step) &&
        (first > hi ||
          (first === hi && hiOpen) ||
          (first === lo && loOpen && (first + step > hi || (first + step === hi && hiOpen))))
      );
    })
  );
}

/** Returns the decimal digits of a number without its sign and without redundant zeros: '12' and '5' for 12.5.
 * @param {Value | string} value or its text */
function digitsOf(value) {
  const [mantissa, power = '0'] = String(value).replace(/^-/, '').split('e');
  const [whole, part = ''] = mantissa.split('.');
  const exponent = Number(power);
  const all = whole + part;
  const point = whole.length + exponent;
  const integer = point > 0 ? all.slice(0, point).padEnd(point, '0') : '0';
  const fraction = point > 0 ? all.slice(point) : '0'.repeat(-point) + all;
  return { integer: integer.replace(/^0+(?=\d)/, ''), fraction: fraction.replace(/0+$/, '') };
}

/** Returns a DFA that compares a number with `bound` and accepts it if `fits` accepts the result. A state is the
 * result so far (<, = or >) and the position. @param {Value | string} bound
 * @param {(order: '<' | '=' | '>') => boolean} fits @returns {Reader} */
function comparer(bound, fits) {
  const { integer, fraction } = digitsOf(bound);
  const order = (/** @type {string} */ now, /** @type {string} */ digit, /** @type {string} */ own) =>
    now !== '=' || digit === own ? now : digit < own ? '<' : '>';
  /** @param {string} state */
  const result = (state) => {
    const [now, at] = [state[0], Number(state.slice(2))];
    if (state[1] === 'i') return at < integer.length ? '<' : now === '=' && fraction ? '<' : now;
    return now === '=' && at < fraction.length ? '<' : now;
  };
  return {
    start: '=i0',
    accepts: (state) => fits(/** @type {'<' | '=' | '>'} */ (result(state))),
    step(state, letter) {
      const [now, at] = [state[0], Number(state.slice(2))];
      if (letter === '.') return state[1] === 'f' ? undefined : at < integer.length ? '<f0' : `${now}f0`;
      if (state[1] === 'i') {
        return at >= integer.length ? `>i${at}` : `${order(now, letter, integer[at])}i${at + 1}`;
      }
      if (now !== '=') return state;
      if (at >= fraction.length) return letter === '0' ? state : '>f0';
      const next = order(now, letter, fraction[at]);
      return next === '=' ? `=f${at + 1}` : `${next}f0`;
    },
  };
}

/** Returns a DFA that divides a number. A state is the remainder and the number of digits after the point.
 * @param {number} divisor @param {boolean} wanted true to accept multiples, false to accept all other numbers
 * @returns {Reader & { remainders: number }} */
function divider(divisor, wanted) {
  const { integer, fraction } = digitsOf(divisor);
  const places = fraction.length;
  const whole = Number(integer + fraction);
  if (!(whole > 0 && whole * (places + 1) <= MOST_STATES)) throw tooManyDigits(divisor);
  return {
    remainders: whole,
    start: '0 -1',
    accepts(state) {
      if (state === 'no') return !wanted;
      let [rest, at] = state.split(' ').map(Number);
      for (let i = Math.max(at, 0); i < places; i++) rest = (rest * 10) % whole;
      return (rest === 0) === wanted;
    },
    step(state, letter) {
      if (state === 'no') return state;
      const [rest, at] = state.split(' ').map(Number);
      if (letter === '.') return at < 0 ? `${rest} 0` : undefined;
      if (at >= places) return letter === '0' ? state : 'no';
      return `${(rest * 10 + Number(letter)) % whole} ${at < 0 ? at : at + 1}`;
    },
  };
}

/** Returns a DFA for the syntax of an unsigned number without exponent: digits without leading zeros, and an optional
 * fraction. @param {boolean} fractions @returns {Reader} */
const form = (fractions) => ({
  start: 'empty',
  accepts: (state) => state === 'zero' || state === 'digits' || state === 'fraction',
  step(state, letter) {
    if (letter === '.') return fractions && (state === 'zero' || state === 'digits') ? 'point' : undefined;
    if (state === 'empty') return letter === '0' ? 'zero' : 'digits';
    return state === 'zero' ? undefined : state === 'point' ? 'fraction' : state;
  },
});

/** Maximum number of digits of a number in an answer if the schema has no bounds. A double (IEEE 754) represents every
 * decimal of 15 digits exactly enough to print it again. Integers may have 16, as in llama.cpp, but not with
 * multipleOf, because a double may round them. */
const NUMBER_DIGITS = 15;
const INTEGER_DIGITS = 16;
/** Number of integer digits of the largest double. */
const MOST_DIGITS = 309;

/** Returns a DFA that limits the number of digits: at most `whole` before the point; after it, at most `places`, or
 * enough for `all` in total, whichever is more. The state counts the remaining digits. @param {number} whole
 * @param {number} all @param {number} places @returns {Reader} */
const limiter = (whole, all, places) => ({
  start: `${whole} i`,
  accepts: () => true,
  step(state, letter) {
    const left = parseInt(state, 10);
    const inFraction = state.endsWith('f');
    if (letter === '.') return `${Math.max(all - (whole - left), places)} f`;
    return left > 0 ? `${left - 1} ${inFraction ? 'f' : 'i'}` : undefined;
  },
});

const BITS = new DataView(new ArrayBuffer(8));

/** Returns the double next to a non-negative number. @param {Value} value @param {1n | -1n} step up or down */
function neighbour(value, step) {
  BITS.setFloat64(0, Number(value));
  BITS.setBigUint64(0, BITS.getBigUint64(0) + step);
  return BITS.getFloat64(0);
}

/** Returns whether the decimal next to an exclusive bound is rounded to the bound when it is parsed as a double. The
 * decimal has as many digits as an answer may have. @param {Value} bound
 * @param {1n | -1n} step up or down
 * @param {number} places decimal places of the longer bound; -1 for integers */
function roundsOnto(bound, step, places) {
  const { integer, fraction } = digitsOf(bound);
  // An answer may have one decimal place more than the bounds, and neighbour() may add two places to the bounds.
  const behind = places < 0 ? 0 : Math.max(NUMBER_DIGITS - integer.length, places + 3);
  const next = BigInt(integer + fraction.slice(0, behind).padEnd(behind, '0')) + step;
  return Number(`${next}e-${behind}`) === Number(bound);
}

/** Narrows an interval of unsigned numbers so that parsing a text as a double stays in the interval: no number exceeds
 * the largest double, and none is rounded to an exclusive bound. @param {Interval} interval @param {boolean} integers
 * @returns {Interval} */
function parsed({ lo, loOpen, hi, hiOpen }, integers) {
  const places = integers ? -1 : Math.max(...[lo, hi].map((bound) => digitsOf(bound).fraction.length));
  // Clips `hi` only if `lo` has nearly as many digits as the largest double. Otherwise no number can exceed that
  // double, because limited() allows far fewer digits.
  const clipped = hi > Number.MAX_VALUE && digitsOf(lo).integer.length >= MOST_DIGITS - 1;
  if (loOpen && roundsOnto(lo, 1n, places)) [lo, loOpen] = [neighbour(lo, 1n), false];
  if (clipped) [hi, hiOpen] = [Number.MAX_VALUE, false];
  else if (hiOpen && hi > 0 && hi < Infinity && roundsOnto(hi, -1n, places)) [hi, hiOpen] = [neighbour(hi, -1n), false];
  return { lo, loOpen, hi, hiOpen };
}

/** Returns a DFA that limits the digits of the unsigned numbers in an interval. Allows more digits than `all` only if
 * the bounds need more. @param {Interval} interval @param {boolean} integers @param {number} all maximum number of
 * digits @param {number} most number of digits above which the DFA would have too many states */
function limited({ lo, hi }, integers, all, most) {
  const low = digitsOf(lo);
  const high = Number(hi) < Infinity ? digitsOf(hi) : { integer: '', fraction: '' };
  const places = Math.max(low.fraction.length, high.fraction.length);
  const needed = low.integer.length + 1;
  return limiter(Math.max(needed, Math.min(all, most)), integers ? 0 : all, places && places + 1);
}

/** Returns a node for the numbers that all DFAs accept; NOTHING if there are none.
 * @param {Reader[]} readers @param {Budget} [budget] @param {number} [most] maximum number of states
 * @returns {Node} */
function product(readers, budget, most = MOST_STATES) {
  const starts = readers.map(({ start }) => start);
  const numbers = new Map([[starts.join('|'), 0]]);
  const states = [starts];
  /** @type {[number, number, number][][]} */
  const edges = [];
  /** @type {boolean[]} */
  const accept = [];
  for (let at = 0; at < states.length; at++) {
    budget?.spend('', 4 + 4 * readers.length);
    if (states.length > most) throw tooManyDigitsInAll();
    const state = states[at];
    accept.push(readers.every((reader, i) => reader.accepts(state[i])));
    edges.push(
      LETTERS.flatMap((letter) => {
        const next = readers.map((reader, i) => reader.step(state[i], letter));
        if (!next.every((one) => one !== undefined)) return [];
        const key = next.join('|');
        const code = letter.charCodeAt(0);
        const to = numbers.get(key) ?? states.length;
        if (to === states.length) numbers.set(key, to), states.push(/** @type {string[]} */ (next));
        return [/** @type {[number, number, number]} */ ([code, code, to])];
      }),
    );
  }
  const ends = accept.flatMap((is, at) => (is ? [at] : []));
  if (!ends.length) return NOTHING;
  const alive = living(edges, accept);
  return {
    automaton: { start: 0, accept: ends, edges: edges.map((list) => list.filter(([, , to]) => alive[to])) },
  };
}

/** @param {{ lo: Value | string, loOpen: boolean, hi: Value | string, hiOpen: boolean }} interval of unsigned numbers
 * @returns {Reader[]} */
function bounds({ lo, loOpen, hi, hiOpen }) {
  const readers = [];
  if (Number(lo) > 0 || loOpen) readers.push(comparer(lo, (order) => order === '>' || (order === '=' && !loOpen)));
  if (Number(hi) < Infinity) readers.push(comparer(hi, (order) => order === '<' || (order === '=' && !hiOpen)));
  return readers;
}

const DIGIT = chars([[48, 57]]);
const MINUS = literal('-');
const FRACTION = sequence(literal('.'), repeat(DIGIT, 1, Infinity));
const WHOLE = choice([literal('0'), sequence(chars([[49, 57]]), repeat(DIGIT, 0, Infinity))]);
const E = chars([
  [69, 69],
  [101, 101],
]);
const SIGN = optional(
  chars([
    [43, 43],
    [45, 45],
  ]),
);
/** Node for any JSON number. */
const NUMBER = sequence(
  optional(MINUS),
  WHOLE,
  optional(FRACTION),
  optional(sequence(E, SIGN, repeat(DIGIT, 1, Infinity))),
);

/** Node for a number in an answer: at most 15 significant digits and exponents from -307 to 307, so that JSON.parse
 * returns a normal double. */
const FINITE = sequence(
  optional(MINUS),
  choice([
    product([form(true), limiter(NUMBER_DIGITS, NUMBER_DIGITS, 0)]),
    sequence(
      chars([[49, 57]]),
      optional(sequence(literal('.'), repeat(DIGIT, 1, NUMBER_DIGITS - 1))),
      E,
      SIGN,
      choice([
        DIGIT,
        sequence(chars([[49, 57]]), DIGIT),
        sequence(chars([[49, 50]]), DIGIT, DIGIT),
        sequence(literal('30'), chars([[48, 55]])),
      ]),
    ),
  ]),
);

/** Returns a node for the exponents from `lo` to `hi`, with optional redundant zeros and plus signs. @param {number} lo
 * @param {number} hi @param {Budget} [budget] @returns {Node} */
function exponents(lo, hi, budget) {
  const side = (/** @type {number} */ from, /** @type {number} */ to) =>
    from > to
      ? NOTHING
      : sequence(
          repeat(literal('0'), 0, Infinity),
          product([form(false), ...bounds({ lo: from, loOpen: false, hi: to, hiOpen: false })], budget),
        );
  return choice([
    sequence(optional(literal('+')), side(Math.max(lo, 0), hi)),
    sequence(MINUS, side(Math.max(-hi, 0), -lo)),
  ]);
}

/** Splits a number into mantissa and exponent: '4.5' and -3 for 0.0045. @param {Value} value
 * @returns {[string, number]} */
function scientific(value) {
  const { integer, fraction } = digitsOf(value);
  const all = (integer + fraction).replace(/^0+/, '');
  const power = integer === '0' ? all.length - fraction.length - 1 : integer.length - 1;
  return [`${all[0]}.${all.slice(1) || '0'}`, power];
}

/** Returns a node for the positive numbers of an interval in scientific notation, with one digit before the point.
 * @param {Interval} interval @param {Budget} budget @returns {Node} */
function withExponent({ lo, loOpen, hi, hiOpen }, budget) {
  const [low, from] = lo > 0 ? scientific(lo) : ['1', -Infinity];
  const [high, to] = hi < Infinity ? scientific(hi) : ['10', Infinity];
  if (hi <= 0) return NOTHING;
  /** @param {string} least @param {boolean} leastOpen @param {string} most @param {boolean} mostOpen */
  const mantissas = (least, leastOpen, most, mostOpen) =>
    product([form(true), ...bounds({ lo: least, loOpen: leastOpen, hi: most, hiOpen: mostOpen })], budget);
  if (from === to) return sequence(mantissas(low, loOpen, high, hiOpen), E, exponents(from, to, budget));
  const parts = [sequence(mantissas('1', false, '10', true), E, exponents(from + 1, to - 1, budget))];
  if (from > -Infinity) parts.push(sequence(mantissas(low, loOpen, '10', true), E, exponents(from, from, budget)));
  if (to < Infinity) parts.push(sequence(mantissas('1', false, high, hiOpen), E, exponents(to, to, budget)));
  return choice(parts);
}

/** Node for integers of at least 1e21, which JSON.stringify writes with an exponent. */
const HUGE = sequence(
  chars([[49, 57]]),
  optional(sequence(literal('.'), repeat(DIGIT, 1, 20))),
  E,
  exponents(21, Infinity),
);

/** Returns a node for the unsigned numbers of a set that are in an interval.
 * @param {Interval} interval @param {Numbers} numbers @param {boolean} free whether any notation is allowed
 * @param {Budget} budget */
function unsigned(interval, { multiples, notMultiples }, free, budget) {
  const steps = multiples.length + notMultiples.length;
  const integers = multiples.some(Number.isInteger);
  if (!free) interval = parsed(interval, integers);
  if (!holdsSome(interval)) return NOTHING;
  const dividers = [
    ...multiples.map((step) => divider(step, true)),
    ...notMultiples.map((step) => divider(step, false)),
  ];
  const readers = [form(free || !integers), ...bounds(interval), ...dividers];
  if (!free) {
    // The DFA has a state for every pair of remainder and digit count, so large divisors leave room for few digits.
    const remainders = dividers.reduce((all, { remainders: some }) => all * some, 1);
    const digits = Math.max(Math.ceil(LIMITED_STATES / 4 / remainders), String(remainders).length + 2);
    const all = integers && steps === 1 && multiples[0] === 1 ? INTEGER_DIGITS : NUMBER_DIGITS;
    return product([...readers, limited(interval, integers, all, digits)], budget, LIMITED_STATES);
  }
  const plain = product(readers, budget);
  if (!steps) return choice([plain, withExponent(interval, budget)]);
  const huge =
    multiples.every((step) => Number.isInteger(1 / step)) &&
    !notMultiples.length &&
    interval.hi === Infinity &&
    interval.lo <= 1e21;
  return huge ? choice([plain, HUGE]) : plain;
}

const ZEROS = repeat(literal('0'), 0, Infinity);
const POINT_ZEROS = optional(sequence(literal('.0'), ZEROS));

/** @param {Value} value @param {boolean} free @returns {Node} */
function point(value, free) {
  const text = String(Number(value) === 0 ? 0 : value);
  if (!free || text.includes('e')) return literal(text);
  if (text.includes('.')) return sequence(literal(text), ZEROS);
  const plain = sequence(literal(text), POINT_ZEROS);
  return text === '0' ? sequence(optional(MINUS), plain) : plain;
}

/** @param {Value} value @param {Numbers} numbers */
function fits(value, { multiples, notMultiples }) {
  const divides = (/** @type {number} */ step) => {
    const a = digitsOf(value);
    const b = digitsOf(step);
    const places = Math.max(a.fraction.length, b.fraction.length);
    const whole = (/** @type {typeof a} */ { integer, fraction }) => BigInt(integer + fraction.padEnd(places, '0'));
    return whole(a) % whole(b) === 0n;
  };
  return multiples.every(divides) && !notMultiples.some(divides);
}

/** Returns a node for the JSON numbers of a set; NOTHING if there are none. Throws TooComplex if a bound or divisor has
 * too many digits.
 * @param {Numbers} numbers @param {boolean} free true to allow any notation of equal value (1.0 for an integer),
 * false for only the usual notation @param {Budget} budget @returns {Node} */
export function numberNode(numbers, free, budget) {
  const { intervals, multiples, notMultiples } = numbers;
  const [{ lo, hi } = { lo: 0, hi: 0 }] = intervals;
  const every = lo === -Infinity && hi === Infinity && !multiples.length && !notMultiples.length;
  if (every) return free ? NUMBER : FINITE;
  return choice(
    intervals.flatMap((interval) => {
      const { lo: low, hi: high, loOpen, hiOpen } = interval;
      budget.spend('', (free ? 3 : 1) + multiples.length + notMultiples.length);
      if (low === high) return fits(low, numbers) ? [point(low, free)] : [];
      const parts = [];
      if (high >= 0) {
        const above = { lo: low > 0 ? low : 0, loOpen: low >= 0 && loOpen, hi: high, hiOpen };
        parts.push(unsigned(above, numbers, free, budget));
      }
      if (low < 0 || (free && Number(low) === 0 && !loOpen)) {
        const below = {
          lo: high < 0 ? -high : 0,
          loOpen: high < 0 ? hiOpen : !free || (Number(high) === 0 && hiOpen),
          hi: -low,
          hiOpen: loOpen,
        };
        parts.push(sequence(MINUS, unsigned(below, numbers, free, budget)));
      }
      return parts;
    }),
  );
}
