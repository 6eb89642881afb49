/* gemma-wasm/ai-sdk in browsers: a provider for the AI SDK. Imports js/index.js for the browser's workers and files. */
/** @import { ModelDownloadProgress } from './ai-sdk/transport.js' */
import './index.js';

/** Data parts that `GemmaWasmChatTransport` sends, for `UIMessage<unknown, GemmaWasmDataParts>`.
 * @typedef {object} GemmaWasmDataParts
 * @property {ModelDownloadProgress} modelDownloadProgress Progress of loading the model.
 */

export { GemmaWasmEmbeddingModel } from './ai-sdk/embeddings.js';
export { GemmaWasmLanguageModel } from './ai-sdk/language-model.js';
export { createGemmaWasm, doesBrowserSupportGemmaWasm, gemmaWasm } from './ai-sdk/provider.js';
export { GemmaWasmChatTransport } from './ai-sdk/transport.js';
export { ModelError } from './errors.js';
