/** neighbour: measures gemma-wasm in one page with one thread, with several, and with several beside a busy process,
 * alternately, so that changes of the machine's load affect all equally. ../neighbour.js provides `keepBusy`. */
import { makePrompt } from '../measure.js';
import { open } from './gemma.js';

/** @typedef {import('../measure.js').Opened} Opened */
/** Prefill and decode speeds in tokens/s. @typedef {{ prefill: number, decode: number }} Rates */
/** Speeds of one round: with one thread, with several, and with several beside a busy process.
 * @typedef {{ one: Rates, two: Rates, beside: Rates }} Turn */

const PROMPT = 64;
const TOKENS = 16;
const { keepBusy } = /** @type {{ keepBusy: (on: boolean) => Promise<void> }} */ (/** @type {unknown} */ (globalThis));

/** @param {Opened} side @param {number} seed @returns {Promise<Rates>} */
async function rates({ run }, seed) {
  const { promptTokens, promptMs, tokens, tokensMs } = await run(makePrompt(PROMPT, seed), TOKENS);
  return { prefill: (promptTokens / promptMs) * 1000, decode: (tokens / tokensMs) * 1000 };
}

/** Loads the model twice, with one thread and with `job.threads`, and measures rounds until `job.seconds` have passed.
 * @param {import('../measure.js').Job & { seconds: number }} job @returns {Promise<Turn[]>} */
export async function answer(job) {
  let { seed } = job;
  const one = await open({ ...job, threads: 1 });
  const two = await open(job);
  for (const side of [one, two]) await rates(side, seed++);
  /** @type {Turn[]} */
  const turns = [];
  for (const end = performance.now() + job.seconds * 1000; performance.now() < end; ) {
    const alone = { one: await rates(one, seed++), two: await rates(two, seed++) };
    await keepBusy(true);
    turns.push({ ...alone, beside: await rates(two, seed++) });
    await keepBusy(false);
  }
  return turns;
}
