/* feeder: reads sources that the client has (streams, iterables, bytes) and returns pieces on the worker's request. */
/** @import { ByteIterator, Part } from './describe.js' */
import { reading } from '../errors.js';
import { asBytes } from './describe.js';
import { notBytes } from './later-errors.js';
import { cutter } from './pump.js';

const CHUNK = 1 << 20;

/** Splits the chunks of an iterator into pieces. next: returns the next piece, null at the end; throws `read-error`.
 * @param {ByteIterator} iterator */
function feederOf(iterator) {
  const take = cutter(async () => {
    const { done, value } = await iterator.next();
    const bytes = done ? null : asBytes(value);
    if (done || bytes) return bytes;
    throw notBytes(value?.constructor?.name ?? typeof value);
  });
  return {
    next: () =>
      reading('The model stream', async () => {
        const piece = await take(CHUNK);
        return piece.length ? piece.slice() : null; // a copy, because posting a piece detaches its buffer
      }),
    async close() {
      try {
        await iterator.return?.();
      } catch {
        /* The load has ended, so an error when the caller's iterator is closed is ignored. */
      }
    },
  };
}

/** The feeders of all files of a model whose bytes the client has. */
export class Feeders {
  #feeders;

  /** @param {Part[]} parts */
  constructor(parts) {
    this.#feeders = parts.map(({ bytes }) => bytes && feederOf(bytes));
  }

  /** Returns the next piece of a file; null at the end. @param {number} part index of the file */
  next(part) {
    return this.#feeders[part]?.next() ?? Promise.resolve(null);
  }

  /** Closes the iterators of all files, and ignores their errors. next() then returns null. */
  close() {
    for (const feeder of this.#feeders) void feeder?.close();
    this.#feeders = [];
  }
}
