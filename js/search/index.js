/* index: finds the vectors nearest to a query, exactly. First compares all vectors, rounded to bytes, with the query. A
 * bound on the rounding error selects candidates, and only these are compared as floats. The result is the same as
 * without rounding, in a tenth of the time. See docs/search.md. */
/** @import { Entry, Folder, Seen, Segment } from './segments.js' */
/** @import { Scan } from './scan.js' */
/** @import { StorageUse } from '../protocol.js' */
import { checkData, checkId, checkNames, checkVector } from './checks.js';
import { fileNotRemoved, indexFailed, wrongOption } from './errors.js';
import { join, see, seenOf } from './join.js';
import { newWriter, nextName, pack, readAll, stampOf } from './segments.js';

/** Number of files above which an index is compacted into one file. */
const MOST_FILES = 32;
/** Factor on error bounds, which covers the rounding of double arithmetic. */
const SLACK = 1 + 1e-9;

/** An item of an index.
 * @typedef {object} Item
 * @property {string} id Id, unique in the index.
 * @property {ArrayLike<number>} vector Finite numbers, one per dimension of the index.
 * @property {any} [data] Anything that JSON can hold.
 */
/** An item with its vector.
 * @typedef {object} StoredItem
 * @property {string} id Id of the item.
 * @property {Float32Array} vector Vector of the item.
 * @property {any} data Data of the item.
 */
/** A result of a query.
 * @typedef {object} Hit
 * @property {string} id Id of the item.
 * @property {number} score Dot product of the vectors.
 * @property {any} [data] Data of the item.
 */
/** Options of a query.
 * @typedef {object} QueryOptions
 * @property {number} [count] Maximum number of results. Default: 10.
 */

/** An index of vectors. `openIndex` makes it. */
export class SearchIndex {
  #scan;
  #folder;
  /** Files that this index has read or written. @type {Set<string>} */
  #files = new Set();
  /** Version vector of the files that this index has read or written, including files that were replaced since.
   * @type {Seen} */
  #seen = {};
  #writer = newWriter();
  /** @type {(Entry | null)[]} items by row; null for free rows */
  #rows = [];
  /** For each row, the stamp (logical timestamp) of the file that its item came from. @type {string[]} */
  #stamps = [];
  /** For each row, scale, length and error of its rounded vector (scan.js). The scale is NaN for free rows. */
  #rounded = new Float64Array(0);
  /** @type {Map<string, number>} */
  #byId = new Map();
  /** @type {number[]} */
  #free = [];
  #vectors = new Float32Array(0);
  /** Resolves when the previous change ends: changes run one after the other. @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /** @internal @param {Scan} scan @param {number} dimensions @param {Folder | null} folder null: in memory only */
  constructor(scan, dimensions, folder) {
    this.#scan = scan;
    /** Length of the vectors. */
    this.dimensions = dimensions;
    this.#folder = folder;
  }

  /** Number of items. */
  get size() {
    return this.#byId.size;
  }

  /** Adds items, or replaces those with the same ids. @param {Item | Item[]} items */
  async add(items) {
    const list = [items].flat();
    const { dimensions } = this;
    const vectors = new Float32Array(list.length * dimensions);
    const entries = list.map((item, i) => {
      checkNames('item', item, ['id', 'vector', 'data']);
      const { id, vector } = item;
      checkId(id);
      const data = checkData(item.data);
      vectors.set(checkVector(vector, dimensions), i * dimensions);
      return data === undefined ? { id } : { id, data };
    });
    await this.#locked(() => this.#change({ about: { dimensions, entries, deleted: [] }, vectors }));
  }

  /** Deletes items. Unknown ids are ignored. @param {string | string[]} ids */
  async delete(ids) {
    const list = [ids].flat();
    list.forEach(checkId);
    await this.#locked(() => this.#delete(list));
  }

  /** Returns the items with the greatest dot products, best first.
   * @param {ArrayLike<number>} vector @param {QueryOptions} [options]
   * @returns {Hit[]} */
  query(vector, options = {}) {
    checkNames('option', options, ['count']);
    const { count = 10 } = options;
    if (!Number.isInteger(count) || count < 1) throw wrongOption('count', 'a positive integer', count);
    const query = checkVector(vector, this.dimensions);
    const hits = this.#candidates(query, count).map((row) => ({ row, score: this.#product(row, query) }));
    hits.sort((a, b) => b.score - a.score || a.row - b.row);
    return hits.slice(0, count).map(({ row, score }) => {
      const { id, data } = /** @type {Entry} */ (this.#rows[row]);
      return data === undefined ? { id, score } : { id, score, data: structuredClone(data) };
    });
  }

  /** Returns an item, or undefined. @param {string} id @returns {StoredItem | undefined} */
  get(id) {
    const row = this.#byId.get(id);
    if (row === undefined) return undefined;
    const { data } = /** @type {Entry} */ (this.#rows[row]);
    return { id, vector: this.#vector(row).slice(), data: structuredClone(data) };
  }

  /** Lists the items, without their vectors. @returns {Entry[]} */
  list() {
    return this.#rows.flatMap((row) => (row ? [structuredClone(row)] : []));
  }

  /** Returns the bytes that all vectors need, as `usage`. @returns {Promise<StorageUse>} */
  async estimate() {
    return { usage: this.size * this.dimensions * Float32Array.BYTES_PER_ELEMENT };
  }

  /** Deletes all items. */
  async clear() {
    await this.#locked(async () => {
      await this.#delete([...this.#byId.keys()]);
      await this.#compact();
    });
  }

  /** Reads the files of the folder, if there is one. Throws `index-failed`. @internal */
  async load() {
    const folder = this.#folder;
    if (!folder) return;
    try {
      await this.#read(folder);
    } catch (cause) {
      throw indexFailed('read', cause);
    }
  }

  /** @param {Folder} folder */
  async #read(folder) {
    const found = await readAll(folder, this.dimensions);
    const files = [...found.values()];
    const all = join(files);
    this.#files = new Set(found.keys());
    this.#seen = seenOf(files);
    this.#reserve(all.size);
    for (const { entry, stamp, vector } of all.values()) this.#put(entry, stamp, vector);
  }

  /** Applies a change. Reserves memory and writes the file first, so that an error leaves the index unchanged.
   * @param {Segment} segment */
  async #change(segment) {
    const { entries, deleted } = segment.about;
    const { dimensions } = this;
    if (!entries.length && !deleted.length) return;
    this.#reserve(this.#rows.length + entries.length);
    const stamp = await this.#write(segment);
    for (const id of deleted) this.#remove(id);
    entries.forEach((entry, i) => {
      this.#put(entry, stamp, segment.vectors.subarray(i * dimensions, (i + 1) * dimensions));
    });
    // The change is stored, so a failure to compact is ignored. The next change tries again.
    if (this.#files.size > MOST_FILES) await this.#compact().catch(() => {});
  }

  /** @param {string[]} ids */
  #delete(ids) {
    const { dimensions } = this;
    const deleted = ids.filter((id) => this.#byId.has(id));
    const about = { dimensions, entries: [], deleted, seen: this.#seen };
    return this.#change({ about, vectors: new Float32Array(0) });
  }

  /** Runs `f` after all earlier changes of the index. @template T @param {() => Promise<T>} f @returns {Promise<T>} */
  #locked(f) {
    const turn = this.#turn.then(f);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** Writes a file and returns its stamp, '' if the index is in memory only. @param {Segment} segment */
  async #write({ about, vectors }) {
    if (!this.#folder) return '';
    try {
      const name = nextName([...(await this.#folder.list()), ...this.#files], this.#writer);
      await this.#folder.write(name, pack(about, vectors, name));
      this.#files.add(name);
      see(this.#seen, stampOf(name));
      return stampOf(name);
    } catch (cause) {
      throw indexFailed('written', cause);
    }
  }

  /** @param {Entry} entry @param {string} stamp @param {Float32Array} vector */
  #put(entry, stamp, vector) {
    this.#remove(entry.id);
    const row = this.#free.pop() ?? this.#rows.length;
    this.#vectors.set(vector, row * this.dimensions);
    this.#rows[row] = entry;
    this.#stamps[row] = stamp;
    const { scale, length, error } = this.#scan.put(row, vector);
    this.#rounded.set([scale, length, error], 3 * row);
    this.#byId.set(entry.id, row);
  }

  /** @param {string} id */
  #remove(id) {
    const row = this.#byId.get(id);
    if (row === undefined) return;
    this.#byId.delete(id);
    this.#rows[row] = null;
    this.#rounded[3 * row] = NaN;
    this.#free.push(row);
  }

  /** @param {number} rows */
  #reserve(rows) {
    this.#scan.reserve(rows);
    if (rows * this.dimensions <= this.#vectors.length) return;
    const room = Math.max(rows, Math.ceil((this.#vectors.length / this.dimensions) * 1.5));
    const larger = new Float32Array(room * this.dimensions);
    larger.set(this.#vectors);
    this.#vectors = larger;
    const rounded = new Float64Array(3 * room);
    rounded.set(this.#rounded);
    this.#rounded = rounded;
  }

  /** Writes all items into one file, then removes the files that they came from. Keeps files that this index has not
   * read. */
  async #compact() {
    const folder = this.#folder;
    if (!folder) return;
    const old = [...this.#files];
    const rows = [...this.#byId.values()];
    const { dimensions } = this;
    const vectors = new Float32Array(rows.length * dimensions);
    rows.forEach((row, i) => vectors.set(this.#vector(row), i * dimensions));
    const entries = rows.map((row) => /** @type {Entry} */ (this.#rows[row]));
    const stamps = rows.map((row) => this.#stamps[row]);
    await this.#write({ about: { dimensions, entries, deleted: [], stamps, seen: this.#seen }, vectors });
    for (const name of old) {
      await folder.remove(name).catch((cause) => {
        throw fileNotRemoved(name, cause);
      });
      this.#files.delete(name);
    }
  }

  /** @param {number} row */
  #vector(row) {
    return this.#vectors.subarray(row * this.dimensions, (row + 1) * this.dimensions);
  }

  /** Returns the rows that may be among the `count` nearest to a query. @param {Float32Array} vector
   * @param {number} count */
  #candidates(vector, count) {
    const n = this.#rows.length;
    const rounded = this.#rounded;
    const { sums, query } = this.#scan.products(vector, n);
    const length = query.length + query.error;
    const least = new Least(Math.min(count, this.size));
    const bounds = new Float64Array(n);
    for (let row = 0, at = 0; row < n; row++, at += 3) {
      const off = (rounded[at + 2] * length + rounded[at + 1] * query.error) * SLACK;
      const near = sums[row] * (rounded[at] * query.scale);
      bounds[row] = near + off;
      if (near - off > least.value) least.put(near - off);
    }
    const found = [];
    for (let row = 0; row < n; row++) if (bounds[row] >= least.value) found.push(row);
    return found;
  }

  /** @param {number} row @param {Float32Array} query */
  #product(row, query) {
    const at = row * this.dimensions;
    const all = this.#vectors;
    let sum = 0;
    for (let i = 0; i < query.length; i++) sum += all[at + i] * query[i];
    return sum;
  }
}

/** Keeps the `n` greatest numbers seen so far, in a heap with the smallest of them on top. */
class Least {
  #heap;
  /** The smallest of the kept numbers. */
  value = -Infinity;

  /** @param {number} n */
  constructor(n) {
    this.#heap = new Float64Array(n).fill(-Infinity);
  }

  /** Replaces the smallest of the kept numbers. @param {number} x */
  put(x) {
    const heap = this.#heap;
    const n = heap.length;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child + 1 < n && heap[child + 1] < heap[child]) child++;
      if (child >= n || heap[child] >= x) break;
      heap[at] = heap[child];
      at = child;
    }
    if (n) heap[at] = x;
    this.value = n ? heap[0] : Infinity;
  }
}
