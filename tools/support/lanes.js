/**
 * lanes: jobs that run side by side, because most of them use one processor or wait. Knows nothing of what
 * they do.
 */
import { availableParallelism } from 'node:os';

/**
 * @typedef {object} Job
 * @property {() => Promise<void>} run
 * @property {'turn' | 'pair' | 'free'} beside   turn: first, and none of these and of the pairs beside it;
 *   pair: at most two of these at once; free: beside anything
 * @property {boolean} long      of those that are free: begins before those that are not
 */

/**
 * Runs all, in two lanes more than there are processors: what waits leaves none idle. The first takes those in turn;
 * when there are none left, it and the second take the pairs; then all take what is free, the long ones first.
 * @param {Job[]} jobs @param {number} [processors]
 */
export async function inLanes(jobs, processors = availableParallelism()) {
  const of = (/** @type {Job['beside']} */ beside) => jobs.filter((job) => job.beside === beside);
  const turns = of('turn');
  const pairs = of('pair');
  const free = of('free').sort((a, b) => Number(b.long) - Number(a.long));
  let left = turns.length;
  const lane = async (/** @type {() => Job | undefined} */ take) => {
    for (let job = take(); job; job = take()) await job.run();
  };
  const rest = () => lane(() => pairs.shift() ?? free.shift());
  const inTurn = lane(() => turns[turns.length - left--]);
  if (processors === 1) return inTurn.then(rest);
  // The second lane takes short ones until it may take pairs.
  const short = lane(() => (left > 0 ? free.pop() : undefined));
  await Promise.all([
    inTurn.then(rest),
    Promise.all([inTurn, short]).then(rest),
    ...Array.from({ length: processors }, () => lane(() => free.shift())),
  ]);
}
