/* gemma-wasm/ai-sdk in browsers: a provider for the AI SDK. Names the scripts of the workers as index.js does. */
/** @import { ModelDownloadProgress } from './ai-sdk/transport.js' */
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';

/** Data parts of `GemmaWasmChatTransport`, for `UIMessage<unknown, GemmaWasmDataParts>`.
 * @typedef {object} GemmaWasmDataParts
 * @property {ModelDownloadProgress} modelDownloadProgress Progress of loading the model.
 */

Object.assign(
  environment,
  browserEnvironment({
    startWorker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    startThread: () => new Worker(new URL('./thread.js', import.meta.url), { type: 'module' }),
  }),
  // Loaded later: only pages that list or delete cached models need it.
  { openStore: async () => (await import('./download/store-browser.js')).openStore() },
);

export { GemmaWasmEmbeddingModel } from './ai-sdk/embeddings.js';
export { GemmaWasmLanguageModel } from './ai-sdk/language-model.js';
export { createGemmaWasm, doesBrowserSupportGemmaWasm, gemmaWasm } from './ai-sdk/provider.js';
export { GemmaWasmChatTransport } from './ai-sdk/transport.js';
export { ModelError } from './errors.js';
