/** greedy: evaluates llama.cpp's greedy tokens with gemma-wasm in a browser, for tools/vectors/greedy.js. */
import { loadModel } from '../../../js/index.node.js';
import { follow } from '../../vectors/greedy-follow.js';

/** Loads the model without the cache, and evaluates the tokens with follow().
 * @param {{ model: string, threads: number, led: import('../../vectors/greedy-follow.js').Led }} job */
export const answer = ({ model, threads, led }) => follow(loadModel, model, { threads, cache: false }, led);
