/**
 * wllama3: @wllama/wllama 3.x on the CPU. It embeds llama.cpp's server and has no step-by-step API, so the times and
 * counts come from the server.
 */

/** Loads the model. `run` evaluates the whole prompt again, and continues after end tokens.
 * @param {import('../measure.js').Job} job @returns {Promise<import('../measure.js').Opened>} */
export async function open({ model, peers, threads, contextLength }) {
  const base = `${peers}wllama3/esm/`;
  const { Wllama, LoggerWithoutDebug } = await import(`${base}index.js`);
  const wllama = new Wllama(
    { default: `${base}wasm/wllama.wasm` },
    { logger: LoggerWithoutDebug, suppressNativeLog: true },
  );
  wllama.setCompat(null);
  const blob = await (await fetch(model)).blob();
  await wllama.loadModel([blob], {
    n_ctx: contextLength,
    n_threads: threads,
    n_gpu_layers: 0,
    n_parallel: 1,
  });

  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ text }, tokens) => {
    const { timings } = await wllama.createCompletion({
      prompt: text,
      max_tokens: tokens + 1,
      temperature: 0,
      ignore_eos: true,
      cache_prompt: false,
    });
    return {
      promptTokens: timings.prompt_n,
      promptMs: timings.prompt_ms,
      tokens: timings.predicted_n - 1,
      tokensMs: timings.predicted_ms,
    };
  };
  return { run, facts: { multithread: wllama.isMultithread(), threads: wllama.getNumThreads() } };
}
