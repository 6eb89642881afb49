/** native: the benchmark's driver of native llama.cpp, through node-llama-cpp in Node. */
import { startLlama } from '../peers.js';

/** Loads the model without a GPU. `run` empties the KV cache first, and continues after end tokens.
 * @param {import('../measure.js').Job} job @returns {Promise<import('../measure.js').Opened>} */
export async function open({ model: modelPath, threads, contextLength }) {
  const { llama } = await startLlama(threads);
  const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
  const context = await model.createContext({ contextSize: contextLength, threads });
  const sequence = context.getSequence();
  /** @type {import('../measure.js').Opened['run']} */
  const run = async ({ ids }, tokens) => {
    await sequence.clearHistory();
    const start = performance.now();
    let first = 0;
    let count = 0;
    for await (const _ of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
      first ||= performance.now();
      if (count++ === tokens) break;
    }
    return {
      promptTokens: ids.length,
      promptMs: first - start,
      tokens: count - 1,
      tokensMs: performance.now() - first,
    };
  };
  return { run, facts: { threads: context.currentThreads } };
}
