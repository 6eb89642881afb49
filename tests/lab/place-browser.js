/* place-browser: where the laboratory loads models in a browser: a page (page.js) whose server is the faulty one too, and
 * workers whose store fails on command (store-worker.js). WebKit's Linux port has no store. */
import { fileURLToPath } from 'node:url';
import { serveBuilt } from '../e2e/built.js';
import { launch } from '../e2e/helpers.js';
import { WebKit } from '../e2e/webkit.js';

/** @typedef {import('./laboratory.js').Place} Place */

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** In the worker's script the store is another one. @type {import('esbuild').Plugin} */
const FAULTY = {
  name: 'faulty store',
  setup(build) {
    build.onResolve({ filter: /store-browser\.js$/ }, ({ importer }) => {
      return /js[/\\]worker\.js$/.test(importer) ? { path: here('store-worker.js') } : undefined;
    });
  },
};

/** A page, and how it is asked. @typedef {{ run: (f: (...args: any[]) => any, ...args: any[]) => Promise<any>,
 *   goto: (url: string) => Promise<unknown>, close: () => Promise<unknown> }} Page */

/** A private window of a browser, which is closed with it if it is nobody's.
 * @param {'chromium' | 'firefox'} name @param {import('puppeteer-core').Browser} [shared] @returns {Promise<Page>} */
async function tab(name, shared) {
  const browser = shared ?? (await launch(name));
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  return {
    run: (f, ...args) => page.evaluate(f, ...args),
    goto: (url) => page.goto(url),
    close: () => (shared ? context : browser).close(),
  };
}

/** @returns {Promise<Page>} */
async function webkit() {
  const browser = await WebKit.open();
  return {
    run: (f, ...args) => browser.run(f, ...args),
    goto: (url) => browser.goto(url),
    close: () => browser.close(),
  };
}

/** @param {'chromium' | 'firefox' | 'webkit'} name @param {import('puppeteer-core').Browser} [shared] @returns {Place} */
export function browserPlace(name, shared) {
  /** @type {Page} */
  let page;
  /** @type {Awaited<ReturnType<typeof serveBuilt>>} */
  let built;
  const ask = (/** @type {string} */ what, /** @type {any[]} */ ...args) =>
    page.run(
      async (method, given) => {
        const { lab } = /** @type {any} */ (window).gemma;
        return lab[method](...given);
      },
      what,
      args,
    );
  const ready = async () => {
    await page.goto(built.url);
    for (let tries = 0; !(await page.run(() => 'gemma' in window).catch(() => false)); tries++) {
      if (tries === 600) throw new Error('the page is not ready');
      await new Promise((done) => {
        setTimeout(done, 50);
      });
    }
  };
  const storing = name !== 'webkit';
  return {
    name,
    storing,
    async open(server) {
      built = await serveBuilt({
        more: `export * as lab from ${JSON.stringify(here('page.js'))};`,
        plugins: [FAULTY],
        intercept: async (request, response) =>
          request.url === '/model.gguf' && server.server.emit('request', request, response),
      });
      page = name === 'webkit' ? await webkit() : await tab(name, shared);
      await ready();
    },
    tune: (tuning) => ask('tune', tuning),
    know: () => ask('know'),
    keep: (copy) => ask('keep', copy),
    begin: async (from) => {
      if (storing) await ask('begin', from);
    },
    damage: (kind, seed) => ask('damage', kind.name, seed),
    load: ({ sha256, fault }) => ask('load', { ...(sha256 && { sha256 }), ...(fault && { fault }) }),
    disturb: (what, moment, options) => ask('disturb', what, moment, options),
    there: async () => (storing ? ask('there') : { list: [], names: [] }),
    end: async () => {},
    async close() {
      await page?.close();
      await built?.close();
    },
  };
}
