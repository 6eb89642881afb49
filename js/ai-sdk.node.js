/* gemma-wasm/ai-sdk in Node; the same names as ai-sdk.js. */
/** @import { ProviderSettings } from './ai-sdk/provider.js' */
import { createProvider } from './ai-sdk/provider.js';
import { isCached } from './cached.js';
import { loadModel, probe } from './index.node.js';

/** Makes a provider with its own models and options. Throws `bad-option`. @param {ProviderSettings} [settings] */
export function createGemmaWasm(settings) {
  return createProvider({ loadModel, probe, isCached }, settings);
}

/** The provider: `gemmaWasm(source, options)` makes a language model. */
export const gemmaWasm = createGemmaWasm();

/** Returns whether models can run here. */
export function doesBrowserSupportGemmaWasm() {
  return probe().variant !== null;
}

export { GemmaWasmEmbeddingModel } from './ai-sdk/embeddings.js';
export { GemmaWasmLanguageModel } from './ai-sdk/language-model.js';
export { GemmaWasmChatTransport } from './ai-sdk/transport.js';
export { ModelError } from './errors.js';
