/* gemma-wasm/ai-sdk in Node. Exports the same names as ai-sdk.js. */
import './index.node.js';

export { GemmaWasmEmbeddingModel } from './ai-sdk/embeddings.js';
export { GemmaWasmLanguageModel } from './ai-sdk/language-model.js';
export { createGemmaWasm, doesBrowserSupportGemmaWasm, gemmaWasm } from './ai-sdk/provider.js';
export { GemmaWasmChatTransport } from './ai-sdk/transport.js';
export { ModelError } from './errors.js';
