/* index: vectors by name, and which of them are nearest to a query. All are scanned as bytes; a bound on what rounding
 * to bytes may have done tells which of them can be among the nearest, and these are compared exactly: so the answer is
 * that of comparing all, in a tenth of the time. docs/search.md explains it. */
/** @import { Entry, Folder, Segment } from './segments.js' */
/** @import { Scan } from './scan.js' */
import { GemmaError, failure } from '../errors.js';
import { isSegment, numberOf, pack, segmentName, unpack } from './segments.js';

/** More files than that are made one. */
const MOST_FILES = 32;
/** What arithmetic in double may add to a bound. */
const SLACK = 1 + 1e-9;

/** data: what JSON can hold.
 * @typedef {{ id: string, vector: ArrayLike<number>, data?: any }} Item
 * @typedef {{ id: string, score: number, data?: any }} Hit score: the sum of products */

export class SearchIndex {
  #scan;
  #folder;
  /** Files of this index, and the number of the last one. */
  #files = 0;
  #last = 0;
  /** @type {(Entry | null)[]} by row; null: the row is free */
  #rows = [];
  /** What rounding made of each row: scale, length, error, one after the other; NaN: the row is free. */
  #rounded = new Float64Array(0);
  /** @type {Map<string, number>} */
  #byId = new Map();
  /** @type {number[]} */
  #free = [];
  #vectors = new Float32Array(0);
  /** Changes go one after the other. @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /** @internal @param {Scan} scan @param {number} dimensions @param {Folder | null} folder null: in memory only */
  constructor(scan, dimensions, folder) {
    this.#scan = scan;
    this.dimensions = dimensions;
    this.#folder = folder;
  }

  get size() {
    return this.#byId.size;
  }

  /** Those that are there already get the new vector. @param {Item | Item[]} items */
  add(items) {
    const list = [items].flat(), { dimensions } = this;
    const vectors = new Float32Array(list.length * dimensions);
    list.forEach((item, i) => vectors.set(this.#checked(item?.vector), i * dimensions));
    const entries = list.map(({ id, data }) => {
      if (typeof id !== 'string') throw new GemmaError('bad-option', 'id', { expected: 'a string', got: typeof id });
      return data === undefined ? { id } : { id, data };
    });
    return this.#change({ about: { dimensions, first: false, entries, deleted: [] }, vectors });
  }

  /** @param {string | string[]} ids */
  delete(ids) {
    const deleted = [ids].flat().filter((id) => this.#byId.has(id)), { dimensions } = this;
    return this.#change({ about: { dimensions, first: false, entries: [], deleted }, vectors: new Float32Array(0) });
  }

  /** The nearest, best first. @param {ArrayLike<number>} vector @param {{ count?: number }} [options]
   * @returns {Hit[]} */
  query(vector, { count = 10 } = {}) {
    if (!Number.isInteger(count) || count < 1) {
      throw new GemmaError('bad-option', 'count', { expected: 'an integer from 1', got: String(count) });
    }
    const query = this.#checked(vector);
    const hits = this.#candidates(query, count).map((row) => ({ row, score: this.#product(row, query) }));
    hits.sort((a, b) => b.score - a.score || a.row - b.row);
    return hits.slice(0, count).map(({ row, score }) => {
      const { id, data } = /** @type {Entry} */ (this.#rows[row]);
      return data === undefined ? { id, score } : { id, score, data };
    });
  }

  /** What is kept for an id. @param {string} id */
  get(id) {
    const row = this.#byId.get(id);
    if (row === undefined) return undefined;
    const { data } = /** @type {Entry} */ (this.#rows[row]);
    return { id, vector: this.#vectors.slice(row * this.dimensions, (row + 1) * this.dimensions), data };
  }

  /** What there is, without the vectors. @returns {Entry[]} */
  entries() {
    return this.#rows.flatMap((row) => (row ? [{ ...row }] : []));
  }

  /** Everything goes, of the files too. */
  clear() {
    return this.delete([...this.#byId.keys()]).then(() => this.#locked(() => this.#compact()));
  }

  /** @internal Reads what was kept. */
  async load() {
    if (!this.#folder) return;
    const names = (await this.#folder.list()).filter(isSegment).sort();
    const all = [];
    for (const name of names) all.push({ name, ...unpack(await this.#folder.read(name), name, this.dimensions) });
    const first = all.findLastIndex(({ about }) => about.first), live = all.slice(Math.max(first, 0));
    for (const { name } of all.slice(0, Math.max(first, 0))) await this.#folder.remove(name);
    live.forEach((segment) => this.#apply(segment));
    this.#files = live.length;
    this.#last = names.reduce((most, name) => Math.max(most, numberOf(name)), 0);
  }

  /** @param {ArrayLike<number> | undefined} vector */
  #checked(vector) {
    const { dimensions } = this, list = vector && vector.length === dimensions ? Float32Array.from(vector) : null;
    if (list?.every(Number.isFinite)) return list;
    const got = list ? 'others' : `${vector?.length ?? typeof vector}`;
    throw new GemmaError('bad-option', 'vector', { expected: `${dimensions} finite numbers`, got });
  }

  /** The file first: what cannot be kept is not there either. @param {Segment} segment */
  #change(segment) {
    return this.#locked(async () => {
      if (!segment.about.entries.length && !segment.about.deleted.length) return;
      await this.#write(segment);
      this.#apply(segment);
      if (this.#files > MOST_FILES) await this.#compact();
    });
  }

  /** @template T @param {() => Promise<T>} f @returns {Promise<T>} */
  #locked(f) {
    const turn = this.#turn.then(f);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** @param {Segment} segment */
  async #write({ about, vectors }) {
    if (!this.#folder) return;
    try {
      await this.#folder.write(segmentName(++this.#last), pack(about, vectors));
      this.#files++;
    } catch (cause) {
      throw failure('index-failed', 'the search index could not be written', cause);
    }
  }

  /** @param {Segment} segment */
  #apply({ about: { entries, deleted }, vectors }) {
    for (const id of deleted) this.#remove(id);
    const { dimensions } = this;
    this.#reserve(this.#rows.length + entries.length);
    entries.forEach((entry, i) => {
      this.#remove(entry.id);
      const row = this.#free.pop() ?? this.#rows.length;
      const vector = vectors.subarray(i * dimensions, (i + 1) * dimensions);
      this.#vectors.set(vector, row * dimensions);
      this.#rows[row] = entry;
      const { scale, length, error } = this.#scan.put(row, vector);
      this.#rounded.set([scale, length, error], 3 * row);
      this.#byId.set(entry.id, row);
    });
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
    const room = Math.max(rows, Math.ceil(this.#vectors.length / this.dimensions * 1.5));
    const larger = new Float32Array(room * this.dimensions);
    larger.set(this.#vectors);
    this.#vectors = larger;
    const rounded = new Float64Array(3 * room);
    rounded.set(this.#rounded);
    this.#rounded = rounded;
  }

  /** All in one file, in place of the others. */
  async #compact() {
    const folder = this.#folder;
    if (!folder) return;
    const old = (await folder.list()).filter(isSegment), ids = [...this.#byId.keys()], { dimensions } = this;
    const vectors = new Float32Array(ids.length * dimensions);
    const entries = ids.map((id, i) => {
      const { vector, data } = /** @type {{ vector: Float32Array, data: any }} */ (this.get(id));
      vectors.set(vector, i * dimensions);
      return data === undefined ? { id } : { id, data };
    });
    await this.#write({ about: { dimensions, first: true, entries, deleted: [] }, vectors });
    for (const name of old) await folder.remove(name);
    this.#files = 1;
  }

  /** Rows that may be among the `count` nearest. @param {Float32Array} vector @param {number} count */
  #candidates(vector, count) {
    const n = this.#rows.length, rounded = this.#rounded, { sums, query } = this.#scan.products(vector, n);
    const length = query.length + query.error, least = new Least(Math.min(count, this.size));
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
    const at = row * this.dimensions, all = this.#vectors;
    let sum = 0;
    for (let i = 0; i < query.length; i++) sum += all[at + i] * query[i];
    return sum;
  }
}

/** The n greatest of numbers, as a heap with the least of them on top. */
class Least {
  #heap;
  /** The least of the n greatest. */
  value = -Infinity;

  /** @param {number} n */
  constructor(n) {
    this.#heap = new Float64Array(n).fill(-Infinity);
  }

  /** In place of the least. @param {number} x */
  put(x) {
    const heap = this.#heap, n = heap.length;
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
