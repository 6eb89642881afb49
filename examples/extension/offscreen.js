/* Keeps the model loaded and answers the popup through a port. */
import { loadModel } from './engine/index.js';

const MODEL = { repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf' };

let model;

async function summarise(text, signal, tell) {
  model ??= await loadModel(MODEL, {
    restart: true,
    signal,
    // In the phase `rest`, the model can already be used, so the popup shows no progress.
    onProgress: ({ phase, loaded, total }) => phase !== 'rest' && tell({ loaded, total }),
  });
  const messages = [{ role: 'user', content: `Summarise this text in two sentences:\n\n${text}` }];
  for await (const piece of model.generate(messages, { maxTokens: 200, signal })) tell({ piece });
}

chrome.runtime.onConnect.addListener((port) => {
  const controller = new AbortController();
  port.onDisconnect.addListener(() => controller.abort()); // the user pressed Stop or closed the popup
  port.onMessage.addListener(async ({ text }) => {
    const tell = (message) => controller.signal.aborted || port.postMessage(message);
    try {
      await summarise(text, controller.signal, tell);
      tell({ done: true });
    } catch (error) {
      tell({ error: error.message });
    }
  });
});
