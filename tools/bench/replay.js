/**
 * replay: makes the engine of this thread answer with the texts of tests/vectors/copyset.json, as a trained model would,
 * although its weights are random. Everything else runs as always: the evaluation of all rows, the output head, the
 * draw, whose result is then replaced by the reference's next token, draft tokens and their acceptance. The seed of an
 * answer is the index of its text. Must be imported before js/worker.js or js/worker.node.js.
 */
import { Engine } from '../../js/engine/engine.js';
import { utf8 } from '../../js/engine/heap.js';
import set from '../../tests/vectors/copyset.json' with { type: 'json' };

export { set };

const { draw, setOption } = Engine.prototype;
/** The tokens of the current answer that are not drawn yet. @type {number[]} */
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
