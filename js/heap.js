/* heap: the one module that touches the engine's memory: copy in, copy out, strings.
 * Addresses from C are 32-bit and come as signed numbers: `>>> 0` makes them offsets.
 * memory.buffer is read anew for every access, because growth replaces it. */

/** Bytes of a WebAssembly page. */
export const PAGE = 65536;

const encoder = new TextEncoder();

/** UTF-8 of a string. @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/** A decoder that gives back every character, a leading U+FEFF too. */
export const textDecoder = () => new TextDecoder('utf-8', { ignoreBOM: true });

export class Heap {
  #memory;
  #alloc;
  #free;

  /**
   * @param {WebAssembly.Memory} memory
   * @param {(bytes: number) => number} alloc
   * @param {(address: number) => void} free
   */
  constructor(memory, alloc, free) {
    this.#memory = memory;
    this.#alloc = alloc;
    this.#free = free;
  }

  get byteLength() {
    return this.#memory.buffer.byteLength;
  }

  /** The buffer itself, for the abort flag of threaded builds. */
  get buffer() {
    return this.#memory.buffer;
  }

  /** A window on the heap, valid until the engine is called again.
   * @param {number} address
   * @param {number} length */
  view(address, length) {
    return new Uint8Array(this.#memory.buffer, address >>> 0, length);
  }

  /** @param {number} address @param {number} length */
  copyOut(address, length) {
    return this.view(address, length).slice();
  }

  /** @param {number} address @param {number} count */
  floats(address, count) {
    return new Float32Array(this.#memory.buffer, address >>> 0, count).slice();
  }

  /** @param {number} address @param {number} count */
  ints(address, count) {
    return new Int32Array(this.#memory.buffer, address >>> 0, count).slice();
  }

  /** NUL-terminated UTF-8 at address; null for address 0. @param {number} address */
  string(address) {
    const start = address >>> 0;
    if (start === 0) return null;
    const bytes = new Uint8Array(this.#memory.buffer);
    // A decoder may refuse shared memory, so it gets a copy.
    return textDecoder().decode(bytes.slice(start, bytes.indexOf(0, start)));
  }

  /** A block of `bytes`, 0 if there is no memory. Give it back with release().
   * @param {number} bytes */
  reserve(bytes) {
    return this.#alloc(Math.max(bytes, 1)) >>> 0;
  }

  /** @param {number} address */
  release(address) {
    if (address) this.#free(address);
  }

  /** Copy into a block at address. @param {number} address @param {ArrayBufferView} data */
  write(address, data) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.view(address, bytes.length).set(bytes);
  }

  /** Set one 32-bit integer, atomically where the memory is shared.
   * @param {number} address @param {number} value */
  store(address, value) {
    Atomics.store(new Int32Array(this.#memory.buffer, address >>> 0, 1), 0, value);
  }
}

/** What the module imports: the memory, and growing it. @param {WebAssembly.Memory} memory */
export function imports(memory) {
  /** @param {number} size @returns {number} 1 if the heap has `size` bytes now */
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
