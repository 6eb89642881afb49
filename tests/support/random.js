/* randoms: numbers that are the same in every run, in Node and in pages. */

/** From 0 to 1. @param {number} seed */
export function randoms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
