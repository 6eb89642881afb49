/** embed: measures gemma-wasm's embeddings of texts of one length, alone and batched, in milliseconds per text. */
import { loadModel } from '../../../js/index.node.js';

/** @typedef {{ model: string, threads: number, tokens: number, together: number, rounds: number }} Job */

/** Returns a text with this number of tokens, including the tokens that the model adds.
 * @param {import('../../../js/model.js').Model} model @param {number} tokens */
async function textOf(model, tokens) {
  const count = async (/** @type {string} */ text) => (await model.tokenize(text, { bos: true })).length + 1;
  let text = 'the';
  while ((await count(text)) < tokens) text += ' the';
  return text;
}

/** Returns the milliseconds per text of each round. A first round, as a warm-up, is not counted. @param {Job} job
 * @returns {Promise<{ alone: number[], together: number[], facts: object }>} */
export async function answer({ model: address, threads, tokens, together: many, rounds }) {
  const model = await loadModel(address, { threads, cache: false });
  const text = await textOf(model, tokens);
  const texts = Array.from({ length: many }, () => text);
  const timed = async (/** @type {string | string[]} */ input) => {
    const before = performance.now();
    await model.embed(/** @type {any} */ (input), { prompt: '' });
    return (performance.now() - before) / (typeof input === 'string' ? 1 : many);
  };
  const alone = [];
  const together = [];
  for (let i = -1; i < rounds; i++) {
    const [one, all] = [await timed(text), await timed(texts)];
    if (i >= 0) alone.push(one), together.push(all);
  }
  const facts = { variant: model.info.variant, threads: model.info.threads };
  await model.dispose();
  return { alone, together, facts };
}
