/*
 * refusal: the errors of the format compilers, and the work budget of a compilation. An error names what cannot be
 * enforced and where (a JSON pointer in a schema, an offset in an expression or grammar).
 */

/** @param {string} text */
const clipped = (text) => (text.length > 240 ? `${text.slice(0, 160)} ... ${text.slice(-60)}` : text);

/** The error for a format that is malformed or cannot be enforced. */
export class Unsupported extends Error {
  /** @type {'bad-format' | 'format-too-complex'} */
  code = 'bad-format';

  /** @param {string} what says what cannot be enforced, and why @param {string | number} [place] pointer or offset */
  constructor(what, place = '') {
    const where = typeof place === 'number' ? `offset ${place}` : `#${clipped(place)}`;
    super(`${clipped(what)} (at ${where})`);
    this.name = 'Unsupported';
    this.what = clipped(what);
    this.place = place;
  }
}

/** The error for a format that could be enforced, but exceeds the limits on work, memory or depth. */
export class TooComplex extends Unsupported {
  code = /** @type {const} */ ('format-too-complex');
}

/** Maximum number of steps of one compilation, in all passes. */
const MOST_STEPS = 250_000;
/** Time limit of a compilation, in case steps underestimate the work. Normally the limit on steps applies first, after
 * about half a second, so that the same formats compile on every machine. */
const MOST_MILLISECONDS = 10_000;
/** Number of steps between two checks of the time limit. */
const LOOK = 256;

/** Limits of a compilation. alive: called every few milliseconds to send a heartbeat, because a compilation blocks the
 * thread.
 * @typedef {{ steps?: number, milliseconds?: number, alive?: () => void }} Limits */

/** The work budget of a compilation. All passes spend from it for each node that they visit, which bounds time and
 * memory for every format. */
export class Budget {
  /** Names for which isNew() has returned true. @type {Set<string>} */
  #known = new Set();
  #steps = 0;
  #until;
  #alive;

  /** @param {Limits} [limits] */
  constructor({ steps = MOST_STEPS, milliseconds = MOST_MILLISECONDS, alive } = {}) {
    this.left = steps;
    this.#until = performance.now() + milliseconds;
    this.#alive = alive;
  }

  /** Returns whether this compilation asks for a cached result for the first time, so that its cost must be spent. The
   * cost does not depend on whether the result is cached already, so that limits are reproducible.
   * @param {string} name of the result */
  isNew(name) {
    if (this.#known.has(name)) return false;
    this.#known.add(name);
    return true;
  }

  /** Spends steps. Throws TooComplex if none are left. @param {string | number} place pointer or offset, for the error
   * @param {number} [steps] */
  spend(place, steps = 1) {
    this.left -= steps;
    if (this.left < 0) throw new TooComplex('the format has too many cases', place);
    this.#steps += steps;
    if (this.#steps < LOOK) return;
    this.#steps = 0;
    this.#alive?.();
    if (performance.now() > this.#until) throw new TooComplex('compiling takes too long', place);
  }
}

/** Runs a compiler pass. A stack overflow or an array that is too long becomes a TooComplex error. @template T
 * @param {() => T} pass @returns {T} */
export function bounded(pass) {
  try {
    return pass();
  } catch (error) {
    if (error instanceof RangeError) throw new TooComplex('its parts are nested too deeply');
    throw error;
  }
}
