/* features: what this platform can run, found by validating modules of a few bytes. */

/** (module (func (result v128) i32.const 0, i8x16.splat, i8x16.popcnt)) */
const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0,
  10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
];

/** (module (func (result v128) two splats, i8x16.relaxed_swizzle)) */
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0,
  10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11,
];

/**
 * @typedef {object} Features
 * @property {boolean} simd
 * @property {boolean} relaxed relaxed SIMD
 * @property {boolean} isolated shared memory may be sent between threads
 * @property {string} reason why there can be no threads; empty if there can
 */

/** @returns {Features} */
export function probe() {
  const reason = whyNoThreads();
  return { simd: valid(SIMD), relaxed: valid(RELAXED), isolated: reason === '', reason };
}

/** @param {number[]} bytes */
function valid(bytes) {
  return typeof WebAssembly === 'object' && WebAssembly.validate(new Uint8Array(bytes));
}

function whyNoThreads() {
  if (globalThis.crossOriginIsolated === false) {
    return 'the page is not cross-origin isolated (it needs the headers '
      + 'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp)';
  }
  if (typeof SharedArrayBuffer === 'undefined') return 'this platform has no SharedArrayBuffer';
  try {
    const memory = new WebAssembly.Memory({ initial: 0, maximum: 1, shared: true });
    return memory.buffer instanceof SharedArrayBuffer ? '' : 'WebAssembly memory cannot be shared';
  } catch {
    return 'WebAssembly memory cannot be shared here';
  }
}
