/* autotune: chooses by measurement how many threads compute, and how they read weights while decoding. Neither changes
 * results. */
/** @import { Engine } from './engine.js' */

/** Number of parts of the weights that are timed with one stream and with several. */
const QUARTERS = 4;

/** Number of rows of the product that stands for prefill in a trial. */
const PROMPT_ROWS = 8;
/** Minimum duration of the first trial, and of all trials before the first one that counts, because JavaScript engines
 * optimise the code meanwhile. In milliseconds. */
const TRIAL_MS = 1;
const WARM_MS = 15;
/** Minimum speedup for which more threads are used, and the number of comparisons that must agree. */
const GAIN = 1.15;
const VOTES = 3;

/** Makes the choices that are true. @param {Engine} native @param {{ threads: boolean, streams: boolean }} choices */
export function autotune(native, { threads, streams }) {
  if (threads) chooseThreads(native, trialOf(native));
  if (streams) chooseStreams(native);
}

/** Evaluates the feed-forward of `count` layers from `layer` on, after the last one again from the first. Returns the
 * duration in milliseconds. @param {Engine} native
 * @param {{ layer: number, count: number, rows?: number, sequential?: number }} of (api.h, gw_rehearse) */
function feed(native, { layer, count, rows = 1, sequential = 0 }) {
  const layers = native.number('n_layer');
  const before = performance.now();
  for (let i = 0; i < count; i++) native.call('rehearse', sequential, (layer + i) % layers, rows);
  return performance.now() - before;
}

/** Returns a trial for chooseThreads(): evaluates a token and a prompt in some layers, and returns the duration in
 * milliseconds. The first call finds the number of layers that take at least TRIAL_MS. Successive trials read different
 * layers, so that no cache has them. @param {Engine} native */
function trialOf(native) {
  let layer = 0;
  let count = 0;
  const trial = () => {
    feed(native, { layer: layer++, count: 1 }); // wakes the helpers
    const ms = feed(native, { layer, count }) + feed(native, { layer, count, rows: PROMPT_ROWS });
    layer += count;
    return ms;
  };
  return () => {
    if (!count) for (count = 1; trial() < TRIAL_MS; ) count *= 2;
    return trial();
  };
}

/** Chooses and sets the number of threads, from two to the number that has started. A platform can report cores that a
 * container may not use, or that are much slower than others. So doubles the number as long as that is faster. The times
 * of both numbers are measured alternately, because the speed of the machine may change.
 * @param {Pick<Engine, 'threads' | 'useThreads'>} native @param {() => number} trial see trialOf() */
export function chooseThreads(native, trial) {
  const most = native.threads;
  const timed = (/** @type {number} */ threads) => {
    native.useThreads(threads);
    return trial();
  };
  let chosen = 2;
  for (let ms = 0; ms < WARM_MS; ) ms += timed(chosen);
  while (chosen < most) {
    const next = Math.min(2 * chosen, most);
    const votes = { fewer: 0, more: 0 };
    while (votes.fewer < VOTES && votes.more < VOTES) {
      votes[timed(chosen) < GAIN * timed(next) ? 'fewer' : 'more']++;
    }
    if (votes.fewer === VOTES) break;
    chosen = next;
  }
  native.useThreads(chosen);
}

/** Chooses in how many interleaved streams the weights are read. Some processors are fastest with one stream, others
 * with several, so each quarter of the weights is timed with one stream and with several. Quarters can have different
 * types, so the times of a quarter are only compared with each other. Turn -1 warms up the code and does not count.
 * Successive trials read different quarters, so that no cache has them.
 * @param {Engine} native */
function chooseStreams(native) {
  const begin = (/** @type {number} */ i) => Math.floor((native.number('n_layer') * i) / QUARTERS);
  const quarter = (/** @type {number} */ sequential, /** @type {number} */ i) => {
    return feed(native, { layer: begin(i), count: begin(i + 1) - begin(i), sequential });
  };
  /** @type {number[]} */
  const one = [];
  /** @type {number[]} */
  const many = [];
  for (let turn = -1; turn < QUARTERS; turn++) {
    const first = (turn + QUARTERS) % QUARTERS;
    const second = (first + 2) % QUARTERS;
    one[first] = quarter(1, first);
    many[second] = quarter(0, second);
  }
  const [, low, high] = one.map((ms, i) => ms / many[i]).sort((a, b) => a - b);
  native.call('rehearse', Number(low * high < 1), -1, 1);
}
