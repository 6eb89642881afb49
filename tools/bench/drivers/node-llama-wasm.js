/**
 * node-llama-wasm: @fugood/node-llama-wasm in a browser, in its own worker. It accepts only text, and its worker
 * returns all tokens at the end, so its own times and counts are used.
 */

/** Loads the model. `run` continues after end tokens. @param {import('../measure.js').Job} job
 * @returns {Promise<import('../measure.js').Opened>} */
export async function open({ model, peers, threads, contextLength }) {
  const base = `${peers}@fugood/node-llama-wasm/`;
  const { loadModel } = await import(`${base}index.js`);
  const context = await loadModel({
    model,
    n_ctx: contextLength,
    n_threads: threads,
    n_gpu_layers: 0,
    wasm: { worker: true, threads: threads > 1, maxThreads: threads, cacheDownloads: false },
  });
  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ text }, tokens) => {
    const { timings } = await context.completion({
      prompt: text,
      n_predict: tokens + 1,
      temperature: 0,
      ignore_eos: true,
    });
    return {
      promptTokens: timings.prompt_n,
      promptMs: timings.prompt_ms,
      tokens: timings.predicted_n,
      tokensMs: timings.predicted_ms,
    };
  };
  return { run, facts: { threads } };
}
