/**
 * lanes: jobs that run side by side, because most of them use one processor or wait. Knows nothing of what
 * they do.
 */
import { availableParallelism } from 'node:os';

/**
 * @typedef {object} Job
 * @property {() => Promise<void>} run
 * @property {boolean} inTurn    no other of these runs beside it
 * @property {boolean} long      begins before those that are not
 */

/**
 * Runs all, in three lanes, one more than most machines here have processors: what waits leaves none idle. The
 * first takes those in turn, and when there are none left what the others take: the rest, the long ones first.
 * @param {Job[]} jobs @param {number} [processors]
 */
export async function inLanes(jobs, processors = availableParallelism()) {
  const inTurn = jobs.filter((job) => job.inTurn);
  const free = jobs.filter((job) => !job.inTurn);
  const rest = [...free.filter(({ long }) => long), ...free.filter(({ long }) => !long)];
  const lane = async (/** @type {Job[][]} */ ...lists) => {
    for (const list of lists) {
      for (let job = list.shift(); job; job = list.shift()) await job.run();
    }
  };
  const first = lane(inTurn, rest);
  await Promise.all(processors > 1 ? [first, lane(rest), lane(rest)] : [first]);
}
