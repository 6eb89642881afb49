/* features: what this platform can run, found by validating modules of a few bytes. */

const HEAD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10];
/** i8x16.popcnt of a splat */
const SIMD = [...HEAD, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
/** i8x16.relaxed_swizzle of two splats */
const RELAXED = [...HEAD, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11];

/** `isolated`: threads can share memory; `reason`: why not. */
export function probe() {
  const reason = whyNoThreads();
  return { simd: valid(SIMD), relaxed: valid(RELAXED), isolated: !reason, reason };
}

/** @param {number[]} bytes */
function valid(bytes) {
  return WebAssembly.validate(new Uint8Array(bytes));
}

function whyNoThreads() {
  if (globalThis.crossOriginIsolated === false) {
    return 'the page is not cross-origin isolated (Cross-Origin-Opener-Policy: same-origin and '
      + 'Cross-Origin-Embedder-Policy: require-corp are missing)';
  }
  try {
    const { buffer } = new WebAssembly.Memory({ initial: 0, maximum: 1, shared: true });
    if (buffer instanceof SharedArrayBuffer) return '';
  } catch {
    // No shared memory, or no SharedArrayBuffer.
  }
  return 'this platform cannot share memory between threads';
}
