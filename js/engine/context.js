/* context: chooses the context length of a model. */
/** @import { Engine } from './engine.js' */
import { contextTooLong } from './errors.js';

const DEFAULT_CONTEXT = 4096;

/** Returns the context length in tokens. Throws `bad-option` if `wanted` is above the file's context length.
 * @param {Engine} native
 * @param {number} [wanted] default: the file's, at most DEFAULT_CONTEXT */
export function chooseContext(native, wanted) {
  const trained = native.number('context_length');
  if (wanted === undefined) return Math.min(trained, DEFAULT_CONTEXT);
  if (wanted <= trained) return wanted;
  throw contextTooLong(trained, wanted);
}
