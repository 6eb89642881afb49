/* feeder: sources that the client holds (streams, iterables, bytes), in pieces that the worker asks for. */
/** @import { ByteIterator, Part } from './describe.js' */
import { ModelError, reading } from '../errors.js';
import { asBytes } from './describe.js';
import { cutter } from './pump.js';

/** Bytes in a piece, at most. */
const CHUNK = 1 << 20;

/** Copies pieces of an iterator's chunks: the caller keeps its buffers. */
class ChunkFeeder {
  #iterator;
  #take;

  /** @param {ByteIterator} iterator */
  constructor(iterator) {
    this.#iterator = iterator;
    this.#take = cutter(async () => {
      const { done, value } = await iterator.next();
      const bytes = done ? null : asBytes(value);
      if (done || bytes) return bytes;
      throw new ModelError('read-error', 'the model stream', {
        expected: 'bytes',
        got: value?.constructor?.name ?? typeof value,
      });
    });
  }

  /** null: the end. */
  next() {
    return reading('the model stream', async () => {
      const piece = await this.#take(CHUNK);
      return piece.length ? piece.slice() : null;
    });
  }

  async close() {
    try {
      await this.#iterator.return?.();
    } catch {
      /* a failing clean-up of the caller's does not matter */
    }
  }
}

/** The parts of a model that the client holds. */
export class Feeders {
  #feeders;

  /** @param {Part[]} parts */
  constructor(parts) {
    this.#feeders = parts.map(({ bytes }) => bytes && new ChunkFeeder(bytes));
  }

  /** null: the end. @param {number} part */
  next(part) {
    return this.#feeders[part]?.next() ?? Promise.resolve(null);
  }

  close() {
    for (const feeder of this.#feeders) void feeder?.close();
    this.#feeders = [];
  }
}
