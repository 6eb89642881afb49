/* lanes: the ranges of a file that are being downloaded. They have equal size and are filled in parallel. Their bytes
 * are returned in order as they arrive. The number of lanes can change during a download. */

/** A range of the file from `start` to before `end`, of which the first `filled` bytes have arrived. */
export class Lane {
  filled = 0;
  full = false;
  /** Whether the buffer has the full size, so that another lane can reuse it. */
  whole = true;
  /** @type {unknown} */
  error;
  /** Resolves when the lane is full or has failed. */
  settled = Promise.resolve();
  /** Wakes the reader of the lane, if one waits: next() sets this function. */
  wake = () => {};

  /** @param {number} start @param {Uint8Array} bytes */
  constructor(start, bytes) {
    this.start = start;
    this.end = start + bytes.length;
    this.bytes = bytes;
  }

  /** Offset in the file of the next byte that will arrive. */
  get at() {
    return this.start + this.filled;
  }

  /** Replaces the buffer by a copy, because a store that timed out may still be reading the old one. */
  leave() {
    this.bytes = this.bytes.slice();
  }

  /** Returns the part of the lane's buffer for the next bytes. @param {number} count */
  room(count) {
    return this.bytes.subarray(this.filled, this.filled + count);
  }

  /** Counts bytes that were written to the buffer, and wakes the reader.
   * @param {number} count number of bytes that arrived */
  came(count) {
    this.filled += count;
    this.wake();
  }
}

/** Function that fills a range. before: resolves when all earlier ranges are full, because one response may have to
 * serve all of them.
 * @typedef {(range: Lane, before: Promise<void>) => Promise<void>} Fill */

/** The lanes of one download. Reuses the buffers of lanes that were read. */
export class Lanes {
  #room;
  #fill;
  /** Postponed ranges. No lane begins in such a range until next() reaches it. @type {[number, number][]} */
  holes = [];
  /** @type {Lane[]} */
  #lanes = [];
  #at = 0;
  /** Resolve when the unfinished lanes, including skipped ones, are full or have failed. @type {Set<Promise<void>>} */
  #running = new Set();
  /** @type {Uint8Array[]} */
  #spare = [];

  /** @param {() => Uint8Array} room allocates a buffer, always of one size @param {Fill} fill */
  constructor(room, fill) {
    this.#room = room;
    this.#fill = fill;
  }

  /** Returns the next bytes, which are valid until the next call; null at the end. from: offset of the first byte;
   * settings: returns the current number of lanes, the end of the file, and the alignment in bytes of a lane before
   * existing ones; most: maximum number of bytes. @param {number} from
   * @param {() => { lanes: number, end: number, grain?: number }} settings
   * @param {number} [most] */
  async next(from, settings, most = Infinity) {
    this.skip(from);
    for (;;) {
      this.#begin(settings());
      const [lane] = this.#lanes;
      if (!lane) return null;
      const given = this.#at - lane.start;
      if (given < lane.filled) {
        const end = Math.min(lane.filled, given + most);
        this.#at = lane.start + end;
        return lane.bytes.subarray(given, end);
      }
      if (lane.error) throw lane.error;
      if (!lane.full)
        await new Promise((resolve) => {
          lane.wake = () => resolve(null);
        });
      else {
        this.#lanes.shift();
        if (lane.whole) this.#spare.push(lane.bytes);
      }
    }
  }

  /** Moves the read position forward to offset `to`. @param {number} to */
  skip(to) {
    if (to <= this.#at) return;
    this.#at = to;
    this.#lanes = this.#lanes.filter(({ end }) => end > to);
  }

  /** @param {{ lanes: number, end: number, grain?: number }} settings */
  #begin({ lanes, end, grain = 1 }) {
    const [first] = this.#lanes;
    if (this.#at < end && !(first?.start <= this.#at)) this.#open(this.#at - (this.#at % grain), first);
    for (let last; (last = this.#lanes.at(-1)) && this.#lanes.length < lanes; ) {
      let next = last.end;
      for (const [from, to] of this.holes) if (next >= from && next < to) next = to;
      if (next >= end) return;
      this.#open(next);
    }
  }

  /** @param {number} start @param {Lane} [before] */
  #open(start, before) {
    const room = this.#spare.pop() ?? this.#room();
    const lane = new Lane(start, before ? room.subarray(0, before.start - start) : room);
    lane.whole = !before;
    lane.settled = this.#run(lane, this.settled());
    this.#running.add(lane.settled);
    if (before) this.#lanes.unshift(lane);
    else this.#lanes.push(lane);
  }

  /** Resolves when all lanes are full or have failed. */
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
