/** gemma-node: the benchmark's driver of gemma-wasm in Node. */
import { loadModel } from '../../../js/index.node.js';
import { gemma } from './gemma.js';

export const open = gemma(loadModel);
