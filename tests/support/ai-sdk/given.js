/* given: arguments and helpers of calls through the AI SDK, in Node and in pages. */
import { generateText } from 'ai';

/** Arguments of a call. `entry`: the exports of gemma-wasm/ai-sdk; `model` and `embedder` use the loaded `engine` and
 * `embedEngine`; `source`: source of the same model as `engine`, for calls that load a model.
 * @typedef {{ entry: typeof import('../../../js/ai-sdk.js'), source: string,
 *   model: import('../../../js/ai-sdk.js').GemmaWasmLanguageModel, engine: Model,
 *   embedder: import('../../../js/ai-sdk.js').GemmaWasmEmbeddingModel, embedEngine: Model }} Given */
/** @typedef {Record<string, (given: Given) => Promise<void>>} Calls */

export const SHORT = { maxOutputTokens: 12, seed: 7 };

/** Asks a model for a short answer through the AI SDK. @param {import('ai').LanguageModel} model
 * @param {object} [options] of generateText() */
export const hello = (model, options) => generateText({ model, prompt: 'Hello', ...SHORT, ...options });

/** Returns the engine's own answer, with the options of SHORT by default. @param {Given} given @param {any} prompt
 * @param {object} [options] of generate() */
export async function own({ engine }, prompt, options) {
  const messages = typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt;
  return engine.generate(messages, { maxTokens: 12, seed: 7, ...options }).result();
}
