/** formats: measures gemma-wasm's constrained answers in a browser. */
import { loadModel } from '../../../js/index.js';
import { answers } from '../formats-measure.js';

/** @param {import('../formats-measure.js').Job} job */
export const answer = (job) => answers(/** @type {any} */ (loadModel), job);
