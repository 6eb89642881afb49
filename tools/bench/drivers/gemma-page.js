/** gemma-page: the benchmark's driver of gemma-wasm in browsers. It is bundled, so that workers find their imports. */
import { loadModel } from '../../../js/index.js';
import { gemma } from './gemma.js';

export const open = gemma(loadModel);
