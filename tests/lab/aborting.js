/* aborting: embed() aborted at random moments, the same in Node and in a page: how long until its caller hears of it, and
 * until the engine is free for the next call. */

/** @typedef {{ told: number[], free: number[] }} Times of each moment, in ms */

/** What there is to do, which takes longer than the longest wait. @type {Record<string, string[]>} */
export const WORK = {
  'texts of 2,048 tokens': Array.from({ length: 40 }, (_, i) => `${i} ${'many words '.repeat(2500)}`),
  '1,000 short texts': Array.from({ length: 1000 }, (_, i) => `text ${i} of some words, ${'more '.repeat(i % 7)}`),
};
const LONGEST_MS = 2500;
/** Refused as soon as its turn comes. */
const TOO_LONG = Array.from({ length: 2100 }, (_, i) => i).join(' ');

/** @param {import('../../js/index.node.js').Model} model of a context of 2,048 tokens @param {string[]} texts
 * @param {number} count @returns {Promise<Times>} */
export async function abortions(model, texts, count) {
  /** @type {Times} */
  const times = { told: [], free: [] };
  const ended = (/** @type {Promise<unknown>} */ call, /** @type {string} */ code) =>
    call.then(
      () => {
        throw new Error(`a call that should end with ${code} gave vectors`);
      },
      (error) => {
        if (error.code !== code) throw error;
      },
    );
  for (let i = 0; i < count; i++) {
    const control = new AbortController();
    const running = model.embed(texts, { truncate: true, signal: control.signal });
    const heard = ended(running, 'aborted');
    await new Promise((done) => {
      setTimeout(done, Math.random() * LONGEST_MS);
    });
    const at = performance.now();
    control.abort();
    await heard;
    times.told.push(performance.now() - at);
    await ended(model.embed(TOO_LONG), 'context-exceeded');
    times.free.push(performance.now() - at);
  }
  return times;
}
