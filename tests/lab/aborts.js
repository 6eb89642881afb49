/* aborts: measures how long embed() takes to end when it is aborted at random moments, with random weights in
 * EmbeddingGemma's shape. */
import { readFile } from 'node:fs/promises';
import { testModel } from '../js/models.js';
import { WORK } from './aborting.js';
import { openLab, openPlace } from './place.js';

const THREADS = 2;

/** @param {number[]} times */
function percentiles(times) {
  const sorted = times.toSorted((a, b) => a - b);
  return [0.5, 0.9, 0.99, 1].map((share) => sorted[Math.ceil(share * sorted.length) - 1].toFixed(1));
}

/** Aborts each kind of work `count` times. Rows have the 50th, 90th, 99th and 100th percentile in ms of both times that
 * abortions() returns.
 * @param {import('./cases.js').Run} run */
export async function run({ side, count, seed, after }) {
  const lab = await openLab(await readFile(await testModel('embed-300m')));
  after(lab.close);
  const place = await openPlace(side, lab);
  after(place.close);
  const { call } = await place.member();
  await call('open', { threads: THREADS, contextLength: 2048, cache: false });
  const rows = [];
  for (const what of Object.keys(WORK)) {
    const { told, free } = await call('abortions', what, count, seed);
    rows.push([place.name, what, THREADS, count, ...percentiles(told), ...percentiles(free)]);
  }
  return { counts: { rows: rows.map((row) => row.join(' ')) }, rows };
}
