/* many: measures the page with hundreds of long conversations: the time from a key press to the painted list or search
 * result, and the memory compared with a page that has few. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { randoms } from '../support/random.js';
import { PICKING, chooseFiles, launch, openTab, servePage, until } from '../e2e/helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

const TURNS = 200;
const SYLLABLES = 'ka to mi ren su la ven o dri pa nel u fo sha ge bri ti mor e zu'.split(' ');

/** Returns a function that draws words from a vocabulary of 20,000, with a skewed distribution as in real texts.
 * @param {() => number} draw */
function wordsFrom(draw) {
  const word = (/** @type {number} */ n) =>
    SYLLABLES[n % 20] + SYLLABLES[((n / 20) | 0) % 20] + SYLLABLES[(((n / 400) | 0) % 50) % 20] + ((n / 400) | 0);
  return (/** @type {number} */ count) =>
    Array.from({ length: count }, () => word(Math.floor(20_000 * draw() ** 4))).join(' ');
}

/** @param {number} count */
function file(count) {
  const draw = randoms(7);
  const text = wordsFrom(draw);
  const all = Array.from({ length: count }, (_, n) => ({
    title: `${text(5)} ${n}`,
    named: true,
    created: 1e12 + n,
    updated: 1e12 + n,
    said: Array.from({ length: 2 * TURNS }, (__, i) => ({
      id: `${n}-${i}`,
      parent: i ? `${n}-${i - 1}` : null,
      role: i % 2 ? 'assistant' : 'user',
      state: 'whole',
      text: text(i % 2 ? 60 : 12),
    })),
  }));
  return JSON.stringify({ format: 'gemma-wasm conversations', version: 1, conversations: all });
}

/** @param {Page} page @param {number} count */
async function takeIn(page, count) {
  const folder = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-many-'));
  const name = path.join(folder, 'all.json');
  writeFileSync(name, file(count));
  await chooseFiles(page, '#library-file', name);
  await page.waitForFunction(
    (n) => parseInt(document.querySelector('#library-said')?.textContent ?? '', 10) === n,
    { timeout: 600_000 },
    count,
  );
  rmSync(folder, { recursive: true });
}

/** Searches for words. Returns the sorted times from the key press to the painted list, in ms.
 * @param {Page} page @param {string[]} words */
const searches = (page, words) =>
  page.evaluate(async (all) => {
    const field = /** @type {HTMLInputElement} */ (document.querySelector('#library-search'));
    // Rendering the list replaces the text of `#library-none`, even if the list stays the same.
    const none = /** @type {HTMLElement} */ (document.querySelector('#library-none'));
    const times = [];
    for (const word of all) {
      const before = performance.now();
      const changed = new Promise((done) => {
        new MutationObserver((_, watch) => {
          watch.disconnect();
          done(null);
        }).observe(none, { childList: true });
      });
      field.value = word;
      field.dispatchEvent(new Event('input'));
      await changed;
      await new Promise((done) => {
        requestAnimationFrame(() => setTimeout(done, 0));
      });
      times.push(performance.now() - before);
    }
    return times.sort((a, b) => a - b);
  }, words);

/** Returns the bytes of the page's heap after garbage collection, NaN where the browser does not report them.
 * @param {Page} page */
async function heap(page) {
  if (/firefox/i.test(await page.browser().version())) return NaN;
  const session = await page.createCDPSession();
  await session.send('HeapProfiler.collectGarbage');
  return (await page.metrics()).JSHeapUsedSize ?? NaN;
}

/** Imports conversations and searches them. The row has the median and the longest of nine times in ms, and the heap
 * with five and with all conversations in MB.
 * @param {import('./cases.js').Run} run `count` is the number of conversations */
export async function run({ side, count, after }) {
  const server = await servePage();
  after(() => server.close());
  const browser = await launch(/** @type {any} */ (side), { protocolTimeout: 900_000 });
  after(() => browser.close());
  const tab = await openTab(browser, server.url);
  const { page } = tab;
  page.setDefaultTimeout(600_000);
  await until(page, PICKING);
  await page.click('#library-toggle');
  await takeIn(page, 5);
  await page.reload();
  await until(page, PICKING);
  const few = await heap(page);
  await takeIn(page, count - 5);
  await page.reload();
  await until(page, PICKING);
  await page.waitForSelector('.talk');
  const many = await heap(page);
  const text = wordsFrom(randoms(8));
  const nine = (/** @type {() => string} */ make) => searches(page, Array.from({ length: 9 }, make));
  const list = await nine(() => '');
  const found = await nine(() => text(2));
  const beginnings = await nine(() => text(1).slice(0, 3));
  await tab.close();
  const row = [side, ...[list, found, beginnings].map(median), ...[few, many].map(megabytes)];
  return { counts: { row: row.join(', ') }, rows: [row] };
}

const median = (/** @type {number[]} */ times) => `${times[4].toFixed(0)} / ${times[8].toFixed(0)} ms`;
const megabytes = (/** @type {number} */ bytes) =>
  Number.isNaN(bytes) ? 'not reported' : `${(bytes / 1e6).toFixed(1)} MB`;
