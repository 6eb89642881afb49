/* checks: assertions and helpers for tests of calls through the AI SDK, in Node and in pages. */

/** Arguments of a call. `entry`: the exports of gemma-wasm/ai-sdk; `model` and `embedder` use the loaded `engine` and
 * `embedEngine`; `source`: source of the same model as `engine`, for calls that load a model.
 * @typedef {{ entry: typeof import('../../../js/ai-sdk.js'), source: string,
 *   model: import('../../../js/ai-sdk.js').GemmaWasmLanguageModel, engine: Model,
 *   embedder: import('../../../js/ai-sdk.js').GemmaWasmEmbeddingModel, embedEngine: Model }} Given */
/** @typedef {Record<string, (given: Given) => Promise<void>>} Calls */

/** @param {unknown} value @param {string} what */
export function ok(value, what) {
  if (!value) throw new Error(what);
}

/** @param {unknown} actual @param {unknown} expected @param {string} what */
export function equal(actual, expected, what) {
  const [got, wanted] = [actual, expected].map((value) => JSON.stringify(value) ?? 'undefined');
  if (got !== wanted) throw new Error(`${what}: expected ${wanted.slice(0, 400)}, got ${got.slice(0, 400)}`);
}

/** @param {PromiseLike<unknown>} promise @returns {Promise<any>} */
export async function failureOf(promise) {
  const error = await Promise.resolve(promise).then(
    () => null,
    (reason) => reason,
  );
  ok(error, 'expected a rejection');
  return error;
}

/** @template T @param {AsyncIterable<T>} items */
export async function all(items) {
  /** @type {T[]} */
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}

/** @param {Given} given @param {any} prompt @param {object} options */
export async function own({ engine }, prompt, options) {
  const messages = typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt;
  return engine.generate(messages, options).result();
}

export const SHORT = { maxOutputTokens: 12, seed: 7 };
