/** browser: builds and serves the benchmark's page, runs jobs in it, and measures the memory of browsers. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { PARTS, bundlePage } from '../build/package.js';
import { withPage } from '../support/browser.js';
import { at } from '../support/proc.js';
import { serve } from '../serve.js';
import { MODULES as PEERS } from './peers.js';

const PAGE = at('build', 'bench-page');
const DRIVERS = [
  'gemma',
  'wllama2',
  'wllama3',
  'node-llama-wasm',
  'neighbour',
  'reads',
  'reads-thread',
  'embed',
  'formats',
  'copyset',
  'greedy',
  'onnx',
];
const ENTRIES = [
  'tools/bench/page.js',
  ...['thread.js', ...PARTS].map((name) => `js/${name}`),
  ...DRIVERS.map((name) => `tools/bench/drivers/${name}.js`),
];

/** Bundles the benchmark's page and all drivers into build/bench-page/.
 * @param {string} [worker] script of the engine worker */
export function buildPage(worker = 'js/worker.js') {
  return bundlePage(PAGE, [worker, ...ENTRIES], readFileSync(at('tools', 'bench', 'page.html'), 'utf8'));
}

/** Serves the benchmark's page and a model file while `use` runs, which gets their addresses. Without `isolation` (COOP
 * and COEP headers), the page has no shared memory. There is no content security policy, because the peers start
 * workers from blobs.
 * @template T @param {string} file @param {boolean} isolation
 * @param {(url: string, model: string) => Promise<T>} use */
export async function withServer(file, isolation, use) {
  const { url, close } = await serve({
    root: PAGE,
    mounts: { '/models/': dirname(file), '/peers/': PEERS },
    isolation,
    headers: { 'Content-Security-Policy': '' },
  });
  try {
    return await use(url, `${url}models/${basename(file)}`);
  } finally {
    await close();
  }
}

/** Runs a job in the benchmark's page. @param {import('puppeteer-core').Page} page @param {string} url
 * @param {object} job @returns {Promise<any>} */
export async function ask(page, url, job) {
  await page.goto(url);
  await page.waitForFunction('globalThis.bench');
  return page.evaluate(`bench(${JSON.stringify(job)})`);
}

/** Runs a job in the benchmark's page in a new browser. The job gets the address of the model file.
 * @param {'chromium' | 'firefox'} name @param {string} file @param {object} job @param {boolean} [isolation] */
export const askBrowser = (name, file, job, isolation = true) =>
  withServer(file, isolation, (url, model) => withPage(name, (page) => ask(page, url, { ...job, model })));

/** @param {string} status @param {string} name */
const field = (status, name) => Number(status.match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))?.[1] ?? NaN);

function processes() {
  /** @type {Map<number, { parent: number, peak: number, command: string }>} */
  const all = new Map();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8');
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ');
      all.set(Number(name), { parent: field(status, 'PPid'), peak: field(status, 'VmHWM') * 1024, command });
    } catch {
      /* the process has ended since /proc was listed */
    }
  }
  return all;
}

/** Returns the peak resident bytes of a browser's largest content process; undefined except on Linux.
 * @param {import('puppeteer-core').Browser} browser @returns {number | undefined} */
export function contentPeak(browser) {
  const root = browser.process()?.pid;
  if (!root || !existsSync('/proc/self/status')) return undefined;
  const all = processes();
  const ours = (/** @type {number} */ id) => {
    for (let at = id; at > 1; at = all.get(at)?.parent ?? 0) if (at === root) return true;
    return false;
  };
  const isContent = (/** @type {string} */ command) => /--type=renderer|-contentproc/.test(command);
  const peaks = [...all].filter(([id, { command }]) => isContent(command) && ours(id)).map(([, p]) => p.peak);
  return peaks.length ? Math.max(...peaks) : undefined;
}
