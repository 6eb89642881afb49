/* spill: copies the embedding tables of a source that cannot be read again (a stream, or a URL that is not cached)
 * to a temporary file while the source is loaded. The file's pieces have checksums, which are compared at each read. */
/** @import { Source, TemporaryFile } from '../download/source.js' */
/** @import { OpenOptions, TensorInfo } from '../protocol.js' */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Meter } from './meter.js' */
import { Checks, pieceOf, tableBytes } from '../download/checks.js';
import { createTemporary } from '../download/temporary-browser.js';
import { abortError } from '../errors.js';
import {
  endsInTable,
  storageFull,
  temporaryCorrupt,
  temporaryNotCreated,
  temporaryNotRead,
  temporaryNotWritten,
} from './errors.js';

const CHUNK = 1 << 20;

/** Copies the embedding tables that stay on disk to temporary files, if their sources cannot be read again. If a
 * file cannot be created, returns false; with `rowsOnDisk: true`, throws `bad-option`. @param {Source[]} sources
 * @param {OpenOptions} options @param {{ native: Engine, platform: Platform, meter: Meter }} deps */
export async function spill(sources, { rowsOnDisk, cache }, { native, platform, meter }) {
  const tables = native.list('tensor').filter(({ onDisk }) => onDisk);
  /** @type {[Source, Spill][]} */
  const made = [];
  try {
    for (const [i, source] of sources.entries()) {
      const own = tables.filter(({ part = 0 }) => part === i).sort((a, b) => a.offset - b.offset);
      if (!own.length || source.seekable()) continue;
      const size = own.reduce((total, { bytes }) => total + bytes, 0);
      const file = await (platform.createTemporary ?? createTemporary)(size, cache?.folder);
      made.push([source, new Spill(own, size, file, native.checker().sum)]);
    }
  } catch (cause) {
    for (const [, one] of made) await one.close();
    if (rowsOnDisk !== true) return false;
    throw temporaryNotCreated(cause);
  }
  for (const [source, one] of made) one.attach(source, meter);
  return true;
}

/** The embedding tables of one source, one after the other in a temporary file. */
export class Spill {
  #tables;
  /** @type {TemporaryFile | undefined} */
  #file;
  #sum;
  #checks;
  #chunk = new Uint8Array(CHUNK);
  #size = 0;
  /** Reads the rest of the tables from the source, and closes the source. */
  finish = async () => {};
  /** Size in bytes of the file's pieces, each of which has a checksum. */
  grain;

  /** @param {TensorInfo[]} tables in order @param {number} total size of all tables @param {TemporaryFile} file
   * @param {(bytes: Uint8Array) => number[]} sum computes a checksum */
  constructor(tables, total, file, sum) {
    this.#tables = tables;
    this.total = total;
    this.#file = file;
    this.#sum = sum;
    this.grain = pieceOf(total, CHUNK);
    this.#checks = new Checks(new Uint8Array(tableBytes({ total, piece: this.grain })));
  }

  /** Starts copying the embedding tables to the temporary file while their source is read. @param {Source} source
   * @param {Meter} meter */
  attach(source, meter) {
    const { read, close, head = new Uint8Array() } = source;
    let { at } = source;
    const take = (/** @type {Uint8Array} */ bytes) => {
      for (const { offset, bytes: size } of this.#tables) {
        this.#append(bytes.subarray(Math.max(offset - at, 0), Math.max(offset + size - at, 0)));
      }
      at += bytes.length;
    };
    source.spill = this;
    source.read = async (into) => {
      const count = await read(into);
      take(into.subarray(0, count));
      return count;
    };
    source.close = async (error) => {
      await this.close();
      await close(error);
    };
    this.finish = async () => {
      const scratch = new Uint8Array(CHUNK);
      while (this.#size < this.total) {
        const count = await source.read(scratch);
        if (!source.download) meter.add(count);
        if (!count) throw endsInTable();
      }
      if (this.#size % CHUNK) this.#write(this.#size % CHUNK);
      this.#chunk = scratch.subarray(0, 0);
      source.close = () => this.close();
      await close();
    };
    // The read that completed the header may also have read the first bytes of a table.
    at -= head.length;
    source.head = undefined;
    take(head);
  }

  /** @param {Uint8Array} bytes */
  #append(bytes) {
    for (let done = 0; done < bytes.length; ) {
      const filled = this.#size % CHUNK;
      const part = bytes.subarray(done, done + CHUNK - filled);
      this.#chunk.set(part, filled);
      this.#size += part.length;
      done += part.length;
      if (filled + part.length === CHUNK) this.#write(CHUNK);
    }
  }

  /** Writes the first `count` bytes of the chunk to the temporary file. Throws `cache-failed`. @param {number} count */
  #write(count) {
    const start = this.#size - count;
    const bytes = this.#chunk.subarray(0, count);
    for (let at = 0; at < count; at += this.grain) {
      this.#checks.set((start + at) / this.grain, this.#sum(bytes.subarray(at, at + this.grain)));
    }
    try {
      // Writes the rest after a short write: a full disk first accepts a part of the bytes, and then fails.
      for (let done = 0, n; done < count; done += n) {
        n = this.#file?.write(bytes.subarray(done), start + done) ?? 0;
        if (!n) throw storageFull();
      }
    } catch (cause) {
      throw temporaryNotWritten(cause);
    }
  }

  /** Returns the offset of a table in the temporary file. @param {TensorInfo} table of the source */
  place({ name }) {
    const before = this.#tables.slice(
      0,
      this.#tables.findIndex((one) => one.name === name),
    );
    return before.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Returns the bytes of whole pieces of the temporary file, after comparing their checksums. Throws `cache-failed` or
   * `cache-corrupt`. @param {number} start
   * @param {number} end */
  read(start, end) {
    const file = this.#file;
    if (!file) throw abortError();
    const bytes = new Uint8Array(end - start);
    let count = 0;
    try {
      count = file.read(bytes, start);
    } catch (cause) {
      throw temporaryNotRead(cause);
    }
    for (let at = 0; at < bytes.length; at += this.grain) {
      const piece = bytes.subarray(at, at + this.grain);
      if (at + piece.length <= count && this.#checks.fits((start + at) / this.grain, this.#sum(piece))) continue;
      throw temporaryCorrupt(start + at);
    }
    return bytes;
  }

  /** Removes the temporary file. */
  async close() {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}
