/* checksum: the checksum of src/base/checksum.h in JavaScript, for small data and where no engine is loaded. A test
 * compares the two. */

const LANES = 32;
const K = 0x9e3779b1;
const FACTORS = [0x85ebca77, 0xc2b2ae3d];

/** @param {number} h @param {number} word @param {number} factor */
function mixed(h, word, factor) {
  const product = Math.imul(h ^ word, factor);
  return product ^ (product >>> 15);
}

/** Returns the checksum as two words of 32 bits. @param {Uint8Array} bytes @returns {[number, number]} */
export function checksum(bytes) {
  const { length } = bytes;
  const words = new Uint32Array(Math.ceil(length / 4 / LANES) * LANES);
  new Uint8Array(words.buffer).set(bytes);
  const lanes = Int32Array.from({ length: LANES }, (_, i) => Math.imul(i + 1, K));
  for (let i = 0; i < words.length; i++) lanes[i % LANES] = mixed(lanes[i % LANES], words[i], K);
  let a = length;
  let b = length;
  for (const h of lanes) {
    a = mixed(a, h, FACTORS[0]);
    b = mixed(b, (h + a) | 0, FACTORS[1]);
  }
  return [a >>> 0, b >>> 0];
}
