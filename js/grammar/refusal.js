/*
 * refusal: what a format compiler says when it cannot hold to a format, and the budget that keeps it from trying for
 * ever. A refusal names what cannot be held and where (a JSON pointer in a schema, an offset in a regex or a grammar);
 * outside this room it becomes the coded error `bad-format`.
 */

/** The ends of a long text. @param {string} text */
const clipped = (text) => text.length > 240 ? `${text.slice(0, 160)} ... ${text.slice(-60)}` : text;

/** A format that cannot be held, or that is none. */
export class Unsupported extends Error {
  /** @param {string} what cannot be held, and why @param {string | number} place pointer or offset */
  constructor(what, place) {
    const where = typeof place === 'number' ? `offset ${place}` : `#${clipped(place)}`;
    super(`${clipped(what)} (at ${where})`);
    this.name = 'Unsupported';
    this.what = clipped(what);
    this.place = place;
  }
}

/** Steps and time that one compilation may take: who runs out is refused, in bounded time and memory. */
export class Budget {
  /** @param {{ milliseconds?: number, steps?: number }} [limits] */
  constructor({ milliseconds = 1000, steps = 400000 } = {}) {
    this.until = performance.now() + milliseconds;
    this.steps = steps;
  }

  /** One step of work at a place. @param {string | number} place @param {number} [cost] */
  spend(place, cost = 1) {
    this.steps -= cost;
    if (this.steps < 0) throw new Unsupported('too large: the format has too many cases to hold', place);
    if ((this.steps & 255) === 0 && performance.now() > this.until) {
      throw new Unsupported('too large: compiling takes too long', place);
    }
  }
}
