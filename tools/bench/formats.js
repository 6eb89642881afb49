/**
 * bench/formats: measures how constraints change the speed of answers in Node or a browser. Greedily generates free
 * text, and answers under three everyday schemas (an address card, a list of five records, a tool call) with and
 * without jump-forward, alternately. Weights are random by default, so strings in the schemas are bounded. Prints
 * medians of two rates and their ratios to free text: tokens per second since the call, and after the first drawn
 * token (tokens before it are evaluated with the prompt).
 *
 *   node tools/bench/formats.js [--model NAME|PATH] [--where node|chromium|firefox] [--variant relaxed|simd128]
 *                               [--threads 2] [--rounds 3] [--tokens 48]
 */
import { existsSync } from 'node:fs';
import { testModel } from '../../tests/js/models.js';
import { askBrowser, buildPage } from './browser.js';
import { FREE, answer } from './drivers/formats.js';
import { median } from './table.js';
import { cli, parseOptions } from '../support/proc.js';

/** @import { Answer, Found, Job } from './drivers/formats.js' */

/** @param {string} where @param {Job} job @returns {Promise<Found>} */
async function measure(where, job) {
  if (where !== 'chromium' && where !== 'firefox') return answer(job);
  await buildPage();
  return askBrowser(where, job.model, { ...job, driver: 'formats' });
}

/** @param {Answer[]} row @param {Answer[]} free @param {(one: Answer) => number} rate */
function share(row, free, rate) {
  const own = median(row.map(rate)) ?? NaN;
  const other = median(free.map(rate)) ?? NaN;
  return `${own.toFixed(2)} tokens/s (${(own / other).toFixed(2)} x)`;
}

await cli(async () => {
  const { values } = parseOptions({
    model: 'oneb-q4_0',
    where: 'node',
    variant: 'auto',
    threads: 2,
    rounds: 3,
    tokens: 48,
  });
  const model = existsSync(values.model) ? values.model : await testModel(values.model);
  const { where, threads } = values;
  const found = await measure(where, { ...values, model });
  console.log(`${where}, ${found.variant}, threads: ${threads}`);
  for (const [name, row] of Object.entries(found.answers)) {
    const free = found.answers[FREE];
    const [{ tokens: count, forced }] = row;
    console.log(
      `${name}: ${share(row, free, (one) => one.tokens / one.seconds)}, after the first ` +
        `${share(row, free, (one) => one.rate)}; ${count} tokens, ${forced} of them jump-forward tokens`,
    );
  }
});
