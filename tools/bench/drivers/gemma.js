/** gemma: this package, through its public API. Independent of the platform: the caller passes loadModel.
 * @typedef {import('../measure.js').Job} Job */
import { makePrompt } from '../measure.js';
import { product } from '../product.js';

/** Number of tokens of an answer for timing steps. */
const STEPS = 64;

/** @param {typeof import('../../../js/index.js').loadModel} loadModel */
export const gemma = (loadModel) => async (/** @type {Job} */ job) => {
  const { model: source, threads, contextLength, variant } = job;
  const model = await loadModel(source, {
    threads,
    contextLength,
    variant: /** @type {'auto' | undefined} */ (variant),
    cache: false, // the compared programs do not write a file either
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
  /** Times answers of one repeated token, which a logit bias forces, so that all drafts of three tokens are accepted.
   * Drafting pauses when it gains nothing, so some steps have one token. */
  const rows = async () => {
    const [id] = makePrompt(1, job.seed).ids;
    const answer = async (/** @type {boolean} */ draft) => {
      const options = { temperature: 0, maxTokens: STEPS + 1, logitBias: { ...logitBias, [id]: 100 }, draft };
      return (await model.generate(Array(8).fill(id), options).result()).timings;
    };
    await answer(true); // the module for drafts is loaded during the first answer
    const { decodeMs, acceptedTokens = 0 } = await answer(true);
    const one = (await answer(false)).decodeMs / STEPS;
    const fours = acceptedTokens / 3;
    const ratio = (decodeMs - (STEPS - 4 * fours) * one) / fours / one;
    return ratio > 0 && fours > 0 ? ratio : undefined; // undefined if steps are too short to measure
  };
  const facts = { build, product: product(), threads: model.info.threads, memory };
  return { run: runWith({ temperature: 0 }), sample: runWith({}), rows, keepsPrefix: true, facts };
};
