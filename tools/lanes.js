/**
 * lanes: jobs that run two at a time, because most of them use one processor or wait. Knows nothing of what
 * they do.
 */
import { availableParallelism } from 'node:os';

/**
 * @typedef {object} Job
 * @property {() => Promise<void>} run
 * @property {boolean} alone     nothing runs beside it
 * @property {boolean} inTurn    no other of these runs beside it
 * @property {boolean} long      begins before those that are not
 */

/**
 * Runs all: those alone, then two lanes. The first takes those in turn, and when there are none left what
 * the second takes: the others, the long ones first.
 * @param {Job[]} jobs @param {number} [processors]
 */
export async function inLanes(jobs, processors = availableParallelism()) {
  for (const job of jobs.filter(({ alone }) => alone)) await job.run();
  const inTurn = jobs.filter((job) => job.inTurn && !job.alone);
  const free = jobs.filter((job) => !job.inTurn && !job.alone);
  const rest = [...free.filter(({ long }) => long), ...free.filter(({ long }) => !long)];
  const lane = async (/** @type {Job[][]} */ ...lists) => {
    for (const list of lists) {
      for (let job = list.shift(); job; job = list.shift()) await job.run();
    }
  };
  const first = lane(inTurn, rest);
  await Promise.all([first, processors > 1 ? lane(rest) : first]);
}
