/* heap: the only module that accesses the engine's memory. Addresses from C are signed numbers, which `>>> 0` converts
 * to offsets. Each access reads memory.buffer, because growing the memory replaces the buffer. */
import { noMemory, notReserved } from './errors.js';

const PAGE = 65536;
const INITIAL_PAGES = 16;
const MAX_PAGES = 65536;
/** Smallest maximum memory size to try, in pages, because phones refuse a maximum far above their physical memory. */
const MIN_PAGES = 4096;

const encoder = new TextEncoder();

/** Encodes a text as UTF-8. A lone surrogate becomes U+FFFD. @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/** Returns a UTF-8 decoder that keeps a leading U+FEFF. */
export const textDecoder = () => new TextDecoder('utf-8', { ignoreBOM: true });

/** @typedef {Record<string, (...args: number[]) => number>} Exports */

/** The memory of one wasm instance. */
export class Heap {
  #memory;
  #exports;

  /** @param {WebAssembly.Memory} memory @param {Exports} exports */
  constructor(memory, exports) {
    this.#memory = memory;
    this.#exports = exports;
  }

  /** The current buffer. Growing the memory replaces it, so callers must not keep it. */
  get buffer() {
    return this.#memory.buffer;
  }

  /** Returns a view of the heap. Valid until the next call of the engine. @param {number} address
   * @param {number} length in bytes */
  view(address, length) {
    return new Uint8Array(this.buffer, address >>> 0, length);
  }

  /** Returns a copy of `count` numbers at an address as a typed array.
   * @template T
   * @param {new (buffer: ArrayBufferLike, at: number, n: number) => T & { slice: () => T }} type
   * @param {number} address @param {number} count */
  copy(type, address, count) {
    return new type(this.buffer, address >>> 0, count).slice();
  }

  /** Reads a NUL-terminated UTF-8 string. Returns null for address 0. @param {number} address */
  string(address) {
    const start = address >>> 0;
    if (!start) return null;
    const bytes = new Uint8Array(this.buffer);
    // Copies the bytes, because a TextDecoder may refuse shared memory.
    return textDecoder().decode(bytes.slice(start, bytes.indexOf(0, start)));
  }

  /** Allocates memory, which release() frees. Throws `no-memory`. @param {number} bytes */
  reserve(bytes) {
    const address = this.#exports.gw_alloc(Math.max(bytes, 1)) >>> 0;
    if (!address) throw noMemory(bytes);
    return address;
  }

  /** Frees memory of reserve(). Does nothing for address 0. @param {number} address */
  release(address) {
    this.#exports.gw_free(address);
  }

  /** Calls f with the address of data in the heap. Copies the data there if it is elsewhere. @template T
   * @param {Uint8Array | Int32Array} data @param {(address: number) => T} f */
  with(data, f) {
    if (data.buffer === this.buffer) return f(data.byteOffset);
    const address = this.reserve(data.byteLength);
    try {
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      this.view(address, bytes.length).set(bytes);
      return f(address);
    } finally {
      this.release(address);
    }
  }

  /** Calls f with the address of a text as NUL-terminated UTF-8.
   * @template T @param {string} text @param {(address: number) => T} f */
  withText(text, f) {
    return this.with(utf8(`${text}\0`), f);
  }

  /** Grows the heap to `wanted` bytes, or as far as possible. Returns its size. @param {number} wanted */
  grow(wanted) {
    const missing = () => Math.ceil((wanted - this.buffer.byteLength) / PAGE);
    for (let step = missing(); step > 0; ) {
      try {
        this.#memory.grow(step);
        step = Math.min(step, missing());
      } catch {
        step >>= 1;
      }
    }
    return this.buffer.byteLength;
  }

  /** Stores a 32-bit integer atomically, so that other threads see it.
   * @param {number} address a multiple of 4 @param {number} value */
  store(address, value) {
    Atomics.store(new Int32Array(this.buffer, address, 1), 0, value);
  }
}

/** Creates a WebAssembly memory with the largest maximum that the platform grants. Throws `no-memory`.
 * @param {boolean} shared */
export function createMemory(shared) {
  for (let maximum = MAX_PAGES; ; maximum = Math.floor((maximum * 3) / 4)) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared });
    } catch (cause) {
      if (maximum > MIN_PAGES) continue;
      throw notReserved(maximum * PAGE, cause);
    }
  }
}

/** Returns the imports of the wasm module. @param {WebAssembly.Memory} memory */
export function imports(memory) {
  /** @param {number} size @returns {number} 1 if the heap has `size` bytes now, else 0 */
  const grow = (size) => {
    const missing = Math.ceil(((size >>> 0) - memory.buffer.byteLength) / PAGE);
    try {
      if (missing > 0) memory.grow(missing);
      return 1;
    } catch {
      return 0;
    }
  };
  return { env: { memory, emscripten_resize_heap: grow } };
}

/** Runs the constructors of an instance, and returns its exports. @param {WebAssembly.Instance} instance */
export function exportsOf(instance) {
  const exports = /** @type {Exports} */ (/** @type {unknown} */ (instance.exports));
  exports.__wasm_call_ctors?.();
  return exports;
}

/** Returns the bytes of a followed by those of b. Returns b itself if a is empty.
 * @param {Uint8Array} a @param {Uint8Array} b */
export function joined(a, b) {
  if (!a.length) return b;
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
