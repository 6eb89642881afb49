/* aborts: how long an aborted embed() takes, with EmbeddingGemma's true shape (random weights), at random moments.
 *   node tests/lab/aborts.js [--count 50] [--sides node,chromium,firefox] [--threads 2] [--write]
 * write: the table of docs/limits.md. */
import { dirname, basename } from 'node:path';
import { parseArgs } from 'node:util';
import { loadModel } from '../../js/index.node.js';
import { serveBuilt } from '../e2e/built.js';
import { launch } from '../e2e/helpers.js';
import { keep } from './tables.js';
import { testModel } from '../js/models.js';
import { WORK, abortions } from './aborting.js';

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '50' },
    sides: { type: 'string', default: 'node,chromium,firefox' },
    threads: { type: 'string', default: '2' },
    write: { type: 'boolean', default: false },
  },
});
const count = Number(values.count);
const options = { threads: Number(values.threads), contextLength: 2048 };

/** How a side aborts some work. @typedef {{ name: string, run: (work: string) => Promise<import('./aborting.js').Times>,
 *   close: () => Promise<void> }} Side */

/** @param {string} file @returns {Promise<Side>} */
async function nodeSide(file) {
  const model = await loadModel(file, options);
  return {
    name: `Node ${process.versions.node.split('.')[0]}`,
    run: (work) => abortions(model, WORK[work], count),
    close: () => model.dispose(),
  };
}

/** @param {'chromium' | 'firefox'} name @param {string} file @returns {Promise<Side>} */
async function browserSide(name, file) {
  const server = await serveBuilt({ mounts: { '/models/': dirname(file) } });
  const browser = await launch(name, { protocolTimeout: 600_000 });
  const page = await browser.newPage();
  await page.goto(server.url);
  await page.waitForFunction('window.gemma', { polling: 20 });
  await page.evaluate(
    async (url, how) => {
      const here = /** @type {any} */ (window);
      here.model = await here.gemma.loadModel(new URL(url, location.href), { cache: false, ...how });
    },
    `models/${basename(file)}`,
    options,
  );
  return {
    name,
    run: (work) =>
      page.evaluate(
        (what, times) => {
          const {
            gemma: { aborting },
            model,
          } = /** @type {any} */ (window);
          return aborting.abortions(model, aborting.WORK[what], times);
        },
        work,
        count,
      ),
    async close() {
      await browser.close();
      await server.close();
    },
  };
}

/** The median, nine of ten, and the greatest. @param {number[]} list */
function shown(list) {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (/** @type {number} */ share) => sorted[Math.ceil(share * sorted.length) - 1];
  return [0.5, 0.9, 0.99, 1].map((share) => at(share).toFixed(1)).join(' | ');
}

const file = await testModel('embed-300m');
const lines = [
  '| side | what was aborted | threads | moments | told after, ms: p50 | p90 | p99 | most | free after, ms: p50 | p90 | p99 | most |',
  `|---|---|${'---:|'.repeat(10)}`,
];
for (const name of values.sides.split(',')) {
  const side = name === 'node' ? await nodeSide(file) : await browserSide(/** @type {any} */ (name), file);
  for (const work of Object.keys(WORK)) {
    const { told, free } = await side.run(work);
    lines.push(`| ${side.name} | ${work} | ${options.threads} | ${count} | ${shown(told)} | ${shown(free)} |`);
    console.log(lines.at(-1));
  }
  await side.close();
  if (values.write) keep('limits.md', 'aborts', lines, 3);
}
