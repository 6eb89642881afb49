/* gemma-wasm/ai-sdk in browsers: a provider for the AI SDK. Names the scripts of the workers as index.js does. */
/** @import { ProviderSettings } from './ai-sdk/provider.js' */
/** @import { ModelDownloadProgress } from './ai-sdk/transport.js' */
import { createProvider } from './ai-sdk/provider.js';
import { isCached } from './cached.js';
import { loadModel } from './model.js';
import { browserEnvironment } from './platform/env-browser.js';
import { environment } from './platform/env.js';
import { probe } from './probe.js';

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

/** Makes a provider with its own models and options. Throws `bad-option`. @param {ProviderSettings} [settings] */
export function createGemmaWasm(settings) {
  return createProvider({ loadModel, probe, isCached }, settings);
}

/** The provider: `gemmaWasm(source, options)` makes a language model. */
export const gemmaWasm = createGemmaWasm();

/** Returns whether models can run here: there are WebAssembly SIMD and workers. */
export function doesBrowserSupportGemmaWasm() {
  return probe().variant !== null;
}

export { GemmaWasmEmbeddingModel } from './ai-sdk/embeddings.js';
export { GemmaWasmLanguageModel } from './ai-sdk/language-model.js';
export { GemmaWasmChatTransport } from './ai-sdk/transport.js';
export { ModelError } from './errors.js';
