/** states: checks that an object changes its state only as its table of transitions allows. */
import assert from 'node:assert/strict';

/** Makes an assignment to `state` fail unless `transitions` allows it after the current state.
 * @template {string} S @param {{ state: S }} object @param {Record<S, string>} transitions */
export function follow(object, transitions) {
  let { state } = object;
  Object.defineProperty(object, 'state', {
    get: () => state,
    set(/** @type {S} */ next) {
      assert.ok(transitions[state].split(' ').includes(next), `${state}, then ${next}`);
      state = next;
    },
  });
}
