/* Tests which number of threads autotuning chooses from measured times, and loads a model with more cores reported than
 * usable. */
import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { describe, test } from 'node:test';
import { chooseThreads } from '../../js/engine/autotune.js';
import { essence, open, someIds } from './helpers.js';
import { pretendCores } from './many-cores.js';

const CORES = 32;

/** Returns the number of threads that autotuning chooses, and the number of trials.
 * @param {number} most started threads @param {(threads: number, trial: number) => number} time of a trial */
function chosen(most, time) {
  let trials = 0;
  const native = {
    threads: most,
    useThreads(/** @type {number} */ n) {
      assert.ok(n >= 2 && n <= most, `${n} of ${most} threads`);
      native.threads = n;
    },
  };
  chooseThreads(native, () => time(native.threads, trials++));
  return { threads: native.threads, trials };
}

/** Returns a function that returns how long a trial takes on cores with the given speeds, if faster cores take over
 * work from slower cores. @param {number[]} speeds */
const balanced = (speeds) => (/** @type {number} */ threads) => {
  const used = speeds.slice(0, threads);
  return 10 / used.reduce((sum, speed) => sum + speed, 0);
};
const equal = (/** @type {number} */ n) => Array(n).fill(1);

describe('the number of threads', () => {
  test('equals the number of cores if all are equally fast', () => {
    for (const cores of [3, 4, 6, 8, 12, 16, 64]) assert.equal(chosen(cores, balanced(equal(cores))).threads, cores);
  });

  test('equals the number of usable cores if fewer are usable than reported', () => {
    for (const usable of [2, 3, 4, 6, 8, 12]) {
      const time = (/** @type {number} */ n) => balanced(equal(usable))(n) * (n > usable ? 1.1 : 1);
      assert.equal(chosen(CORES, time).threads, usable);
    }
  });

  test('is two on one usable core', () => assert.equal(chosen(CORES, (n) => n).threads, 2));

  test('is the smaller one if a larger one gains little', () => {
    // Six threads, twice as many as three, gain nothing, so eight are not tried.
    assert.equal(chosen(8, (n) => (n > 6 ? 0.7 : n > 2 ? 1 : 2)).threads, 3);
    assert.equal(chosen(8, (n) => (n > 4 ? 0.7 : n > 2 ? 1 : 2)).threads, 6);
    assert.equal(chosen(8, (n) => (n > 4 ? 0.95 : n > 2 ? 1 : 2)).threads, 3);
    assert.equal(chosen(8, () => 1).threads, 2);
    // Each step gains little, but all steps together gain much.
    assert.equal(chosen(8, (n) => 1.2 ** -Math.log2(n)).threads, 8);
  });

  test('leaves out slow cores that delay the others, and includes the ones that help', () => {
    const big = [1, 1, 1, 1];
    /** Returns a function that returns how long a trial takes on cores with the given speeds, if each core does an
     * equal share of the work. @type {(speeds: number[]) => (threads: number) => number} */
    const delayed = (speeds) => (threads) => 10 / (threads * Math.min(...speeds.slice(0, threads)));
    assert.equal(chosen(8, delayed([...big, 0.4, 0.4, 0.4, 0.4])).threads, 4);
    assert.equal(chosen(8, delayed([...big, 1, 1, 0.4, 0.4])).threads, 6);
    assert.equal(chosen(16, delayed([...equal(12), 0.4, 0.4, 0.4, 0.4])).threads, 12);
    assert.equal(chosen(8, balanced([...big, 0.05, 0.05, 0.05, 0.05])).threads, 4);
    assert.equal(chosen(8, balanced([...big, 0.4, 0.4, 0.4, 0.4])).threads, 8);
  });

  test('does not depend on single interruptions, or on the speed changing meanwhile', () => {
    for (let k = 0; k < 20; k++) {
      const interrupted = (/** @type {number} */ n, /** @type {number} */ i) =>
        balanced(equal(4))(n) * (i === k ? 50 : 1);
      assert.equal(chosen(CORES, interrupted).threads, 4, `trial ${k}`);
    }
    for (const factor of [0.95, 1.05]) {
      assert.equal(chosen(CORES, (n, i) => balanced(equal(4))(n) * factor ** i).threads, 4, `factor ${factor}`);
    }
  });

  test('takes a bounded number of trials', () => {
    const { trials } = chosen(64, (n, i) => (i % 4 < 2 ? 3 : 2) / n + 4);
    assert.ok(trials <= 4 + 10 * 26, `${trials} trials`);
    // If not all reported cores can be used, autotuning ends at the first number of threads that is clearly slower.
    assert.ok(chosen(64, (n) => (n > 4 ? n : 4 / n)).trials <= 20 + 3 * 10);
  });
});

test('a platform that reports too many cores uses fewer of them, with the same answers', async (t) => {
  if (availableParallelism() >= CORES) return t.skip(`this machine has ${CORES} cores`);
  pretendCores(CORES);
  const options = { maxTokens: 40, seed: 3 };
  const [measured, given, one] = [
    await open(t, 'tiny', { threads: undefined }),
    await open(t, 'tiny', { threads: CORES }),
    await open(t, 'tiny', { threads: 1 }),
  ];
  const of = (/** @type {typeof given} */ { info }) => [info.threads, info.threadsMeasured];
  assert.deepEqual(
    [of(given), of(one)],
    [
      [CORES, false],
      [1, false],
    ],
  );
  const [threads, isMeasured] = of(measured);
  assert.ok(isMeasured && Number(threads) >= 2 && Number(threads) < CORES, `${threads} threads`);
  const answers = [];
  for (const model of [one, given, measured])
    answers.push(essence(await model.generate(someIds(70), options).result()));
  assert.deepEqual(answers[1], answers[0]);
  assert.deepEqual(answers[2], answers[0]);
});
