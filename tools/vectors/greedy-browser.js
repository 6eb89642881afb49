/** greedy-browser: runs greedy-page.js in Chromium, which loads the model from this checkout's server. */
import path from 'node:path';
import puppeteer from 'puppeteer-core';
import { CHROMIUM_FLAGS, at } from '../support/proc.js';
import { serve } from '../serve.js';
import { bundlePage } from '../build/package.js';
import { testEnvironment } from '../build/setup.js';

const PAGE = at('build', 'greedy', 'page');
const HTML =
  '<!doctype html><title>greedy</title><link rel="icon" href="data:,">' +
  '<script type="module" src="greedy-page.js"></script>';

/** @param {string} file @param {import('./greedy-follow.js').Led} led @param {number} threads
 * @returns {Promise<import('./greedy-follow.js').Followed & { version: string }>} */
export async function followInChromium(file, led, threads) {
  await bundlePage(PAGE, ['tools/vectors/greedy-page.js', 'js/worker.js', 'js/thread.js'], HTML);
  const { url, close } = await serve({ root: PAGE, mounts: { '/models/': path.dirname(path.resolve(file)) } });
  // puppeteer's network monitoring is off, because the browser would keep a copy of the model.
  const browser = await puppeteer.launch({
    executablePath: testEnvironment().GW_CHROMIUM,
    headless: true,
    args: CHROMIUM_FLAGS,
    protocolTimeout: 3600e3,
    networkEnabled: false,
  });
  try {
    const page = await browser.newPage();
    const address = `/models/${path.basename(file)}`;
    await page.goto(url);
    await page.waitForFunction('globalThis.follow && globalThis.crossOriginIsolated');
    const job = [address, threads, { prompt: led.prompt, ids: led.ids, seconds: led.seconds }];
    const found = /** @type {import('./greedy-follow.js').Followed} */ (
      await page.evaluate(`follow(...${JSON.stringify(job)})`)
    );
    return { ...found, version: await browser.version() };
  } finally {
    await browser.close();
    await close();
  }
}
