/* head: with the default sampling, the two-stage output head (src/model/topk.h) must give the same tokens as computing
 * all logits, for many seeds. The models are the storyteller model (trained) and one with Gemma's vocabulary, of which
 * the two-stage head excludes most tokens. */
import { RUN } from '../../js/engine/engine.js';
import { loadedEngine } from '../js/bare-engine.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';

const TOKENS = 24;
const PROMPT = 8;
const FIRST_ID = 5;

/** Returns the tokens drawn, and how many logits the head did not compute for the last token.
 * @param {import('../js/bare-engine.js').Engine} engine @param {number} seed */
function answer(engine, seed) {
  const draw = randoms(seed);
  const tokens = Array.from({ length: PROMPT }, () => FIRST_ID + draw(engine.number('n_vocab') - FIRST_ID));
  engine.resetSampler();
  engine.setOption('seed', seed);
  engine.sync(tokens);
  engine.call('want_top', 1);
  for (let n = 0; n < TOKENS; n++) {
    while (engine.call('run', 0) !== RUN.DONE);
    const id = engine.draw();
    tokens.push(id);
    engine.accept(id);
    engine.call('append', id);
  }
  return { tokens: String(tokens), excluded: engine.logits().filter((logit) => logit === -Infinity).length };
}

/** Compares the answers for `count` seeds. Also fails if no logit was excluded.
 * @param {import('./cases.js').Run} asked @returns {Promise<import('./cases.js').Result>} */
export async function run({ count, seed, first }) {
  const counts = { answers: 0, excluded: 0 };
  /** @type {string[]} */
  const broken = [];
  for (const name of ['storyteller', 'gemma-vocab-tiny']) {
    const file = await testModel(name);
    const whole = await loadedEngine(file, 'auto', { output: 'whole' });
    const stages = await loadedEngine(file, 'auto', { output: 'stages' });
    for (let i = seed + first; i < seed + first + count; i++) {
      const { tokens, excluded } = answer(stages, i);
      counts.answers++;
      counts.excluded += excluded;
      if (tokens !== answer(whole, i).tokens) broken.push(`${file}, seed ${i}: ${tokens}`);
    }
    whole.close();
    stages.close();
  }
  if (!counts.excluded) broken.push('No logit was excluded.');
  return { counts, broken };
}
