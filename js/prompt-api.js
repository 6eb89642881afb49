/* gemma-wasm/prompt-api in browsers: the Prompt API's `LanguageModel` on a model of the page's choice. Imports
 * js/index.js for the browser's workers and files. */
import './index.js';

export { createLanguageModel, install } from './prompt-api/create.js';
export { CreateMonitor } from './prompt-api/events.js';
export { LanguageModel } from './prompt-api/session.js';
