/** browser: starts browsers for the benchmark, serves their page and measures their memory. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import puppeteer from 'puppeteer-core';
import { PARTS, bundlePage } from '../build/package.js';
import { CHROMIUM_FLAGS, Trouble, at } from '../support/proc.js';
import { serve } from '../serve.js';
import { testEnvironment } from '../build/setup.js';
import { MODULES as PEERS } from './peers.js';

const PAGE = at('build', 'bench-page');
const DRIVERS = [
  'gemma-page',
  'wllama2',
  'wllama3',
  'node-llama-wasm',
  'neighbour',
  'reads',
  'reads-thread',
  'embed',
  'formats',
  'copyset',
  'onnx',
];
const ENTRIES = [
  'tools/bench/page.js',
  ...['thread.js', ...PARTS].map((name) => `js/${name}`),
  ...DRIVERS.map((name) => `tools/bench/drivers/${name}.js`),
];
/** Time limit of a measurement in milliseconds. A peer with one thread needs minutes for 1024 tokens. */
const TIMEOUT = 3600e3;

/** @param {string} [worker] script of the engine worker */
export function buildPage(worker = 'js/worker.js') {
  return bundlePage(PAGE, [worker, ...ENTRIES], readFileSync(at('tools', 'bench', 'page.html'), 'utf8'));
}

/** Serves the benchmark's page. Without `isolation` (COOP and COEP headers), the page has no shared memory. There is no
 * content security policy, because the peers start workers from blobs.
 * @param {string} model @param {boolean} isolation */
export function servePage(model, isolation) {
  return serve({
    root: PAGE,
    mounts: { '/models/': dirname(model), '/peers/': PEERS },
    isolation,
    headers: { 'Content-Security-Policy': '' },
  });
}

/** @param {'chromium' | 'firefox'} name */
export function launch(name) {
  const { GW_CHROMIUM, GW_FIREFOX } = testEnvironment();
  const executablePath = name === 'firefox' ? GW_FIREFOX : GW_CHROMIUM;
  if (!executablePath) throw new Trouble(`${name} was not found.`);
  // puppeteer's network monitoring is off, because browsers would keep copies of fetched bytes, up to 200 MB. This
  // takes half of the loading time.
  const common = { executablePath, headless: true, protocolTimeout: TIMEOUT, networkEnabled: false };
  if (name === 'firefox') return puppeteer.launch({ ...common, browser: 'firefox' });
  return puppeteer.launch({ ...common, args: CHROMIUM_FLAGS });
}

/** @param {import('puppeteer-core').Page} page @param {string} url @param {object} job */
export async function ask(page, url, job) {
  await page.goto(url);
  await page.waitForFunction('globalThis.bench');
  return page.evaluate(`bench(${JSON.stringify(job)})`);
}

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
