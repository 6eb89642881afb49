/**
 * bench/inside: times the opening of the page's inspection panel in browsers, from the click until it shows numbers:
 * the first time, when its code is fetched, and later. Also times its views. Needs build/page with the storyteller.
 *
 *   node tools/bench/inside.js [--browser chromium|firefox] [--tokens 200] [--times 7]
 */
import { ANSWERED, BROWSERS, READY, launch, openTab, servePage, setOptions, until } from '../../tests/e2e/helpers.js';
import { cli, parseOptions } from '../support/proc.js';
import { median } from './table.js';

/** @param {import('puppeteer-core').Page} page @param {string} button CSS selector */
function timed(page, button) {
  return page.evaluate(
    (selector) =>
      new Promise((resolve) => {
        const before = performance.now();
        const done = () => {
          const panel = document.querySelector('#inside-panel');
          const there = panel?.querySelector('.bars li, .said, .pieces li, .step');
          if (!there || panel?.hasAttribute('aria-busy')) return;
          seen.disconnect();
          requestAnimationFrame(() => resolve(performance.now() - before));
        };
        const seen = new MutationObserver(done);
        seen.observe(document.body, { subtree: true, childList: true, attributes: true });
        /** @type {HTMLElement} */ (document.querySelector(selector)).click();
      }),
    button,
  );
}

/** @param {import('puppeteer-core').Browser} browser @param {string} url @param {number} tokens
 * @param {number} times */
async function measure(browser, url, tokens, times) {
  const first = [];
  const again = [];
  /** @type {Record<string, number>} */
  const views = {};
  for (let i = 0; i < times; i++) {
    const { page, close } = await openTab(browser, url);
    await until(page, READY);
    await setOptions(page, { maxTokens: tokens, seed: i + 1 });
    await page.click('.suggestions button');
    await until(page, ANSWERED);
    first.push(await timed(page, '#look-toggle'));
    await page.click('#look-toggle');
    again.push(await timed(page, '#look-toggle'));
    if (i === times - 1) {
      for (const view of ['layers', 'attention', 'walk', 'tokens', 'words']) {
        views[view] = await timed(page, `#inside-${view}`);
      }
    }
    await close();
  }
  return { first: median(first), slowest: Math.max(...first), again: median(again), views };
}

await cli(async () => {
  const { values } = parseOptions({ browser: '', tokens: 200, times: 7 });
  const server = await servePage({ storyteller: 'storyteller.gguf' });
  for (const name of BROWSERS.filter((one) => !values.browser || one === values.browser)) {
    const browser = await launch(name);
    const found = await measure(browser, server.url, values.tokens, values.times);
    await browser.close();
    console.log(
      name,
      JSON.stringify(found, (_, value) => (typeof value === 'number' ? Math.round(value) : value)),
    );
  }
  await server.close();
});
