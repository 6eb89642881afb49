/* lanes: a window over a file: ranges of one size, filled side by side by whoever knows how, and given in order as
 * their bytes come. How many there may be is a setting, which may change on the way. */

/** Bytes of the file from `start` to before `end`, of which the first `filled` came and the first `given` went. */
class Lane {
  filled = 0;
  given = 0;
  full = false;
  /** @type {unknown} */
  error;
  /** When it is full, or failed. */
  settled = Promise.resolve();
  wake = () => {};

  /** @param {number} start @param {Uint8Array} bytes */
  constructor(start, bytes) {
    this.start = start;
    this.end = start + bytes.length;
    this.bytes = bytes;
  }

  /** Where its next byte lies in the file. */
  get at() {
    return this.start + this.filled;
  }

  /** A store that was given up may still write its bytes: they are left to it, and not used again. */
  leave() {
    this.bytes = this.bytes.slice();
  }

  /** Where its next bytes go. @param {number} count */
  room(count) {
    return this.bytes.subarray(this.filled, this.filled + count);
  }

  /** @param {number} count bytes that are in their room */
  came(count) {
    this.filled += count;
    this.wake();
  }
}

/** @typedef {Lane} Range */
/** Fills a range; before: until all before it are full, for one answer may have to do for several.
 * @typedef {(range: Range, before: Promise<void>) => Promise<void>} Fill */

export class Lanes {
  #room;
  #fill;
  /** From the one that is being given. @type {Lane[]} */
  #lanes = [];
  /** Where the next one begins. */
  #next = 0;
  /** Of those that were given. @type {Uint8Array[]} */
  #spare = [];

  /** @param {() => Uint8Array} room for a range: all of one size @param {Fill} fill */
  constructor(room, fill) {
    this.#room = room;
    this.#fill = fill;
  }

  /** Bytes, valid until the next call; null at the end. from: where the first lane begins; settings: how many there may
   * be now, and where no more are begun. @param {number} from @param {() => { lanes: number, end: number }} settings */
  async next(from, settings) {
    this.#next = Math.max(this.#next, from);
    for (;;) {
      this.#begin(settings());
      const [lane] = this.#lanes;
      if (!lane) return null;
      const { given, filled } = lane;
      if (given < filled) {
        lane.given = filled;
        return lane.bytes.subarray(given, filled);
      }
      if (lane.error) throw lane.error;
      if (!lane.full)
        await new Promise((resolve) => {
          lane.wake = () => resolve(null);
        });
      else {
        this.#lanes.shift();
        this.#spare.push(lane.bytes);
      }
    }
  }

  /** @param {{ lanes: number, end: number }} settings */
  #begin({ lanes, end }) {
    while (this.#lanes.length < lanes && this.#next < end) {
      const lane = new Lane(this.#next, this.#spare.pop() ?? this.#room());
      lane.settled = this.#run(lane, this.settled());
      this.#lanes.push(lane);
      this.#next = lane.end;
    }
  }

  /** When those that were begun are full, or failed. */
  async settled() {
    for (const lane of [...this.#lanes]) await lane.settled;
  }

  /** @param {Lane} lane @param {Promise<void>} before */
  async #run(lane, before) {
    try {
      await this.#fill(lane, before);
    } catch (error) {
      lane.error = error;
    }
    lane.full = true;
    lane.wake();
  }
}
