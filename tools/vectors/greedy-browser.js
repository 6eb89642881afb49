/** greedy-browser: greedy-page.js in Chromium, which loads the model by its address from this checkout's server. */
import path from 'node:path';
import puppeteer from 'puppeteer-core';
import { root } from '../proc.js';
import { serve } from '../serve.js';
import { testEnvironment } from '../setup.js';

const PAGE = '<!doctype html><title>greedy</title><link rel="icon" href="data:,">'
  + '<script type="module" src="/tools/vectors/greedy-page.js"></script>';
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

/** @param {string} file @param {import('./greedy-follow.js').Led} led @param {number} threads
 * @returns {Promise<import('./greedy-follow.js').Followed & { version: string }>} */
export async function followInChromium(file, led, threads) {
  const { url, close } = await serve({
    root, mounts: { '/models/': path.dirname(path.resolve(file)) },
    intercept: (request, response) => {
      if (request.url !== '/') return false;
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end(PAGE);
      return true;
    },
  });
  // Watching the network, the browser's tools would keep a copy of the model.
  const browser = await puppeteer.launch({ executablePath: testEnvironment().GW_CHROMIUM, headless: true, args: FLAGS,
    protocolTimeout: 3600e3, networkEnabled: false });
  try {
    const page = await browser.newPage(), address = `/models/${path.basename(file)}`;
    await page.goto(url);
    await page.waitForFunction('globalThis.follow && globalThis.crossOriginIsolated');
    const job = [address, threads, { prompt: led.prompt, ids: led.ids, seconds: led.seconds }];
    const found = /** @type {import('./greedy-follow.js').Followed} */ (
      await page.evaluate(`follow(...${JSON.stringify(job)})`));
    return { ...found, version: await browser.version() };
  } finally {
    await browser.close();
    await close();
  }
}
