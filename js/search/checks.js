/* checks: what an index refuses of what it is given. */
import { ModelError } from '../errors.js';

/** @param {any} value */
const kindOf = (value) => (typeof value === 'object' ? Object.prototype.toString.call(value) : typeof value);

/** An object, and nothing in it that nobody would read. @param {'item' | 'option'} what @param {any} value
 * @param {string[]} names */
export function checkNames(what, value, names) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const plural = what === 'item' ? 'an item' : 'options';
    throw new ModelError('bad-option', plural, { expected: 'an object', got: kindOf(value) });
  }
  const other = Object.keys(value).find((name) => !names.includes(name));
  if (other === undefined) return;
  const problem = what === 'item' ? `an item has no "${other}"` : `there is no option "${other}"`;
  throw new ModelError('bad-option', problem, { expected: `one of ${names.join(', ')}` });
}

/** @param {any} id */
export function checkId(id) {
  if (typeof id !== 'string') throw new ModelError('bad-option', 'id', { expected: 'a string', got: kindOf(id) });
}

/** @param {any} data */
export function checkData(data) {
  let got = kindOf(data);
  try {
    if (data === undefined || JSON.stringify(data) !== undefined) return;
  } catch (error) {
    got = error instanceof Error ? error.message : String(error);
  }
  throw new ModelError('bad-option', 'data', { expected: 'what JSON can hold', got });
}

/** A copy of a vector. @param {any} vector @param {number} dimensions */
export function checkVector(vector, dimensions) {
  const { length } = Object(vector);
  const fits = length === dimensions && Array.prototype.every.call(vector, Number.isFinite);
  const list = fits ? Float32Array.from(vector) : null;
  if (list?.every(Number.isFinite)) return list;
  const got = length === dimensions ? 'others' : `${length ?? kindOf(vector)}`;
  throw new ModelError('bad-option', 'vector', { expected: `${dimensions} finite numbers`, got });
}
