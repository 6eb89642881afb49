/* gemma-wasm: the entry for Node; the same names as index.js. */
import { nodeEnvironment } from './env-node.js';
import { environment } from './env.js';

Object.assign(environment, nodeEnvironment);

export { loadModel, inspectModel, Model } from './model.js';
export { Chat } from './chat.js';
export { Generation } from './generation.js';
export { ModelCache, modelCache, openCache } from './cache.js';
export { GemmaError, CODES } from './errors.js';
