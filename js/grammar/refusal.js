/*
 * refusal: what a format compiler says when it cannot hold to a format, and the budget that keeps it from trying for
 * ever. A refusal names what cannot be held and where (a JSON pointer in a schema, an offset in a regex or a grammar);
 * outside this room it becomes the coded error `bad-format`.
 */

/** The ends of a long text. @param {string} text */
const clipped = (text) => (text.length > 240 ? `${text.slice(0, 160)} ... ${text.slice(-60)}` : text);

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

/** Steps of one compilation, each about a microsecond. */
const MOST_STEPS = 400_000;
/** Far more than so many steps take, on a slow machine too. */
const MOST_MILLISECONDS = 20_000;
/** Steps between two looks at the clock. */
const LOOK = 256;

/** alive: is called again and again while a compilation goes on, which nothing else interrupts.
 * @typedef {{ milliseconds?: number, alive?: () => void }} ClockOptions */

/** The time that one compilation may take. */
export class Clock {
  #steps = 0;
  #until;
  #alive;

  /** @param {ClockOptions} [options] */
  constructor({ milliseconds = MOST_MILLISECONDS, alive } = {}) {
    this.#until = performance.now() + milliseconds;
    this.#alive = alive;
  }

  /** After so many steps. @param {number} steps @param {string | number} place */
  passed(steps, place) {
    this.#steps += steps;
    if (this.#steps < LOOK) return;
    this.#steps = 0;
    this.#alive?.();
    if (performance.now() > this.#until) throw new Unsupported('too large: compiling takes too long', place);
  }
}

/** Steps and time that one compilation may take: who runs out is refused, in bounded time and memory. The steps decide;
 * the clock is there for what they count too low. */
export class Budget {
  /** @param {ClockOptions & { steps?: number }} [limits] */
  constructor({ steps = MOST_STEPS, ...limits } = {}) {
    this.clock = new Clock(limits);
    this.steps = steps;
  }

  /** One step of work at a place. @param {string | number} place @param {number} [cost] */
  spend(place, cost = 1) {
    this.steps -= cost;
    if (this.steps < 0) throw new Unsupported('too large: the format has too many cases to hold', place);
    this.clock.passed(cost, place);
  }
}
