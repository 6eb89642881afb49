/*
 * refusal: what the format compilers throw when an answer cannot be held to a format, and the one budget of work of a
 * compilation. A refusal names what cannot be held and where (a JSON pointer in a schema, an offset in an expression or
 * a grammar); outside this room it becomes an error with its code.
 */

/** Shortens a long text to its ends. @param {string} text */
const clipped = (text) => (text.length > 240 ? `${text.slice(0, 160)} ... ${text.slice(-60)}` : text);

/** A format that is malformed, or that answers cannot be held to. */
export class Unsupported extends Error {
  /** @type {'bad-format' | 'format-too-complex'} */
  code = 'bad-format';

  /** @param {string} what cannot be held, and why @param {string | number} place pointer or offset */
  constructor(what, place) {
    const where = typeof place === 'number' ? `offset ${place}` : `#${clipped(place)}`;
    super(`${clipped(what)} (at ${where})`);
    this.name = 'Unsupported';
    this.what = clipped(what);
    this.place = place;
  }
}

/** A format that could be held, but needs more work, memory or depth than one format may take. */
export class TooComplex extends Unsupported {
  code = /** @type {const} */ ('format-too-complex');

  /** @param {string} why @param {string | number} [place] pointer or offset */
  constructor(why, place = '') {
    super(`too large: ${why}`, place);
  }
}

/** Units of work of one compilation, all passes together: at most about a microsecond each. */
const MOST_STEPS = 250_000;
/** A backstop for work that is counted too low. Steps decide first, so that the same formats compile everywhere: all of
 * them take about half a second, which a slow phone or a busy machine stretches. */
const MOST_MILLISECONDS = 10_000;
/** Steps between two looks at the clock. */
const LOOK = 256;

/** alive: called at least every few milliseconds of a compilation, which nothing else interrupts.
 * @typedef {{ steps?: number, milliseconds?: number, alive?: () => void }} Limits */

/** The work that one compilation may take. Every pass (parsing, schema logic, ordering, lowering) spends from the same
 * budget, once per node that it visits, so time and memory are bounded for every format. */
export class Budget {
  /** Properties of Unicode that were paid for: each costs the same work, whether its code points are known or not.
   * @type {Set<string>} */
  properties = new Set();
  #steps = 0;
  #until;
  #alive;

  /** @param {Limits} [limits] */
  constructor({ steps = MOST_STEPS, milliseconds = MOST_MILLISECONDS, alive } = {}) {
    this.left = steps;
    this.#until = performance.now() + milliseconds;
    this.#alive = alive;
  }

  /** Spends work at a place. @param {string | number} place pointer or offset @param {number} [steps] */
  spend(place, steps = 1) {
    this.left -= steps;
    if (this.left < 0) throw new TooComplex('the format has too many cases to hold', place);
    this.#steps += steps;
    if (this.#steps < LOOK) return;
    this.#steps = 0;
    this.#alive?.();
    if (performance.now() > this.#until) throw new TooComplex('compiling takes too long', place);
  }
}

/** Calls a pass of the compilers; a stack overflow or an array that is too long becomes a refusal.
 * @template T @param {() => T} pass @returns {T} */
export function bounded(pass) {
  try {
    return pass();
  } catch (error) {
    if (error instanceof RangeError) throw new TooComplex('parts too deep within each other');
    throw error;
  }
}
