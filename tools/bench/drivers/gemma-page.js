/** gemma-page: gemma-wasm in a browser. Bundled, so that workers find their imports. */
import { loadModel } from '../../../js/index.js';
import { gemma } from './gemma.js';

export const open = gemma(loadModel);
