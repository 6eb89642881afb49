/**
 * replay: makes a model with random weights answer with the texts of tests/vectors/copyset.json, like a trained one.
 * The engine of this thread evaluates, draws, and accepts draft tokens as usual, but each drawn token is replaced by
 * the reference's next one. The seed of an answer is the index of its text. Import this module before the worker's
 * script.
 */
import { Engine } from '../../js/engine/engine.js';
import { utf8 } from '../../js/engine/heap.js';
import set from '../../tests/vectors/copyset.json' with { type: 'json' };

export { set };

const { draw, setOption } = Engine.prototype;
/** The tokens of the current reference answer that are not drawn yet. @type {number[]} */
let rest = [];

/** @this {Engine} @param {string} name @param {number} value */
Engine.prototype.setOption = function (name, value) {
  if (name === 'seed') {
    const ids = this.encodeMore(utf8(set[value]?.answer ?? ''));
    rest = [...ids, ...this.encode('<end_of_turn>', true).slice(-1)];
  }
  setOption.call(this, name, value);
};

/** @this {Engine} @param {number} [back] */
Engine.prototype.draw = function (back) {
  const drawn = draw.call(this, back);
  return rest.shift() ?? drawn;
};
