import { DirectChatTransport, ToolLoopAgent } from 'ai';
import { GemmaWasmChatTransport, gemmaWasm } from 'gemma-wasm/ai-sdk';

const MODEL = { repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf' };

const model = gemmaWasm(MODEL);
const agent = new ToolLoopAgent({ model, maxOutputTokens: 500 });

export const transport = new GemmaWasmChatTransport({
  model,
  transport: new DirectChatTransport({ agent, onError: ({ message }) => message }),
});
