/* browser: evaluates models for processors.js in Chromium or Firefox, with flags that imitate another processor. */
import { basename, dirname } from 'node:path';
import puppeteer from 'puppeteer-core';
import { testModel } from '../../../tests/js/models.js';
import { at } from '../../support/proc.js';
import { serve } from '../../serve.js';
import { bundlePage } from '../../build/package.js';
import { testEnvironment } from '../../build/setup.js';

/** @typedef {Record<string, { variant: string, variantReason: string, bits: string }>} Bits */
const PAGE = at('build', 'processors-page');

/** @param {'chromium' | 'firefox'} name @param {string[]} flags of V8, or preferences of Firefox */
function launch(name, flags) {
  const { GW_CHROMIUM, GW_FIREFOX } = testEnvironment();
  const common = { headless: true, timeout: 300e3, protocolTimeout: 1800e3 };
  if (name === 'chromium') {
    const all = ['--no-sandbox', '--disable-gpu', '--no-first-run', `--js-flags=${flags.join(' ')}`];
    return puppeteer.launch({ ...common, executablePath: GW_CHROMIUM, args: all });
  }
  const extraPrefsFirefox = Object.fromEntries(
    flags.map((flag) => {
      return [`javascript.options.${flag.replace(/^no-/, '')}`, !flag.startsWith('no-')];
    }),
  );
  return puppeteer.launch({ ...common, browser: 'firefox', executablePath: GW_FIREFOX, extraPrefsFirefox });
}

/** Evaluates the models at these addresses in a worker. Runs in the page. @param {string[]} addresses */
async function evaluate(addresses) {
  const worker = new Worker('/worker.js', { type: 'module' });
  const found = [];
  for (const address of addresses) {
    found.push(
      await new Promise((resolve, reject) => {
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.postMessage({ address, variant: 'auto' });
      }),
    );
  }
  return found;
}

/** @param {'chromium' | 'firefox'} name @param {string[]} flags @param {string[]} models
 * @returns {Promise<{ version: string, bits: Bits }>} */
export async function browserBits(name, flags, models) {
  await bundlePage(PAGE, ['tools/check/processors/worker.js'], '<!doctype html><title>processors</title>');
  const files = await Promise.all(models.map((model) => testModel(model)));
  const server = await serve({ root: PAGE, mounts: { '/models/': dirname(files[0]) } });
  const browser = await launch(name, flags);
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    const found = await page.evaluate(
      evaluate,
      files.map((file) => `/models/${basename(file)}`),
    );
    const named = (await browser.version()).replace(/^firefox/, 'Firefox').replace(/^(Headless)?Chrome/, 'Chromium');
    const [version] = named.replace('/', ' ').split('.');
    return { version, bits: Object.fromEntries(models.map((model, i) => [model, found[i]])) };
  } finally {
    await browser.close();
    await server.close();
  }
}
