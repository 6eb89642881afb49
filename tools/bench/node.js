/** node: measures one runtime of the benchmark in a separate Node process, `node node.js JOB` (JSON). Sends the result
 * by IPC. */
import { measure } from './measure.js';

const job = JSON.parse(process.argv[2]);
process.on('disconnect', () => process.exit(1)); // ends when the parent process has ended

/** @param {object} answer */
const finish = (answer) => process.send?.(answer, () => process.exit(0));

try {
  const { open, answer } = await import(`./drivers/${job.driver}.js`);
  const found = await (answer ? answer(job) : measure(open, job));
  finish({ ...found, memory: process.resourceUsage().maxRSS * 1024 });
} catch (error) {
  finish({ error: error instanceof Error ? error.message : String(error) });
}
