/* lanes: a window over a file: ranges of one size that are filled in parallel and returned in order as their bytes
 * arrive. Their number can change meanwhile. */

/** Bytes of the file from `start` to before `end`: the first `filled` have arrived, the first `given` were returned. */
export class Lane {
  filled = 0;
  given = 0;
  full = false;
  /** @type {unknown} */
  error;
  /** Resolves when it is full or failed. */
  settled = Promise.resolve();
  wake = () => {};

  /** @param {number} start @param {Uint8Array} bytes */
  constructor(start, bytes) {
    this.start = start;
    this.end = start + bytes.length;
    this.bytes = bytes;
  }

  /** Offset of its next byte in the file. */
  get at() {
    return this.start + this.filled;
  }

  /** Leaves the buffer to a store that timed out and may still be writing it. */
  leave() {
    this.bytes = this.bytes.slice();
  }

  /** Returns the buffer space for its next bytes. @param {number} count */
  room(count) {
    return this.bytes.subarray(this.filled, this.filled + count);
  }

  /** @param {number} count bytes that were written */
  came(count) {
    this.filled += count;
    this.wake();
  }
}

/** @typedef {Lane} Range */
/** Fills a range. before: resolves when all ranges before it are full, since they may have to share one answer.
 * @typedef {(range: Range, before: Promise<void>) => Promise<void>} Fill */

export class Lanes {
  #room;
  #fill;
  /** Unread ones. @type {Lane[]} */
  #lanes = [];
  /** Start of the next one. */
  #next = 0;
  /** Bytes before it are not returned. */
  #from = 0;
  /** Unfinished ones, also those that were skipped. @type {Set<Promise<void>>} */
  #running = new Set();
  /** Buffers to reuse. @type {Uint8Array[]} */
  #spare = [];

  /** @param {() => Uint8Array} room allocates a buffer, always of one size @param {Fill} fill */
  constructor(room, fill) {
    this.#room = room;
    this.#fill = fill;
  }

  /** Returns bytes that are valid until the next call; null at the end. from: start of the first lane; settings: the
   * number of lanes now, and the end of the file; most: bytes at most. @param {number} from
   * @param {() => { lanes: number, end: number }} settings @param {number} [most] */
  async next(from, settings, most = Infinity) {
    this.#next = Math.max(this.#next, from);
    for (;;) {
      this.#begin(settings());
      const [lane] = this.#lanes;
      if (!lane) return null;
      const { filled } = lane;
      const given = Math.max(lane.given, this.#from - lane.start);
      if (given < filled) {
        lane.given = Math.min(filled, given + most);
        return lane.bytes.subarray(given, lane.given);
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

  /** Continues at a later offset. start: of the lane there, if it is not begun yet. @param {number} to
   * @param {number} start */
  skip(to, start) {
    this.#from = to;
    this.#lanes = this.#lanes.filter(({ end }) => end > to);
    if (!this.#lanes.length) this.#next = Math.max(this.#next, start);
  }

  /** @param {{ lanes: number, end: number }} settings */
  #begin({ lanes, end }) {
    while (this.#lanes.length < lanes && this.#next < end) {
      const lane = new Lane(this.#next, this.#spare.pop() ?? this.#room());
      lane.settled = this.#run(lane, this.settled());
      this.#running.add(lane.settled);
      this.#lanes.push(lane);
      this.#next = lane.end;
    }
  }

  /** Resolves when all lanes are full or failed. */
  async settled() {
    for (const lane of [...this.#running]) await lane;
  }

  /** @param {Lane} lane @param {Promise<void>} before */
  async #run(lane, before) {
    try {
      await this.#fill(lane, before);
    } catch (error) {
      lane.error = error;
    }
    lane.full = true;
    this.#running.delete(lane.settled);
    lane.wake();
  }
}
