/**
 * lanes: runs jobs in parallel, because most of them use one processor or wait.
 */
import { availableParallelism } from 'node:os';

/**
 * @typedef {object} Job
 * @property {() => Promise<void>} run
 * @property {'turn' | 'pair' | 'free'} beside   turn: runs first, never together with another `turn` or a `pair`; pair:
 * at most two run at once; free: runs together with any job
 * @property {boolean} long      starts before the other free ones
 */

/**
 * Runs all jobs, in two lanes more than processors, so that waiting jobs leave none idle. The first lane takes the turns;
 * then it and the second take the pairs; then all take the free ones, the long ones first.
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
