/* gemma-wasm/openai: OpenAI's API as a function that takes a Request and returns a Response, in browsers, service
 * workers and Node. */
export { createHandler } from './openai/handler.js';
export { ModelError } from './errors.js';
