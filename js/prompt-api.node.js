/* gemma-wasm/prompt-api in Node. Exports the same names as prompt-api.js. */
import './index.node.js';

export { createLanguageModel, install } from './prompt-api/create.js';
export { CreateMonitor } from './prompt-api/events.js';
export { LanguageModel } from './prompt-api/session.js';
