/** gemma: the benchmark's driver of gemma-wasm in Node and in browsers. */
import { loadModel } from '../../../js/index.node.js';
import { makePrompt } from '../measure.js';
import { product } from '../product.js';

const STEPS = 64;

/** Loads the model. `run` and `sample` exclude the end tokens, so that all answers have the requested length.
 * @param {import('../measure.js').Job} job @returns {Promise<import('../measure.js').Opened>} */
export async function open(job) {
  const { model: source, threads, contextLength, variant } = job;
  const model = await loadModel(source, {
    threads,
    contextLength,
    variant: /** @type {'auto' | undefined} */ (variant),
    cache: false, // the compared runtimes don't write a cached file either
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
  /** Returns the time of a step of 4 tokens, divided by that of a step of 1. A logit bias makes answers repeat a token,
   * so that all drafts of three tokens are accepted. Drafting pauses at times, so some steps have one token. */
  const rows = async () => {
    const [id] = makePrompt(1, job.seed).ids;
    const answer = async (/** @type {boolean} */ draft) => {
      const options = { temperature: 0, maxTokens: STEPS + 1, logitBias: { ...logitBias, [id]: 100 }, draft };
      return (await model.generate(Array(8).fill(id), options).result()).timings;
    };
    await answer(true); // warm-up: loads the module for draft tokens
    const { decodeMs, acceptedTokens = 0 } = await answer(true);
    const one = (await answer(false)).decodeMs / STEPS;
    const fours = acceptedTokens / 3;
    const ratio = (decodeMs - (STEPS - 4 * fours) * one) / fours / one;
    return ratio > 0 && fours > 0 ? ratio : undefined; // undefined if steps are too short to be measured
  };
  const facts = { build, product: product(), threads: model.info.threads, memory };
  return { run: runWith({ temperature: 0 }), sample: runWith({}), rows, keepsPrefix: true, facts };
}
