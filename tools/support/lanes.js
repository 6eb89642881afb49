/** lanes: runs jobs in parallel, because most of them use one processor or wait. */
import { availableParallelism } from 'node:os';

/**
 * @typedef {object} Job
 * @property {() => Promise<void>} run
 * @property {'turn' | 'pair' | 'free'} beside   turn: runs first, never together with another `turn` or a `pair`; pair:
 * at most two run at once; free: runs together with any job
 * @property {number} expected   duration, in any unit: longer `free` jobs start first
 */

/**
 * Runs all jobs. A lane runs one job at a time. There are two more lanes than processors, so that no processor is idle
 * while a job waits. The first lane runs the `turn` jobs, then the first two lanes run the `pair` jobs. The other
 * lanes, and finally these two, run the `free` jobs, longest first.
 * @param {Job[]} jobs @param {number} [processors]
 */
export async function inLanes(jobs, processors = availableParallelism()) {
  const of = (/** @type {Job['beside']} */ beside) => jobs.filter((job) => job.beside === beside);
  const turns = of('turn');
  const pairs = of('pair');
  const free = of('free').sort((a, b) => b.expected - a.expected);
  let left = turns.length;
  const lane = async (/** @type {() => Job | undefined} */ take) => {
    for (let job = take(); job; job = take()) await job.run();
  };
  const rest = () => lane(() => pairs.shift() ?? free.shift());
  const inTurn = lane(() => turns[turns.length - left--]);
  if (processors === 1) return inTurn.then(rest);
  // The second lane runs the last (short) `free` jobs until the `turn` jobs are done.
  const short = lane(() => (left > 0 ? free.pop() : undefined));
  await Promise.all([
    inTurn.then(rest),
    Promise.all([inTurn, short]).then(rest),
    ...Array.from({ length: processors }, () => lane(() => free.shift())),
  ]);
}
