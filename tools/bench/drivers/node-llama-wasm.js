/** node-llama-wasm: @fugood/node-llama-wasm in a browser, in its own worker. It takes text; the number of
 * tokens is what it reports. */

/** @param {import('../measure.js').Job} job @returns {Promise<import('../measure.js').Opened>} */
export async function open({ model, peers, threads, contextLength }) {
  const base = `${peers}@fugood/node-llama-wasm/`;
  const { loadModel } = await import(`${base}index.js`);
  const context = await loadModel({
    model, n_ctx: contextLength, n_threads: threads, n_gpu_layers: 0,
    wasm: { worker: true, threads: threads > 1, maxThreads: threads, cacheDownloads: false },
  });
  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ text }, tokens) => {
    const start = performance.now();
    let first = 0;
    const result = await context.completion(
      { prompt: text, n_predict: tokens + 1, temperature: 0, ignore_eos: true },
      () => { first ||= performance.now(); },
    );
    const end = performance.now();
    return {
      promptTokens: result.tokens_evaluated, promptMs: (first || end) - start,
      tokens: result.tokens_predicted - 1, tokensMs: end - (first || end),
    };
  };
  return { run, facts: { threads } };
}
