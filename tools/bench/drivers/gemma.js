/** gemma: this package, through its public API. Independent of the platform: the caller passes loadModel.
 * @typedef {import('../measure.js').Job} Job */

/** @param {typeof import('../../../js/index.js').loadModel} loadModel */
export const gemma = (loadModel) => async (/** @type {Job} */ job) => {
  const { model: source, threads, contextLength, variant } = job;
  const model = await loadModel(source, {
    threads,
    contextLength,
    variant: /** @type {'auto' | undefined} */ (variant),
    cache: false, // the peers do not write a file either
  });
  const { endTokens, memory, variant: build } = model.info;
  const logitBias = Object.fromEntries(endTokens.map((id) => [id, -Infinity]));
  /** @type {(sampling: object) => import('../measure.js').Opened['run']} */
  const runWith =
    (sampling) =>
    async ({ ids }, tokens) => {
      const before = performance.now();
      const out = model.generate(ids, { maxTokens: tokens + 1, logitBias, ...sampling });
      const { usage, timings } = await out.result();
      const ms = performance.now() - before;
      return {
        promptTokens: usage.promptTokens - usage.reusedTokens,
        promptMs: timings.firstTokenMs,
        tokens: usage.completionTokens - 1,
        tokensMs: ms - timings.firstTokenMs,
      };
    };
  const facts = { build, threads: model.info.threads, memory };
  return { run: runWith({ temperature: 0 }), sample: runWith({}), keepsPrefix: true, facts };
};
