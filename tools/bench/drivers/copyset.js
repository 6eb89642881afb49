/** copyset: times gemma-wasm's answers with and without draft tokens in a browser. */
import { loadModel } from '../../../js/index.js';
import { answers } from '../copyset-measure.js';

/** @param {import('../copyset-measure.js').Job} job */
export const answer = (job) => answers(/** @type {any} */ (loadModel), job);
