/* public: the names that users import, in browsers and in Node. */
export { loadModel, inspectModel, Model } from './model.js';
export { Chat } from './chat.js';
export { Generation } from './generation.js';
export { ModelCache, modelCache, openCache } from './download/cache.js';
export { probe } from './probe.js';
export { ModelError, CODES } from './errors.js';
