/**
 * first: how long a visitor waits, from the address to the first paint, to the storyteller, and to its first word, when
 * a suggestion is pressed as soon as it is there; at the first visit and at the next. The site of `npm run build`, from
 * this machine. Then whether the look inside costs anything while it is closed: answers of a page where it was never
 * opened, whose code is not there, and of one where it was opened and closed, in turns.
 *
 *   node tests/e2e/first.js [--browser chromium,firefox] [--visits 7] [--pairs 20] [--write]
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { serve } from '../../tools/serve.js';
import { ANSWERED, BROWSERS, READY, launch, openTab, root, setOptions, until } from './helpers.js';
import { keep } from './tables.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {{ paint: number, ready: number, word: number }} Visit */

const { values } = parseArgs({ options: {
  browser: { type: 'string', default: BROWSERS.join(',') }, visits: { type: 'string', default: '7' },
  pairs: { type: 'string', default: '20' }, write: { type: 'boolean', default: false },
} });
const SITE = join(root, 'site');
if (!existsSync(join(SITE, 'index.html'))) throw new Error('there is no site/: npm run build');

/** @param {number[]} all @param {number} [share] */
const quantile = (all, share = 0.5) => all.toSorted((a, b) => a - b)[Math.floor((all.length - 1) * share)];

/** Runs in the page before its scripts. */
function watch() {
  const seen = Object.assign(window, { seen: { ready: 0, word: 0 } }).seen;
  new MutationObserver(() => {
    const first = /** @type {HTMLElement | null} */ (document.querySelector('body[data-state="ready"] .suggestions button'));
    if (first && !seen.ready) {
      seen.ready = performance.now();
      first.click();
    }
    if (!seen.word && /\S/.test(document.querySelector('.from-model .md')?.textContent ?? '')) seen.word = performance.now();
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
}

/** @param {Page} page @returns {Promise<Visit>} */
async function seen(page) {
  await page.waitForFunction(() => /** @type {any} */ (window).seen?.word
    && performance.getEntriesByName('first-contentful-paint').length, { timeout: 60000 });
  return page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime, .../** @type {any} */ (window).seen,
  }));
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url */
async function visits(browser, url) {
  /** @type {Visit[][]} */
  const [first, next] = [[], []];
  for (let i = 0; i < Number(values.visits); i++) {
    const { page, close } = await openTab(browser, url, { before: watch });
    first.push(await seen(page));
    await page.goto(url);
    next.push(await seen(page));
    await close();
  }
  return { first, next };
}

/** Tokens a second of a story, as the page tells them. @param {Page} page @param {number} seed */
async function speed(page, seed) {
  await page.bringToFront();
  await page.click('#new-chat');
  await setOptions(page, { maxTokens: 400, temperature: 1, seed });
  await page.click('.suggestions button');
  await until(page, ANSWERED, 60000);
  const said = await page.$eval('.from-model:last-child .stats', (one) => one.textContent ?? '');
  return Number(/([\d.,]+)\stokens\/s/.exec(said)?.[1].replaceAll(',', ''));
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url */
async function closed(browser, url) {
  const tabs = [await openTab(browser, url), await openTab(browser, url)], [without, after] = tabs.map(({ page }) => page);
  for (const { page } of tabs) await until(page, READY);
  await speed(without, 1);
  await speed(after, 1);
  await after.click('#look-toggle');
  await until(after, '#inside-panel:not([aria-busy]) > *');
  await after.click('#look-toggle');
  /** @type {number[][]} */
  const [a, b] = [[], []];
  for (let i = 0; i < Number(values.pairs); i++) {
    const turns = [async () => a.push(await speed(without, i)), async () => b.push(await speed(after, i))];
    for (const turn of i % 2 ? turns.reverse() : turns) await turn();
  }
  for (const tab of tabs) await tab.close();
  return { without: a, after: b, ratios: a.map((one, i) => b[i] / one) };
}

const waits = ['| browser | visit | first paint | storyteller | first word |', '|---|---|---:|---:|---:|'];
const costs = ['| browser | never opened | opened and closed | ratio, median | quartiles |', '|---|---:|---:|---:|---:|'];
const server = await serve({ root: SITE });
for (const name of values.browser.split(',')) {
  const browser = await launch(/** @type {any} */ (name)), found = await visits(browser, server.url);
  for (const [visit, all] of Object.entries(found)) {
    const ms = (/** @type {keyof Visit} */ key) => `${quantile(all.map((one) => one[key])).toFixed(0)} ms`;
    waits.push(`| ${name} | ${visit} | ${ms('paint')} | ${ms('ready')} | ${ms('word')} |`);
  }
  const { without, after, ratios } = await closed(browser, server.url);
  const [low, high] = [0.25, 0.75].map((share) => quantile(ratios, share).toFixed(3));
  costs.push(`| ${name} | ${quantile(without).toFixed(0)} tokens/s | ${quantile(after).toFixed(0)} tokens/s `
    + `| ${quantile(ratios).toFixed(3)} | ${low} to ${high} |`);
  await browser.close();
}
await server.close();
console.log([...waits, '', ...costs].join('\n'));
if (values.write) keep('page.md', 'first', waits, 2);
