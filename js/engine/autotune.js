/* autotune: measures how many threads, and which order of reading weights while decoding, are fastest. Neither
 * changes results. */
/** @import { Engine } from './engine.js' */

const QUARTERS = 4;

/** Number of rows of activations with which a trial simulates prefill. */
const PROMPT_ROWS = 8;
/** Minimum duration of a trial, in milliseconds, and total duration of the first trials. The first trials are not
 * compared, because the JavaScript engine still optimises the code while they run. */
const TRIAL_MS = 1;
const WARM_MS = 15;
/** Minimum speedup for which autotune uses more threads, and number of comparisons of durations that must
 * agree. */
const GAIN = 1.15;
const VOTES = 5;

/** Chooses the number of threads, the order of reading weights, or both. @param {Engine} native
 * @param {{ threads: boolean, streams: boolean }} choices */
export function autotune(native, { threads, streams }) {
  if (threads) chooseThreads(native, trialOf(native));
  if (streams) chooseStreams(native);
}

/** Evaluates the feed-forward part of `count` layers, beginning with `layer`. After the last layer comes the first.
 * Returns the duration in milliseconds. @param {Engine} native
 * @param {{ layer: number, count: number, rows?: number, sequential?: number }} of see gw_autotune in api.h */
function feed(native, { layer, count, rows = 1, sequential = 0 }) {
  const layers = native.number('n_layer');
  const before = performance.now();
  for (let i = 0; i < count; i++) native.call('autotune', sequential, (layer + i) % layers, rows);
  return performance.now() - before;
}

/** Returns a function that evaluates a token and a prompt in some layers, and returns the duration in milliseconds.
 * The first call finds how many layers take at least TRIAL_MS. Successive calls read different layers, so that no
 * processor cache has them. @param {Engine} native */
function trialOf(native) {
  let layer = 0;
  let count = 0;
  const trial = () => {
    feed(native, { layer: layer++, count: 1 }); // wakes the helper threads before the measurement
    const ms = feed(native, { layer, count }) + feed(native, { layer, count, rows: PROMPT_ROWS });
    layer += count;
    return ms;
  };
  return () => {
    if (!count) for (count = 1; trial() < TRIAL_MS; ) count *= 2;
    return trial();
  };
}

/** Returns the numbers of threads to try after two: 3, 4, 6, 8, 12, 16 and so on, and `most`. @param {number} most */
function candidates(most) {
  const all = [];
  for (let n = 2; n < most; n *= 2) all.push(n * 1.5, n * 2);
  return [...all.filter((n) => n < most), most];
}

/** Tries larger numbers of threads, up to the number started, until one is clearly slower than the fastest so far, or
 * not faster although it is twice as large. Some of the reported cores can be slow or not available to a container.
 * Measures the fastest number so far and the next candidate alternately, because the speed of the machine may change.
 * @param {Pick<Engine, 'threads' | 'useThreads'>} native @param {() => number} trial
 * returns a duration (trialOf()) */
export function chooseThreads(native, trial) {
  const most = native.threads;
  const timed = (/** @type {number} */ threads) => {
    native.useThreads(threads);
    return trial();
  };
  let chosen = 2;
  for (let ms = 0; ms < WARM_MS; ) ms += timed(chosen);
  for (const next of candidates(most)) {
    const votes = { slower: 0, similar: 0, faster: 0 };
    while (Math.max(...Object.values(votes)) < VOTES) {
      const speedup = timed(chosen) / timed(next);
      votes[speedup >= GAIN ? 'faster' : speedup * GAIN > 1 ? 'similar' : 'slower']++;
    }
    if (votes.faster === VOTES) chosen = next;
    else if (votes.slower === VOTES || next >= 2 * chosen) break;
  }
  native.useThreads(chosen);
}

/** Chooses whether the kernels read weights sequentially or in interleaved streams. Which is faster depends on the
 * processor. Times both orders in each quarter of the layers and compares times of the same quarter, because quarters
 * can have different weight types; the median ratio decides. The first turn, -1, only warms up the code: a later turn
 * overwrites its times. Successive trials read different quarters, so that no processor cache has their weights.
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
  native.call('autotune', Number(low * high < 1), -1, 1);
}
