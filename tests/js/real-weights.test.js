/* Compares the real google/gemma-3-1b-it with published values. Runs if GEMMA_GGUF names a GGUF file of this model. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { loadModel } from '../../js/index.node.js';

const PUBLISHED = JSON.parse(readFileSync(new URL('../vectors/published.json', import.meta.url), 'utf8'));
const PATH = process.env.GEMMA_GGUF;
const skip = PATH ? false : 'GEMMA_GGUF does not name a file with the real weights';
const EXACT_TYPES = ['F32', 'F16', 'BF16'];
/* Largest allowed difference from a published logit, which was computed in float32 from the BF16 weights. BF16 converts
 * to F32 exactly; as F16, weights below 6e-5 lose bits, whose effect has not been measured. */
const LOGIT_BOUNDS = { F32: 0.02, BF16: 0.02, F16: 0.5 };
/* Number of first characters that a quantised model's greedy text must share with the published one. */
const SHARED_CHARACTERS = 8;

/** @param {string | { repeat: string, times: number, then: string }} prompt */
const textOf = (prompt) => (typeof prompt === 'string' ? prompt : prompt.repeat.repeat(prompt.times) + prompt.then);

describe('real weights', () => {
  /** @type {Awaited<ReturnType<typeof loadModel>>} */
  let model;
  before(async () => {
    if (PATH) model = await loadModel(PATH, { contextLength: 8192 });
  });
  after(() => model?.dispose());

  for (const { id, prompt, promptTokens, maxTokens, accept } of PUBLISHED.texts) {
    if (id === 'hf-1b-qat-gguf') continue; // This text was published for another file.
    test(`the greedy text of ${id} is the published one`, { skip }, async () => {
      const out = await model.generate(textOf(prompt), { temperature: 0, maxTokens }).result();
      assert.equal(out.usage.promptTokens, promptTokens);
      const exact = EXACT_TYPES.includes(model.info.quantisation);
      const fits = accept.some((/** @type {string} */ text) =>
        exact ? out.text === text : out.text.slice(0, SHARED_CHARACTERS) === text.slice(0, SHARED_CHARACTERS),
      );
      assert.ok(fits, `got ${JSON.stringify(out.text)}, expected one of ${JSON.stringify(accept)}`);
    });
  }

  test('the norms of the residual stream match the published ones in each layer', { skip }, async (t) => {
    const { ids, lengths } = PUBLISHED.topLogits;
    const { layers } = await model.debug.inside(ids, { positions: [-1], norms: true });
    const before = layers.map(({ norms }) => /** @type {Float32Array} */ (norms)[0]);
    t.diagnostic(before.map((length, i) => `${i}: ${length.toFixed(1)} (${lengths[i].toFixed(1)})`).join(', '));
    const bound = EXACT_TYPES.includes(model.info.quantisation) ? 0.005 : 0.1;
    assert.equal(before.length, lengths.length);
    before.forEach((length, i) =>
      assert.ok(Math.abs(length / lengths[i] - 1) < bound, `layer ${i}: ${length}, ${lengths[i]}`),
    );
  });

  test('the ten highest logits of a chat prompt match the published ones', { skip }, async (t) => {
    const { ids, top } = PUBLISHED.topLogits;
    const logits = await model.debug.logits(ids);
    t.diagnostic(
      top
        .map(
          (/** @type {{ id: number, logit: number }} */ p) =>
            `${p.id}: ${logits[p.id].toFixed(2)} (${p.logit.toFixed(2)})`,
        )
        .join(', '),
    );
    const best = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
    assert.equal(best, top[0].id);
    const bound = LOGIT_BOUNDS[/** @type {keyof typeof LOGIT_BOUNDS} */ (model.info.quantisation)];
    if (!bound) return t.diagnostic(`${model.info.quantisation}: values are not compared`);
    for (const { id, logit } of top) assert.ok(Math.abs(logits[id] - logit) < bound, `${id}: ${logits[id]}, ${logit}`);
  });
});
