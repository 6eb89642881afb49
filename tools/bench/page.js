/** page: measures one runtime of the benchmark in a browser. The program that opens the page calls bench(job). */
import { measure } from './measure.js';

/** @param {import('./measure.js').Job} job */
async function bench(job) {
  const address = `./${job.driver}.js`; // a path inlined in import() would make the bundler include all matching files
  const { open, answer } = await import(address);
  return answer ? answer(job) : measure(open, job);
}

Object.assign(globalThis, { bench });
