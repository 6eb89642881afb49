/* features: detects what this platform can run, by validating modules of a few bytes. */

const HEAD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10];
/** Module with i8x16.popcnt of a splat, which needs SIMD. */
const SIMD = [...HEAD, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
/** Module with i8x16.relaxed_swizzle, i16x8.relaxed_dot_i8x16_i7x16_s and i32x4.relaxed_dot_i8x16_i7x16_add_s of
 * splats, all relaxed instructions that the kernels use. gw_prove_build() checks their results. */
// biome-ignore format: one byte per line would be unreadable
const RELAXED = [
  ...HEAD, 33, 1, 31, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 65, 3, 253, 15, 253, 146, 2, 65, 4, 253, 15, 65,
  5, 253, 15, 253, 147, 2, 11,
];

/** Returns the features of this platform. isolated: whether threads can share memory; reason: why they cannot, '' if
 * they can. */
export function features() {
  const reason = whyNoThreads();
  return { simd: valid(SIMD), relaxed: valid(RELAXED), isolated: !reason, reason };
}

/** @param {number[]} bytes */
function valid(bytes) {
  return WebAssembly.validate(new Uint8Array(bytes));
}

function whyNoThreads() {
  if (globalThis.crossOriginIsolated === false) {
    return (
      'the page is not cross-origin isolated (it needs Cross-Origin-Opener-Policy: same-origin and' +
      ' Cross-Origin-Embedder-Policy: require-corp; in a frame also on the page around it, and allow="cross-origin-isolated")'
    );
  }
  try {
    const { buffer } = new WebAssembly.Memory({ initial: 0, maximum: 1, shared: true });
    if (buffer instanceof SharedArrayBuffer) return '';
  } catch {
    // The platform lacks shared memory or SharedArrayBuffer.
  }
  return 'this platform cannot share memory between threads';
}
