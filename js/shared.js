/* gemma-wasm/shared: the entry for pages whose tabs share one engine. The index sets the environment up. */
import './index.js';

export { SharedModel, loadModel } from './shared/load.js';
export { modelCache } from './download/cache.js';
export { ModelError } from './errors.js';
