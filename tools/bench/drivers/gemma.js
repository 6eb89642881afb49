/** gemma: this package, through its public API. Platform-free: who calls it brings loadModel.
 * @typedef {import('../measure.js').Job} Job */

/** @param {typeof import('../../../js/index.js').loadModel} loadModel */
export const gemma = (loadModel) => async (/** @type {Job} */ job) => {
  const { model: source, threads, contextLength, variant } = job;
  const model = await loadModel(source, {
    threads,
    contextLength,
    variant: /** @type {'auto' | undefined} */ (variant),
    cache: false, // the peers are not made to write a file either
  });
  const { endTokens, memory, variant: build } = model.info;
  const logitBias = Object.fromEntries(endTokens.map((id) => [id, -Infinity]));
  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ ids }, tokens) => {
    const before = performance.now();
    const out = model.generate(ids, { maxTokens: tokens + 1, temperature: 0, logitBias });
    const { usage, timings } = await out.result();
    const ms = performance.now() - before;
    return {
      promptTokens: usage.promptTokens - usage.reusedTokens,
      promptMs: timings.firstTokenMs,
      tokens: usage.completionTokens - 1,
      tokensMs: ms - timings.firstTokenMs,
    };
  };
  return { run, keepsPrefix: true, facts: { build, threads: model.info.threads, memory } };
};
