/* checks: validates the arguments of a search index. Throws `bad-option` if one is invalid. */
import { messageOf } from '../errors.js';
import { notAnObject, notJson, unknownName, wrongOption, wrongVector } from './errors.js';

/** @param {any} value */
const kindOf = (value) => (typeof value === 'object' ? Object.prototype.toString.call(value) : typeof value);

/** Throws unless a value is an object with no keys except `names`. @param {'item' | 'option'} what
 * @param {any} value @param {string[]} names */
export function checkNames(what, value, names) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw notAnObject(what, kindOf(value));
  const other = Object.keys(value).find((name) => !names.includes(name));
  if (other !== undefined) throw unknownName(what, other, names);
}

/** Throws `bad-option` unless an id is a string. @param {any} id */
export function checkId(id) {
  if (typeof id !== 'string') throw wrongOption('id', 'a string', kindOf(id));
}

/** Returns a copy of data. Throws unless JSON can represent it. @param {any} data @returns {any} */
export function checkData(data) {
  if (data === undefined) return undefined;
  let got = kindOf(data);
  try {
    const text = JSON.stringify(data);
    if (text !== undefined) return JSON.parse(text);
  } catch (error) {
    got = `the error "${messageOf(error).split('\n')[0]}"`;
  }
  throw notJson(got);
}

/** Returns a copy of a vector. Throws unless it has `dimensions` finite numbers. @param {any} vector
 * @param {number} dimensions */
export function checkVector(vector, dimensions) {
  const { length } = Object(vector);
  const fits = length === dimensions && Array.prototype.every.call(vector, Number.isFinite);
  const list = fits ? Float32Array.from(vector) : null;
  if (list?.every(Number.isFinite)) return list;
  throw wrongVector(dimensions, length === dimensions ? 'one that is not finite' : `${length ?? kindOf(vector)}`);
}
