/* drafts: answers with draft tokens must have the same token ids as answers without, for many prompts, at temperatures
 * 0 and 1, with one to four threads. The models are the storyteller model (trained, Q8_0) and a small one in Q4_0, a
 * type that has special kernels for batches of a few tokens; the latter runs with a draft model in F32, too. One more
 * has Gemma 4's architecture, and an assistant. */
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';

const MOST_THREADS = 4;
const TOKENS = 24;
const FIRST_ID = 5;

/** Returns random token ids with repetitions. @param {number} vocab @param {number} seed */
function prompt(vocab, seed) {
  const draw = randoms(seed);
  const base = Array.from({ length: 4 + draw(16) }, () => FIRST_ID + draw(vocab - FIRST_ID));
  return [...base, ...base, ...base.slice(0, 1 + draw(base.length))];
}

/** Compares answers with and without drafts to `count` prompts, from number `first` on. Fails if they differ, or if all
 * drafts or none were accepted.
 * @param {import('./cases.js').Run} asked @returns {Promise<import('./cases.js').Result>} */
export async function run({ count, seed, first }) {
  const counts = { answers: 0, tokens: 0, drafted: 0, accepted: 0 };
  /** @type {string[]} */
  const broken = [];
  for (const [name, drafter] of [
    ['storyteller'],
    ['parity-q4_0'],
    ['parity-q4_0', 'parity-f32'],
    ['gemma4-q4_0', 'assistant-q4_0'],
  ]) {
    const file = await testModel(name);
    const draftModel = drafter ? await testModel(drafter) : undefined;
    /** Answers without drafts, with one thread. @type {string[]} */
    const expected = [];
    for (let threads = 1; threads <= MOST_THREADS; threads++) {
      const model = await loadModel(file, { threads, cache: false, draftModel });
      const answer = (/** @type {number} */ i, /** @type {boolean} */ draft) => {
        const ids = prompt(model.info.vocabSize, seed + (i >> 1));
        return model.generate(ids, { temperature: i % 2, seed: i, maxTokens: TOKENS, draft }).result();
      };
      for (let i = 2 * first; i < 2 * (first + count); i++) {
        if (threads === 1) expected[i] = String((await answer(i, false)).tokens);
        const { tokens, timings } = await answer(i, true);
        counts.answers++;
        counts.tokens += tokens.length;
        counts.drafted += timings.draftedTokens ?? 0;
        counts.accepted += timings.acceptedTokens ?? 0;
        if (String(tokens) !== expected[i]) {
          broken.push(
            `${file}, draft model ${drafter}, threads ${threads}, temperature ${i % 2}, prompt ${i >> 1}: ${tokens}`,
          );
        }
      }
      await model.dispose();
    }
  }
  if (!counts.accepted || counts.accepted === counts.drafted) broken.push('No draft was accepted, or none rejected.');
  return { counts, broken };
}
