/* gemma-wasm/shared: the entry for pages whose tabs share one engine. Imports js/index.js for the browser's workers and
 * files. */
import './index.js';

export { SharedModel, loadModel } from './shared/load.js';
export { modelCache } from './download/cache.js';
export { ModelError } from './errors.js';
