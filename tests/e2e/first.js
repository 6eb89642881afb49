/**
 * first: measures the time from navigation until the first paint, until the storyteller model is ready, and until its
 * first word if a suggestion is pressed at once, on the first visit and on the next one. The page is site/ as `npm run
 * build` makes it.
 *
 * Then measures whether a closed inspection panel slows answers. Tabs differ in speed, so each one is compared with
 * itself: the best speed of some stories before and after all views of the panel are opened. Control tabs do the same
 * without the panel.
 *
 *   node tests/e2e/first.js [--browser chromium,firefox] [--visits 7] [--pairs 8] [--stories 5] [--write]
 *
 * `--visits 0` skips the first measurement, `--pairs 0` the second.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { serve } from '../../tools/serve.js';
import { ANSWERED, BROWSERS, READY, launch, openTab, root, setOptions, until } from './helpers.js';
import { keep } from '../lab/tables.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {{ paint: number, ready: number, word: number }} Visit */

const { values } = parseArgs({
  options: {
    browser: { type: 'string', default: BROWSERS.join(',') },
    visits: { type: 'string', default: '7' },
    pairs: { type: 'string', default: '8' },
    stories: { type: 'string', default: '5' },
    write: { type: 'boolean', default: false },
  },
});
const SITE = join(root, 'site');
if (!existsSync(join(SITE, 'index.html'))) throw new Error('site/ is missing. Run npm run build.');

/** Returns a quantile, interpolated between the two nearest values. @param {number[]} all @param {number} [share] */
function quantile(all, share = 0.5) {
  const sorted = all.toSorted((a, b) => a - b);
  const at = (all.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.ceil(at)] - sorted[low]);
}

/** Runs in the page before its scripts: presses the first suggestion, and records the times at which this suggestion
 * and the answer's first word appear. */
function watch() {
  const seen = Object.assign(window, { seen: { ready: 0, word: 0 } }).seen;
  new MutationObserver(() => {
    const first = /** @type {HTMLElement | null} */ (
      document.querySelector('body[data-state="ready"] .suggestions button')
    );
    if (first && !seen.ready) {
      seen.ready = performance.now();
      first.click();
    }
    if (!seen.word && /\S/.test(document.querySelector('.from-model .md')?.textContent ?? ''))
      seen.word = performance.now();
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
}

/** @param {Page} page @returns {Promise<Visit>} */
async function seen(page) {
  await page.waitForFunction(
    () => /** @type {any} */ (window).seen?.word && performance.getEntriesByName('first-contentful-paint').length,
    { timeout: 60000 },
  );
  return page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    .../** @type {any} */ (window).seen,
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

/** @param {Page} page @param {number} seed */
async function speed(page, seed) {
  await page.bringToFront();
  await page.click('#new-chat');
  await setOptions(page, { maxTokens: 400, temperature: 1, seed });
  await page.click('.suggestions button');
  await until(page, ANSWERED, 60000);
  const said = await page.$eval('.from-model:last-child .stats', (one) => one.textContent ?? '');
  return Number(/([\d.,]+)\stokens\/s/.exec(said)?.[1].replaceAll(',', ''));
}

/** @param {Page} page */
async function look(page) {
  await page.click('#look-toggle');
  await page.waitForSelector('#inside-words');
  for (const view of ['words', 'layers', 'attention', 'walk', 'tokens']) {
    await page.click(`#inside-${view}`);
    await until(page, '#inside-panel:not([aria-busy]) > *', 60000);
  }
  await page.click('#look-toggle');
}

/** Measures the speed of stories in a new tab before and after the action `between`. Returns the speed before, and the
 * speed after divided by the speed before. @param {import('puppeteer-core').Browser} browser @param {string} url
 * @param {(page: Page) => Promise<unknown>} between */
async function halves(browser, url, between) {
  const { page, close } = await openTab(browser, url);
  await until(page, READY);
  const stories = async () => {
    const all = [];
    for (let seed = 1; seed <= Number(values.stories); seed++) all.push(await speed(page, seed));
    return Math.max(...all); // Other load on the machine can only lower a speed.
  };
  for (const seed of [101, 102]) await speed(page, seed); // warm-up: the browser optimises the engine's code
  const before = await stories();
  await between(page);
  const after = await stories();
  await close();
  return { before, ratio: after / before };
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url */
async function closed(browser, url) {
  /** @type {Awaited<ReturnType<typeof halves>>[][]} */
  const [looked, not] = [[], []];
  for (let i = 0; i < Number(values.pairs); i++) {
    const turns = [
      async () => looked.push(await halves(browser, url, look)),
      async () => not.push(await halves(browser, url, async () => {})),
    ];
    for (const turn of i % 2 ? turns.reverse() : turns) await turn();
  }
  return { looked, not };
}

/** @param {string} name @param {string} tab @param {number[]} ratios @param {number[]} [before] */
function cost(name, tab, ratios, before) {
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(3));
  return `| ${name} | ${tab} | ${before ? `${quantile(before).toFixed(0)} tokens/s` : ''} | ${middle} | ${low} to ${high} |`;
}

/** @param {import('puppeteer-core').Browser} browser @param {string} name @param {string} url */
async function waitsIn(browser, name, url) {
  return Object.entries(await visits(browser, url)).map(([visit, all]) => {
    const ms = (/** @type {keyof Visit} */ key) => `${quantile(all.map((one) => one[key])).toFixed(0)} ms`;
    return `| ${name} | ${visit} | ${ms('paint')} | ${ms('ready')} | ${ms('word')} |`;
  });
}

/** @param {import('puppeteer-core').Browser} browser @param {string} name @param {string} url */
async function costsIn(browser, name, url) {
  const { looked, not } = await closed(browser, url);
  const [opened, alone] = [looked, not].map((all) => ({
    before: all.map(({ before }) => before),
    ratios: all.map(({ ratio }) => ratio),
  }));
  return [
    cost(name, 'opened and closed', opened.ratios, opened.before),
    cost(name, 'not opened', alone.ratios, alone.before),
    cost(
      name,
      'the one by the other',
      opened.ratios.map((one, i) => one / alone.ratios[i]),
    ),
  ];
}

const waits = ['| browser | visit | first paint | storyteller | first word |', '|---|---|---:|---:|---:|'];
const costs = [
  '| browser | the look inside | before | after / before, median | quartiles |',
  '|---|---|---:|---:|---:|',
];
const server = await serve({ root: SITE });
for (const name of values.browser.split(',')) {
  const browser = await launch(/** @type {any} */ (name));
  if (values.visits !== '0') waits.push(...(await waitsIn(browser, name, server.url)));
  if (values.pairs !== '0') costs.push(...(await costsIn(browser, name, server.url)));
  await browser.close();
}
await server.close();
for (const table of [waits, costs]) if (table.length > 2) console.log(`${table.join('\n')}\n`);
if (values.write) keep('reports/page.md', 'first', waits.slice(2), 2);
