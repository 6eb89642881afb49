/* browser: evaluates models for processors.js in Chromium or Firefox, with flags that imitate another processor. */
import { basename, dirname } from 'node:path';
import { testModel } from '../../../tests/js/models.js';
import { withPage } from '../../support/browser.js';
import { at } from '../../support/proc.js';
import { serve } from '../../serve.js';
import { bundlePage } from '../../build/package.js';

/** @typedef {Record<string, { variant: string, variantReason: string, bits: string }>} Bits */
const PAGE = at('build', 'processors-page');

/** Returns puppeteer's options. @param {'chromium' | 'firefox'} name
 * @param {string[]} flags of V8, or preferences of Firefox */
function withFlags(name, flags) {
  const timeout = 300e3;
  if (name === 'chromium') return { timeout, args: [`--js-flags=${flags.join(' ')}`] };
  const preferences = flags.map((flag) => {
    return [`javascript.options.${flag.replace(/^no-/, '')}`, !flag.startsWith('no-')];
  });
  return { timeout, extraPrefsFirefox: Object.fromEntries(preferences) };
}

/** Evaluates the models at these addresses in a worker. Runs in the page. @param {string[]} addresses */
async function evaluate(addresses) {
  const worker = new Worker('/worker.js', { type: 'module' });
  const found = [];
  for (const address of addresses) {
    found.push(
      await new Promise((resolve, reject) => {
        // The engine also posts the names of its temporary files.
        worker.onmessage = ({ data }) => data.found && resolve(data.found);
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.postMessage({ address, variant: 'auto' });
      }),
    );
  }
  return found;
}

/** Returns the browser's name with its major version, and the results of each model.
 * @param {'chromium' | 'firefox'} name @param {string[]} flags @param {string[]} models
 * @returns {Promise<{ version: string, bits: Bits }>} */
export async function browserBits(name, flags, models) {
  await bundlePage(PAGE, ['tools/check/processors/worker.js'], '<!doctype html><title>processors</title>');
  const files = await Promise.all(models.map((model) => testModel(model)));
  const server = await serve({ root: PAGE, mounts: { '/models/': dirname(files[0]) } });
  const measure = async (/** @type {import('puppeteer-core').Page} */ page) => {
    await page.goto(server.url);
    const found = await page.evaluate(
      evaluate,
      files.map((file) => `/models/${basename(file)}`),
    );
    const full = await page.browser().version();
    const named = full.replace(/^firefox/, 'Firefox').replace(/^(Headless)?Chrome/, 'Chromium');
    const [version] = named.replace('/', ' ').split('.');
    return { version, bits: Object.fromEntries(models.map((model, i) => [model, found[i]])) };
  };
  try {
    return await withPage(name, measure, withFlags(name, flags));
  } finally {
    await server.close();
  }
}
