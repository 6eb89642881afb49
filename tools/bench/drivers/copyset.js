/** copyset: times the answers of tests/vectors/copyset.json with and without draft tokens, alternately, for
 * bench/copyset.js in Node and in browsers. The workers replay the answers (replay.js). */
import { loadModel } from '../../../js/index.node.js';
import set from '../../../tests/vectors/copyset.json' with { type: 'json' };

/** @typedef {import('../../../js/index.js').Model} Model */
/** `model`: path or URL of a model file.
 * @typedef {{ model: string, threads: number, variant: string, temperature: number, rounds: number,
 *   kinds: string[] }} Job */
/** Timing of an answer. `tokens`: number of tokens after the first one. `ms`: milliseconds for these tokens. `drafted`,
 * `accepted`: numbers of draft tokens.
 * @typedef {{ tokens: number, ms: number, drafted: number, accepted: number }} Timing */
/** The answers to one text, one per round, with (`on`) and without (`off`) draft tokens.
 * @typedef {{ kind: string, off: Timing[], on: Timing[] }} Row */
/** @typedef {{ variant: string, rows: Row[] }} Found */

const CONTEXT = 512;

/** Generates the answer to a text. Throws if it is not the reference answer. @param {Model} model
 * @param {number} index of the text @param {object} options @returns {Promise<Timing>} */
async function timed(model, index, options) {
  const before = performance.now();
  const messages = [{ role: /** @type {const} */ ('user'), content: set[index].prompt }];
  const out = model.generate(messages, { seed: index, maxTokens: CONTEXT / 2, ...options });
  const { text, tokens, timings, finishReason } = await out.result();
  const ms = performance.now() - before - timings.firstTokenMs;
  if (text !== set[index].answer || finishReason !== 'stop')
    throw new Error(`The answer to text ${index} differs from its reference answer.`);
  const { draftedTokens: drafted = 0, acceptedTokens: accepted = 0 } = timings;
  return { tokens: tokens.length - 1, ms, drafted, accepted };
}

/** Times the answers to all texts of the job's kinds once per round, after a warm-up. @param {Job} job
 * @returns {Promise<Found>} */
export async function answer({ model: source, threads, variant: build, temperature, rounds, kinds }) {
  const variant = /** @type {'auto'} */ (build);
  const model = await loadModel(source, { threads, variant, contextLength: CONTEXT, cache: false });
  const texts = set.flatMap(({ kind }, index) => (kinds.includes(kind) ? [{ kind, index }] : []));
  /** @type {Row[]} */
  const rows = texts.map(({ kind }) => ({ kind, off: [], on: [] }));
  // Warm-up, which also loads the module for draft tokens.
  for (const draft of [true, false]) await timed(model, texts[0].index, { temperature, draft });
  for (let round = 0; round < rounds; round++) {
    for (const [i, { index }] of texts.entries()) {
      const sides = /** @type {const} */ (['off', 'on']);
      for (const side of (round + i) % 2 ? sides.toReversed() : sides) {
        rows[i][side].push(await timed(model, index, { temperature, draft: side === 'on' }));
      }
    }
  }
  await model.dispose();
  return { variant: model.info.variant, rows };
}
