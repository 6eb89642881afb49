/* random: pseudorandom numbers that are the same in every run, in Node and in pages. */

/** Returns a generator: random() is a number from 0 up to 1, random(n) an integer from 0 to n - 1.
 * @param {number} seed */
export function randoms(seed) {
  let state = seed >>> 0;
  return (/** @type {number} */ n = 0) => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    const unit = ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
    return n ? Math.floor(unit * n) : unit;
  };
}
