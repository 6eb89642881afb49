/* aborting: aborts embed() at random moments, in Node and in pages, and measures the time until the caller gets the
 * error, and until the engine accepts the next call. */
import { randoms } from '../support/random.js';
import { sleep } from './inject.js';

/** Inputs for which embed() needs more than LONGEST_MS. @type {Record<string, string[]>} */
export const WORK = {
  'texts of 2,048 tokens': Array.from({ length: 40 }, (_, i) => `${i} ${'many words '.repeat(2500)}`),
  '1,000 short texts': Array.from({ length: 1000 }, (_, i) => `text ${i} of some words, ${'more '.repeat(i % 7)}`),
};
const LONGEST_MS = 2500;
/** A text longer than the context: embed() rejects it as soon as the engine is free. */
const TOO_LONG = Array.from({ length: 2100 }, (_, i) => i).join(' ');

/** @param {Promise<unknown>} call @param {string} code */
async function endsWith(call, code) {
  const error = await call.then(
    () => new Error(`embed() returned vectors instead of failing with ${code}`),
    (reason) => reason,
  );
  if (error.code !== code) throw error;
}

/** Aborts embed() at random moments. Returns, for each call, the milliseconds from the abort until the call rejected
 * (`told`), and until the engine had handled another call (`free`).
 * @param {any} model with a context of 2,048 tokens @param {string} what a key of WORK @param {number} count
 * @param {number} seed */
export async function abortions(model, what, count, seed) {
  const random = randoms(seed);
  const times = { told: /** @type {number[]} */ ([]), free: /** @type {number[]} */ ([]) };
  for (let i = 0; i < count; i++) {
    const control = new AbortController();
    const told = endsWith(model.embed(WORK[what], { truncate: true, signal: control.signal }), 'aborted');
    await sleep(random(LONGEST_MS));
    const at = performance.now();
    control.abort();
    await told;
    times.told.push(performance.now() - at);
    await endsWith(model.embed(TOO_LONG), 'context-exceeded');
    times.free.push(performance.now() - at);
  }
  return times;
}
