/* checker: computes checksums (src/base/checksum.h) of bytes outside the engine's heap, in a second instance of the
 * wasm module. Its memory never grows, so downloads can read into buffers there without a copy. */
/** @import { Exports } from './heap.js' */
import { checksum } from '../download/checksum.js';
import { Heap, exportsOf, imports } from './heap.js';

const PAGE = 65536;
/** Parts of the second wasm instance's memory in bytes: buffers of downloads, a copied input, and the module's own
 * data. */
const ROOMS = 12 << 20;
const COPIES = 5 << 20;
const OWN = 1 << 20;

/** Returns functions for downloads: `sum` computes checksums, `room` allocates buffers whose checksums need no copy.
 * Creates the second wasm instance on first use; if there is no memory for it, computes checksums in JavaScript.
 * @param {WebAssembly.Module} module @param {{ heap: Heap, exports: Exports }} engine for bytes that are in its heap */
export function checkerOf(module, { heap, exports }) {
  const own = sumIn(heap, exports, heap.reserve(8));
  const shared = !(heap.buffer instanceof ArrayBuffer);
  /** @type {ReturnType<typeof instance> | null | undefined} */
  let made;
  const get = () => {
    try {
      return made === undefined ? (made = instance(module, shared)) : made;
    } catch {
      return (made ??= null);
    }
  };
  return {
    /** Returns a buffer in the second wasm instance, or undefined if its memory is full. @param {number} size in bytes
     * @returns {Uint8Array | undefined} */
    room: (size) => get()?.room(size),
    /** @param {Uint8Array} bytes @returns {number[]} */
    sum: (bytes) =>
      bytes.buffer === heap.buffer
        ? own(bytes)
        : ((bytes.length > COPIES ? null : get())?.sum(bytes) ?? checksum(bytes)),
  };
}

/** @param {WebAssembly.Module} module @param {boolean} shared */
function instance(module, shared) {
  const pages = (ROOMS + COPIES + OWN) / PAGE;
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  const exports = exportsOf(new WebAssembly.Instance(module, imports(memory)));
  const heap = new Heap(memory, exports);
  const result = heap.reserve(8);
  let left = ROOMS;
  return {
    /** @param {number} size */
    room(size) {
      if (size > left) return undefined;
      left -= size;
      return heap.view(heap.reserve(size), size);
    },
    sum: sumIn(heap, exports, result),
  };
}

/** Returns a function that computes checksums in a wasm instance.
 * @param {Heap} heap @param {Exports} exports @param {number} result address for the checksum */
function sumIn(heap, exports, result) {
  return (/** @type {Uint8Array} */ bytes) => {
    heap.with(bytes, (p) => exports.gw_checksum(p, bytes.length, result));
    return [...heap.copy(Uint32Array, result, 2)];
  };
}
