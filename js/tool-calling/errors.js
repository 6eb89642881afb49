/* errors: the errors of this folder. Their messages are clauses, as in js/grammar/errors.js. */
import { Unsupported } from '../grammar/refusal.js';

/** @param {string} name @param {string} place */
export const notObject = (name, place) =>
  new Unsupported(`the parameters of the tool ${name} must have the type object`, place);

/** @param {string} name @param {string} place */
export const needsFreeNames = (name, place) =>
  new Unsupported(`the tool ${name} requires properties without a fixed name, which this model cannot write`, place);
