/* scan: stores vectors as rows of bytes in WebAssembly memory, where gw_scan() computes their dot products with a
 * query. */
/** @import { Exports } from '../engine/heap.js' */
import { Heap, createMemory, exportsOf, imports } from '../engine/heap.js';

/** STEP: gw_scan() needs rows of a multiple of this length, in bytes. QUERY_TOP, ROW_TOP: largest absolute values in a
 * rounded query and row. FIRST_ROWS: initial capacity. */
const STEP = 16;
const QUERY_TOP = 4095;
const ROW_TOP = 127;
const FIRST_ROWS = 256;

/** Instantiates the engine for scans. @param {WebAssembly.Module} module a build without threads
 * @param {number} dimensions */
export async function makeScan(module, dimensions) {
  const memory = createMemory(false);
  const exports = exportsOf(await WebAssembly.instantiate(module, imports(memory)));
  return new Scan(exports, memory, dimensions);
}

/** Facts about a rounded vector. scale: value of one unit of its integers; length: Euclidean length; error: distance
 * from the exact vector.
 * @typedef {{ scale: number, length: number, error: number }} Rounded */

/** The rounded vectors of one index, by row. */
export class Scan {
  #exports;
  #heap;
  #width;
  #dimensions;
  #room = 0;
  #rows = 0;
  #query = 0;
  #sums = 0;

  /** @param {Exports} exports @param {WebAssembly.Memory} memory @param {number} dimensions */
  constructor(exports, memory, dimensions) {
    this.#exports = exports;
    this.#heap = new Heap(memory, exports);
    this.#dimensions = dimensions;
    this.#width = Math.ceil(dimensions / STEP) * STEP;
    this.#query = this.#heap.reserve(2 * this.#width);
  }

  /** Makes room for `rows` rows in all, and keeps the stored rows. Throws `no-memory`. @param {number} rows */
  reserve(rows) {
    if (rows <= this.#room) return;
    const room = Math.max(rows, FIRST_ROWS, Math.ceil(this.#room * 1.5));
    const heap = this.#heap;
    const bytes = heap.reserve(room * this.#width);
    const sums = heap.reserve(4 * room);
    heap.view(bytes, room * this.#width).fill(0);
    if (this.#room) {
      heap.view(bytes, this.#room * this.#width).set(heap.view(this.#rows, this.#room * this.#width));
      heap.release(this.#rows);
      heap.release(this.#sums);
    }
    [this.#rows, this.#sums, this.#room] = [bytes, sums, room];
  }

  /** Rounds a vector and stores it in a row, for which reserve() has made room.
   * @param {number} row @param {Float32Array} vector @returns {Rounded} */
  put(row, vector) {
    const at = this.#rows + row * this.#width;
    const bytes = new Int8Array(this.#heap.buffer, at, this.#width);
    return round(vector, ROW_TOP, bytes);
  }

  /** Returns the dot products of a query with the first `rows` rows. The result is valid until the next call.
   * @param {Float32Array} vector @param {number} rows @returns {{ sums: Int32Array, query: Rounded }} */
  products(vector, rows) {
    const words = new Int16Array(this.#heap.buffer, this.#query, this.#width).fill(0);
    const query = round(vector.subarray(0, this.#dimensions), QUERY_TOP, words);
    if (rows) this.#exports.gw_scan(this.#rows, rows, this.#width, this.#query, this.#sums);
    return { sums: new Int32Array(this.#heap.buffer, this.#sums, rows), query };
  }
}

/** Rounds a vector to integers from -`top` to `top`. @param {Float32Array} vector @param {number} top
 * @param {Int8Array | Int16Array} out @returns {Rounded} */
function round(vector, top, out) {
  let largest = 0;
  let length = 0;
  let error = 0;
  for (const x of vector) largest = Math.max(largest, Math.abs(x));
  const scale = largest / top;
  for (let i = 0; i < vector.length; i++) {
    const whole = scale > 0 ? Math.round(vector[i] / scale) : 0;
    const value = whole * scale;
    out[i] = whole;
    length += value * value;
    error += (vector[i] - value) ** 2;
  }
  return { scale, length: Math.sqrt(length), error: Math.sqrt(error) };
}
