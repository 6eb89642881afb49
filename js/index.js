/* gemma-wasm: the entry for browsers. */
import { browserEnvironment } from './env-browser.js';
import { environment } from './env.js';

Object.assign(environment, browserEnvironment);

export { loadModel, inspectModel, Model } from './model.js';
export { Chat } from './chat.js';
export { Generation } from './generation.js';
export { ModelCache, modelCache, openCache } from './cache.js';
export { GemmaError, CODES } from './errors.js';
