/** product: detects how the JavaScript engine implements relaxed SIMD's dot product of bytes. */

/** A module that exports dot(a, b): a lane of i32x4.relaxed_dot_i8x16_i7x16_add_s on vectors of bytes a and b. */
const MODULE = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...[1, 7, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f],
  ...[3, 2, 1, 0],
  ...[7, 7, 1, 3, 0x64, 0x6f, 0x74, 0, 0],
  ...[10, 22, 1, 20, 0, 0x20, 0, 0xfd, 0x0f, 0x20, 1, 0xfd, 0x0f, 0x41, 0, 0xfd, 0x11],
  ...[0xfd, 0x93, 2, 0xfd, 0x1b, 0, 0x0b],
]);

/** Implementations of the dot product, by their result of dot(127, 255). @type {Record<number, string>} */
const PRODUCTS = {
  [4 * 127 * 255]: 'unsigned bytes in one instruction (as AVX-VNNI)',
  [2 * 32767]: 'saturating pairs (x86 without AVX-VNNI)',
  [-4 * 127]: 'signed bytes (as ARM)',
};

/** Returns a description of the dot product, 'no relaxed SIMD' if the engine has none. */
export function product() {
  if (!WebAssembly.validate(MODULE)) return 'no relaxed SIMD';
  const { dot } = /** @type {any} */ (new WebAssembly.Instance(new WebAssembly.Module(MODULE)).exports);
  const sum = dot(127, 255);
  return PRODUCTS[sum] ?? `unknown (${sum})`;
}
