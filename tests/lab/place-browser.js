/* place-browser: runs members (member.js) in pages of a browser profile. The faulty server serves the pages. */
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { serveBuilt } from '../e2e/built.js';
import { launch, peaksBelow } from '../e2e/helpers.js';
import { WebKit } from '../e2e/webkit.js';
import { sleep } from './inject.js';

/** A tab or process of a test. `call` calls a method of member.js; `run` calls a function in the page; `kill` closes
 * the tab, and with `hard` kills its process.
 * @typedef {{ pid: number, call: (method: string, ...args: any[]) => Promise<any>,
 *   run: (f: (...args: any[]) => any, ...args: any[]) => Promise<any>, reload: () => Promise<void>,
 *   kill: (hard?: boolean) => Promise<unknown> }} Member */
/** Where members run. `storing` says whether files can be stored there. `folder` is the folder of the stored files in
 * Node, and of the browser profile if it must be on disk. `names` returns the stored files (Node only).
 * @typedef {{ name: string, storing: boolean, folder?: string, member: () => Promise<Member>, names: () => string[],
 *   close: () => Promise<unknown> }} Place */
/** @typedef {Awaited<ReturnType<typeof import('../js/faulty-server.js').faultyServer>>} Source */
/** Options of a lab. `usual`: properties of all responses of the server; the other options are for its pages.
 * @typedef {{ usual?: Fault, tuning?: object }
 *   & Parameters<typeof import('../e2e/built.js').serveBuilt>[0]} LabOptions */
/** @import { Browser, Page } from 'puppeteer-core' */

const PAGE = fileURLToPath(new URL('member-page.js', import.meta.url));

/** Builds and serves the pages of a lab. Requests for the model are passed to the faulty server. @param {Source} source
 * @param {LabOptions} options */
export const buildPages = (source, options) =>
  serveBuilt({
    ...options,
    more: `export { default as member } from ${JSON.stringify(PAGE)};`,
    intercept: async (request, response) =>
      Boolean(request.url?.startsWith('/model.gguf')) && source.server.emit('request', request, response),
  });

/** Kills the processes of all pages in the page's browser. @param {Page} page */
export async function killPages(page) {
  const other = await page.browserContext().newPage(); // An open page keeps the profile open.
  page.on('error', () => {});
  for (const { pid, command } of peaksBelow(Number(page.browser().process()?.pid)))
    if (/--type=renderer|-contentproc.* tab$/.test(command.trim())) process.kill(pid, 'SIGKILL');
  // The pages may be closed already, or puppeteer may not have noticed yet.
  for (const one of [other, page]) await Promise.race([one.close(), sleep(2000)]).catch(() => {});
}

/** @param {Member['run']} run @returns {Member['call']} */
const callIn =
  (run) =>
  (method, ...args) =>
    run((name, given) => /** @type {any} */ (window).gemma.member[name](...given), method, args);

/** Opens WebKit, whose Linux port stores no files and has a single page. @param {string} url
 * @returns {Promise<Place>} */
async function openWebKit(url) {
  const browser = await WebKit.open();
  const run = browser.run.bind(browser);
  const ready = () => browser.until(() => 'gemma' in window);
  return {
    name: 'webkit',
    storing: false,
    async member() {
      await browser.goto(url);
      await ready();
      return { pid: 0, call: callIn(run), run, reload: () => browser.reload().then(ready), kill: async () => {} };
    },
    names: () => [],
    close: () => browser.close(),
  };
}

/** Opens a new browser profile for members.
 * @param {'chromium' | 'firefox' | 'webkit'} name @param {string} url of its pages
 * @param {{ shared?: Browser, folder?: string }} [options] `folder`: the profile's, if its files must be on disk
 * @returns {Promise<Place>} */
export async function openBrowser(name, url, { shared, folder } = {}) {
  if (name === 'webkit') return openWebKit(url);
  const browser = shared ?? (await launch(name, { protocolTimeout: 900_000, userDataDir: folder }));
  const context = folder ? browser.defaultBrowserContext() : await browser.createBrowserContext();
  return {
    name,
    storing: true,
    folder,
    async member() {
      const page = await context.newPage();
      const ready = async () => void (await page.waitForFunction('window.gemma', { polling: 20 }));
      await page.goto(url);
      await ready();
      const run = /** @type {Member['run']} */ ((f, ...args) => page.evaluate(f, ...args));
      return {
        pid: Number(browser.process()?.pid),
        call: callIn(run),
        run,
        reload: () => page.reload().then(ready),
        kill: (hard) => (hard ? killPages(page) : Promise.race([page.close(), sleep(2000)]).catch(() => {})),
      };
    },
    names: () => [],
    async close() {
      await (shared ? context : browser).close();
      if (folder) rmSync(folder, { recursive: true, force: true });
    },
  };
}
