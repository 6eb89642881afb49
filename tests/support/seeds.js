/* seeds: makes test runs repeatable. An answer from random weights can be empty or end early, so a test that passed with
 * one seed could fail with another. */

/** Makes calls that name no seed draw 1, 2, 3 … (js/options.js) instead of a random number. Also runs in pages, so it
 * uses nothing from outside. */
export function countSeeds() {
  const draw = crypto.getRandomValues.bind(crypto);
  let seed = 0;
  crypto.getRandomValues = (array) =>
    array instanceof Uint32Array && array.length === 1 ? array.fill(++seed) : draw(array);
}
