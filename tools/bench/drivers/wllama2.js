/**
 * wllama2: @wllama/wllama 2.x, step by step through decode() and samplingSample(), like its createCompletion(), but
 * without detokenizing. The model is fetched as a Blob, because wllama's own download would first write it to disk.
 */

/** Loads the model. `run` empties the KV cache first, and continues after end tokens.
 * @param {import('../measure.js').Job} job @returns {Promise<import('../measure.js').Opened>} */
export async function open({ model, peers, threads, contextLength }) {
  const base = `${peers}wllama2/esm/`;
  const { Wllama, LoggerWithoutDebug } = await import(`${base}index.js`);
  const wllama = new Wllama(
    {
      'single-thread/wllama.wasm': `${base}single-thread/wllama.wasm`,
      'multi-thread/wllama.wasm': `${base}multi-thread/wllama.wasm`,
    },
    { logger: LoggerWithoutDebug, suppressNativeLog: true },
  );
  const blob = await (await fetch(model)).blob();
  await wllama.loadModel([blob], { n_ctx: contextLength, n_threads: threads });

  const draw = async () => {
    const { token } = await wllama.samplingSample();
    await wllama.samplingAccept([token]);
    return token;
  };
  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ ids }, tokens) => {
    await wllama.kvClear();
    await wllama.samplingInit({ temp: 0 }, []);
    const start = performance.now();
    await wllama.decode(ids, {});
    let token = await draw();
    const first = performance.now();
    for (let i = 0; i < tokens; i++) {
      await wllama.decode([token], {});
      token = await draw();
    }
    return {
      promptTokens: ids.length,
      promptMs: first - start,
      tokens,
      tokensMs: performance.now() - first,
    };
  };
  return { run, facts: { multithread: wllama.isMultithread(), threads: wllama.getNumThreads() } };
}
