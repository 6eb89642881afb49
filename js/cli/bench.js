/* bench: the command `gemma-wasm bench`, which prints medians of speed measurements. */
import { loadModel } from '../index.node.js';
import { wrongRuns } from './errors.js';
import { number } from './flags.js';
import { print, using } from './output.js';
/** @import { GenerateResult } from '../protocol.js' */
/** @import { Model } from '../model.js' */
/** @import { Values } from './flags.js' */

/** Runs `gemma-wasm bench`. @param {Values} values */
export async function bench(values) {
  const [promptTokens = 128, genTokens = 32, runs = 5] = ['prompt-tokens', 'gen-tokens', 'runs'].map((name) =>
    number(values, name),
  );
  if (![promptTokens, genTokens, runs].every((n) => Number.isInteger(n) && n > 0)) throw wrongRuns();
  const start = performance.now();
  await using(loadModel, values, async (model) => {
    const loadMs = performance.now() - start;
    /** @type {GenerateResult['timings'][]} */
    const timings = [];
    while (timings.length < runs) {
      timings.push(await benchRun(model, promptTokens, genTokens, timings.length));
    }
    const { threads, threadsMeasured, variant, memory, contextLength } = model.info;
    print(values, {
      model: values.source,
      variant,
      threads,
      threadsMeasured,
      contextLength,
      memory,
      runs,
      promptTokens,
      genTokens,
      loadMs,
      ...medians(timings, ['prefillTokensPerSecond', 'decodeTokensPerSecond', 'firstTokenMs']),
    });
  });
}

/** @template {string} K @param {Record<K, number>[]} runs @param {K[]} names */
function medians(runs, names) {
  return Object.fromEntries(
    names.map((name) => {
      const sorted = runs.map((run) => run[name]).sort((a, b) => a - b);
      return [name, (sorted[(runs.length - 1) >> 1] + sorted[runs.length >> 1]) / 2];
    }),
  );
}

/** Measures the speed of one answer. The prompt of each run begins with another token id, so that no KV cache is
 * reused. End tokens are banned, so that the answer has its full length.
 * @param {Model} model @param {number[]} counts tokens of the prompt, tokens of the answer, index of the run */
async function benchRun(model, ...[promptTokens, genTokens, run]) {
  const { vocabSize, endTokens } = model.info;
  const ids = Array.from({ length: promptTokens }, (_, i) => (i * 31 + run * 17 + 300) % vocabSize);
  const logitBias = Object.fromEntries(endTokens.map((id) => [id, -Infinity]));
  const out = model.generate(ids, { maxTokens: genTokens, temperature: 0, logitBias });
  return (await out.result()).timings;
}
