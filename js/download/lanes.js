/* lanes: a window over a file: ranges of one size that are filled in parallel and returned in order as their bytes
 * arrive. Their number can change meanwhile. */

/** Bytes of the file from `start` to before `end`: the first `filled` have arrived. */
export class Lane {
  filled = 0;
  full = false;
  /** Whether its buffer can be used by any other. */
  whole = true;
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
  /** Ranges in which no lane begins before its bytes are asked for. @type {[number, number][]} */
  holes = [];
  /** Unread ones, in order. @type {Lane[]} */
  #lanes = [];
  /** Offset of the next byte to return. */
  #at = 0;
  /** Unfinished lanes, skipped ones included. @type {Set<Promise<void>>} */
  #running = new Set();
  /** Buffers to reuse. @type {Uint8Array[]} */
  #spare = [];

  /** @param {() => Uint8Array} room allocates a buffer, always of one size @param {Fill} fill */
  constructor(room, fill) {
    this.#room = room;
    this.#fill = fill;
  }

  /** Returns bytes that are valid until the next call; null at the end. from: offset of the first byte; settings: the
   * number of lanes now, the end of the file, and a number that the first offset of a lane is a multiple of; most: bytes
   * at most. @param {number} from @param {() => { lanes: number, end: number, grain?: number }} settings
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

  /** Continues at a later offset. @param {number} to */
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

  /** Begins a lane, in front of another one or as the last one. @param {number} start @param {Lane} [before] */
  #open(start, before) {
    const room = this.#spare.pop() ?? this.#room();
    const lane = new Lane(start, before ? room.subarray(0, before.start - start) : room);
    lane.whole = !before;
    lane.settled = this.#run(lane, this.settled());
    this.#running.add(lane.settled);
    if (before) this.#lanes.unshift(lane);
    else this.#lanes.push(lane);
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
