/**
 * screenshots: captures the page in every state, in Chromium and Firefox, wide and phone-sized, light and dark, in
 * build/screenshots/ for review. The engine really runs, but some answers are replaced by a Markdown sample, because no
 * test model writes prose.
 *
 *   node tools/release/screenshots.js [--browser chromium|firefox] [--out DIR] [--readme]
 *
 * --readme: also writes docs/page.webp and docs/inside.webp, a story and the inspection panel in Chromium, wide and
 *   light.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ANSWERED,
  BROWSERS,
  PICKING,
  READY,
  launch,
  load,
  loadAddress,
  modelAddress,
  openTab,
  openWithModel,
  say,
  servePage,
  setOptions,
  until,
} from '../../tests/e2e/helpers.js';
import { testModel } from '../../tests/js/models.js';
import { at, cli, parseOptions } from '../support/proc.js';

const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 780 } };

const SAMPLE = `The sky is blue because **short waves scatter more** than long ones: the strength goes \
with the fourth power of the frequency.

1. Sunlight holds all colours.
2. Air scatters blue about four times as much as red.
   - At noon you see that scattered light from everywhere.
   - In the evening the blue is gone before the light arrives.

\`\`\`python
ratio = (700 / 450) ** 4   # red and blue, in nanometres: about 5.9 times, on a line that is long
\`\`\`

| Colour | Wavelength | Scattering |
|---|---:|---:|
| Blue | 450 nm | 5.9 |
| Red | 700 nm | 1.0 |
`;

/** Replaces the text of each step from the worker by a word of the sample. Runs in the page before its scripts. */
function substitute(/** @type {string} */ sample) {
  const words = sample.match(/\s*\S+/g) ?? [];
  const receive = Object.getOwnPropertyDescriptor(Worker.prototype, 'onmessage');
  if (!receive?.set) return;
  Object.defineProperty(Worker.prototype, 'onmessage', {
    ...receive,
    set(handler) {
      receive.set?.call(this, (/** @type {MessageEvent} */ event) => {
        for (const step of event.data?.steps ?? []) step.text = words.shift() ?? '';
        handler(event);
      });
    },
  });
}

/** Sends a file slowly to /slow/ requests: a fortieth of it every 100 ms.
 * @param {string} file @returns {import('../serve.js').Options['intercept']} */
function slowly(file) {
  const bytes = readFileSync(file);
  const step = Math.ceil(bytes.length / 40);
  return (request, response) => {
    if (!request.url?.startsWith('/slow/')) return false;
    response.writeHead(200, { 'Content-Length': bytes.length });
    let at = 0;
    const timer = setInterval(() => {
      response.write(bytes.subarray(at, (at += step)));
      if (at >= bytes.length) response.end();
    }, 100);
    response.on('close', () => clearInterval(timer));
    return true;
  };
}

/** Takes a picture for the README. It is small, because it is part of the package.
 * @param {import('puppeteer-core').Page} page @param {string} name @param {import('puppeteer-core').ScreenshotClip} clip */
const picture = (page, name, clip) => page.screenshot({ path: at('docs', name), type: 'webp', quality: 28, clip });

/** Functions that take the README's pictures, by the screenshot that they are taken with.
 * @type {Record<string, (page: import('puppeteer-core').Page) => Promise<unknown>>} */
const PICTURES = {
  'chromium-story-told-wide-light': (page) =>
    picture(page, 'page.webp', { x: 0, y: 0, ...SIZES.wide, scale: 900 / SIZES.wide.width }),
  'chromium-look-layers-wide-light': async (page) => {
    const { x, y, width } = await page.$eval('#inside', (drawer) => drawer.getBoundingClientRect().toJSON());
    await picture(page, 'inside.webp', { x, y, width, height: 620 });
  },
};

/** @param {import('puppeteer-core').Page} page @param {string} base
 * @param {(page: import('puppeteer-core').Page, state: string) => Promise<unknown>} shoot */
async function tellStory(page, base, shoot) {
  await page.goto(base);
  await until(page, READY);
  await shoot(page, 'story-open');
  await setOptions(page, { maxTokens: 120, seed: 1 });
  await page.click('.suggestions button');
  await until(page, ANSWERED, 60000);
  await shoot(page, 'story-told');
  await page.click('#look-toggle');
  for (const view of ['words', 'layers', 'attention', 'walk', 'tokens']) {
    await until(page, `#inside-${view}`);
    await page.click(`#inside-${view}`);
    await until(page, '#inside-panel:not([aria-busy]) > *');
    await shoot(page, `look-${view}`);
  }
}

/** @param {import('puppeteer-core').Page} page @param {string} base
 * @param {(page: import('puppeteer-core').Page, state: string) => Promise<unknown>} shoot */
async function think(page, base, shoot) {
  const address = await modelAddress('gemma4-thinks');
  await load(page, () => page.goto(`${base}?model=${address}&load=1`));
  await setOptions(page, { maxTokens: 160, temperature: 0 });
  await page.click('#settings-toggle');
  await page.click('#opt-thinking');
  await shoot(page, 'settings-thinking');
  await page.click('#settings-toggle');
  await say(page, 'Why is the sky blue?');
  await page.waitForSelector('.thoughts div:not(:empty)', { timeout: 30000 }).catch(() => {});
  await shoot(page, 'thinking');
  await until(page, ANSWERED, 60000);
  await shoot(page, 'thought');
  await page.click('.thoughts summary');
  await shoot(page, 'thought-open');
}

/**
 * Brings the page into each state, and calls `shoot` there.
 * @param {import('puppeteer-core').Browser} browser
 * @param {string} base
 * @param {{ width: number, height: number }} size
 * @param {'light' | 'dark'} theme
 * @param {(page: import('puppeteer-core').Page, state: string) => Promise<unknown>} shoot
 */
async function tour(browser, base, size, theme, shoot) {
  const { page, close } = await openTab(browser, `${base}?pick`, { ...size, expected: /Failed to load/ });
  await page.evaluate((value) => localStorage.setItem('gemma-wasm.theme', JSON.stringify(value)), theme);
  await tellStory(page, base, shoot);
  await page.goto(`${base}?pick`);
  await until(page, PICKING);
  await shoot(page, 'picking');
  await page.$$eval('#presets button', (all) =>
    /** @type {any} */ (all.find((one) => /token/.test(one.textContent ?? ''))).click(),
  );
  await shoot(page, 'token');
  await page.evaluate(() =>
    document.querySelectorAll('details').forEach((fold) => {
      fold.open = true;
    }),
  );
  await page.setViewport({ ...size, height: 1700 });
  await shoot(page, 'picking-all');
  await page.setViewport(size);
  await loadAddress(page, '/nothing.gguf');
  await page.click('.error summary');
  await shoot(page, 'failed');
  const slow = () => page.goto(`${base}?model=/slow/gemma-3-1b-it-Q4_0.gguf&load=1`);
  await load(page, slow, 1).catch(() => {});
  await until(page, '#loading-left:not(:empty)');
  await shoot(page, 'loading');
  await page.evaluateOnNewDocument(substitute, SAMPLE);
  const address = await modelAddress('medium');
  await load(page, () => page.goto(`${base}?model=${address}&load=1`));
  await shoot(page, 'ready');
  await setOptions(page, { maxTokens: 160, temperature: 0 });
  await say(page, 'Why is the sky blue? Give me <b>numbers</b>, please.');
  await page.waitForSelector('.from-model li', { timeout: 30000 }).catch(() => {});
  await shoot(page, 'decoding');
  await until(page, ANSWERED, 60000);
  await shoot(page, 'answered');
  const long = 'All work and no play makes Jack a dull boy. '.repeat(300);
  await page.$eval(
    '#input',
    (field, value) => {
      /** @type {any} */ (field).value = value;
    },
    long,
  );
  await say(page, '');
  await until(page, '.from-model:last-child .error, .from-model:last-child .retry', 120000);
  await shoot(page, 'turn-failed');
  await page.click('#settings-toggle');
  await shoot(page, 'settings');
  await think(page, base, shoot);
  await load(page, () => page.goto(`${base}?model=${address}&load=1`));
  await page.click('#settings-toggle');
  await page.click('#unload');
  await until(page, '#stored:not([hidden]) li');
  await page.$$eval('#stored button', (all) =>
    /** @type {any} */ (all.find((one) => one.textContent === 'Delete'))?.click(),
  );
  await shoot(page, 'stored');
  // Limits the page to 70 MB of memory, less than the model needs.
  await page.evaluateOnNewDocument(() => Object.defineProperty(navigator, 'deviceMemory', { value: 0.0815 }));
  await load(page, () => page.goto(`${base}?model=${address}&load=1`));
  await shoot(page, 'unfit');
  await close();
}

await cli(async () => {
  const { values } = parseOptions({ browser: '', out: at('build', 'screenshots'), readme: false });
  mkdirSync(values.out, { recursive: true });
  const own = existsSync(at('build', 'page', 'storyteller.gguf'));
  const storyteller = own ? 'storyteller.gguf' : await modelAddress('tiny');
  const server = await servePage({ storyteller, intercept: slowly(await testModel('medium')) });
  const plain = await servePage({ isolation: false });
  for (const name of BROWSERS.filter((one) => !values.browser || one === values.browser)) {
    const browser = await launch(name);
    for (const [label, size] of Object.entries(SIZES)) {
      for (const theme of /** @type {const} */ (['light', 'dark'])) {
        const shoot = async (/** @type {import('puppeteer-core').Page} */ page, /** @type {string} */ state) => {
          const shot = `${name}-${state}-${label}-${theme}`;
          await page.screenshot({ path: join(values.out, `${shot}.png`) });
          const take = values.readme && PICTURES[shot];
          if (take) await take(page);
        };
        await tour(browser, server.url, size, theme, shoot);
      }
      const { page, close } = await openWithModel(browser, plain.url, await modelAddress('tiny'), size);
      await page.screenshot({ path: join(values.out, `${name}-one-thread-${label}.png`) });
      await close();
    }
    await browser.close();
  }
  await Promise.all([server.close(), plain.close()]);
  console.log(values.out);
});
