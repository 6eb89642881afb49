/**
 * helpers: browsers and the served page for end-to-end tests. Every page that is opened here records console errors,
 * exceptions and violations of the content security policy.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import puppeteer from 'puppeteer-core';
import { loadModel } from '../../js/index.node.js';
import { storytellerTag } from '../../tools/build/page.js';
import { serve } from '../../tools/serve.js';
import { CHROMIUM_FLAGS, which } from '../../tools/support/proc.js';
import { testModel } from '../js/models.js';
import { sleep } from '../lab/inject.js';
import { closeAll } from '../support/closing.js';
import { countSeeds } from '../support/seeds.js';

export const root = fileURLToPath(new URL('../../', import.meta.url));
const pageRoot = path.join(root, 'build', 'page');

/** @import { TestContext } from 'node:test' */
/** @import { Page } from 'puppeteer-core' */
/** @typedef {'chromium' | 'firefox'} BrowserName */
export const BROWSERS = /** @type {BrowserName[]} */ (['chromium', 'firefox']);

/** Returns the browsers for tests of the page's own code, which is the same in each browser: only `one`, or all
 * browsers with `npm test -- --everywhere`. @param {BrowserName} one */
export const onlyIn = (one) => (process.env.GW_EVERYWHERE ? BROWSERS : [one]);

/** Speed of throttled responses, in bytes per millisecond. */
const SLOW = 3000;
const FLAGS = [
  ...CHROMIUM_FLAGS,
  // Without this flag, Chromium preloads two pages for the address bar of each window, which take half the memory of a
  // tab.
  '--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup',
];

/** @param {string} variable @param {string[]} names */
function executable(variable, names) {
  const chosen = process.env[variable];
  if (chosen) return chosen.includes('/') ? chosen : which(chosen);
  const found = names.map(which).find(Boolean);
  if (!found) throw new Error(`${names.join(' or ')} was not found. Install it, or set ${variable} to its path.`);
  return found;
}

/** @type {Map<BrowserName, Promise<import('puppeteer-core').Browser>>} */
const running = new Map();

/** Returns the browser that all test files of this process share (together.js), because starting one takes longer
 * than many tests. Each tab has its own private context, so tests do not share data. @param {BrowserName} name */
export function sharedBrowser(name) {
  // Starts both browsers at the first call, because a process usually needs the second browser soon.
  if (!running.size) for (const one of BROWSERS) running.set(one, launch(one));
  return /** @type {Promise<import('puppeteer-core').Browser>} */ (running.get(name));
}
/** @type {(() => unknown)[]} */
const closing = [];
after(() => {
  const browsers = [...running.values()].map((browser) => async () => (await browser).close());
  return closeAll([...closing, ...browsers]);
});

/** Tabs that the running test has opened. @type {Set<Tab>} */
const tabs = new Set();

/**
 * Returns a function that defines a test for each browser. Before a browser's first test, `open` is called, and all
 * tests in this browser share its result. The result's `close()` is called after all tests of the process. The tabs of
 * a test are closed at its end.
 * @template T @param {string} title @param {(name: BrowserName) => Promise<T>} open @param {BrowserName[]} [browsers]
 */
export function suite(title, open, browsers = BROWSERS) {
  /** @type {Map<BrowserName, Promise<T>>} */
  const opened = new Map();
  const openOnce = (/** @type {BrowserName} */ name) => {
    const site = opened.get(name) ?? open(name);
    if (!opened.has(name)) closing.push(async () => /** @type {any} */ (await site)?.close?.());
    opened.set(name, site);
    return site;
  };
  /** @param {string} name @param {(site: T, t: TestContext) => unknown} run
   * @param {BrowserName[]} [own] only these browsers */
  return (name, run, own = browsers) => {
    for (const browser of own)
      test(`${browser}, ${title}: ${name}`, async (t) => {
        tabs.clear();
        t.after(() => closeAll([...tabs].map((tab) => () => tab.close())));
        await run(await openOnce(browser), t);
      });
  };
}

/** Starts a headless browser, which the caller must close. Throws if it is not installed. @param {BrowserName} name
 * @param {import('puppeteer-core').LaunchOptions} [options] */
export function launch(name, options) {
  if (name === 'firefox') {
    return puppeteer.launch({
      ...options,
      browser: 'firefox',
      headless: true,
      executablePath: executable('GW_FIREFOX', ['firefox-esr', 'firefox']),
    });
  }
  return puppeteer.launch({
    ...options,
    headless: true,
    executablePath: executable('GW_CHROMIUM', ['chromium', 'chromium-browser', 'google-chrome']),
    args: [...FLAGS, ...(options?.args ?? [])],
  });
}

/** Path of a document without scripts on the server of servePage(). */
const EMPTY = 'empty';

/**
 * Serves the built page on a free port, with test models under /models/. `storyteller` is the address of the
 * storyteller model, '' for none.
 * @param {Partial<import('../../tools/serve.js').Options> & { storyteller?: string }} [options]
 */
export async function servePage({ storyteller = '', intercept, ...options } = {}) {
  assert.ok(existsSync(path.join(pageRoot, 'app.js')), 'build/page is missing. Run node tools/build/setup.js serve.');
  const models = path.dirname(await testModel('tiny'));
  const built = readFileSync(path.join(pageRoot, 'index.html'), 'utf8').replace(/<meta name="storyteller".*>/, '');
  const index = storyteller ? built.replace('</head>', `${storytellerTag(storyteller, 0)}</head>`) : built;
  const server = await serve({
    root: pageRoot,
    mounts: { '/models/': models },
    ...options,
    intercept: async (request, response) => {
      if (await intercept?.(request, response)) return true;
      const empty = request.url === `/${EMPTY}`;
      if (!empty && !/^\/(\?|$)/.test(request.url ?? '')) return false;
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end(empty ? '<!doctype html><title></title><link rel="icon" href="icon.svg">' : index);
      return true;
    },
  });
  closing.push(() => server.close());
  return server;
}

/** Serves the page to the tests of a suite. `open` opens the page in a tab, `openWith` also loads a test model.
 * @param {BrowserName} name @param {Parameters<typeof servePage>[0]} [options] */
export async function pageIn(name, options) {
  const [browser, server] = [await sharedBrowser(name), await servePage(options)];
  const reuse = server.url + EMPTY;
  /** @param {string} [query] @param {TabOptions} [how] */
  const open = async (query = '', how) => (await openTab(browser, server.url + query, { reuse, ...how })).page;
  /** @param {string} model @param {Parameters<typeof openWithModel>[3]} [how] */
  const openWith = async (model, how) => {
    return (await openWithModel(browser, server.url, await modelAddress(model), { reuse, ...how })).page;
  };
  return { name, browser, server, open, openWith };
}

/** Serves files until the test ends. @param {TestContext} t @param {import('../../tools/serve.js').Options} options */
export async function serveFor(t, options) {
  const server = await serve(options);
  t.after(() => server.close());
  return server;
}

/** Returns a temporary folder with a page, which is deleted when the test ends. @param {TestContext} t */
export function pageFolder(t, html = '<!doctype html><title></title>') {
  const folder = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-e2e-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(path.join(folder, 'index.html'), html);
  writeFileSync(path.join(folder, 'favicon.ico'), ''); // Browsers log an error if a page has no favicon.ico.
  return folder;
}

/** Returns the path of a test model on the server of servePage(). @param {string} name */
export async function modelAddress(name) {
  return `/models/${path.basename(await testModel(name))}`;
}

/**
 * @typedef {object} Tab
 * @property {Page} page
 * @property {string[]} troubles   errors so far
 * @property {() => Promise<void>} close   fails if there were unexpected errors
 */

/** `expected`: errors to ignore; `before` runs in the page before its scripts; `usual`: opens the tab in the profile's
 * default context instead of a new private one; `lasting`: suite() does not close the tab when the test ends; `reuse`:
 * the address of a document without scripts, if later tests may reuse the tab, which saves the start of a process.
 * @typedef {{ expected?: RegExp, width?: number, height?: number, before?: () => void, usual?: boolean,
 *   lasting?: boolean, reuse?: string }} TabOptions */

/** Makes page.waitForFunction() check its condition every 30 ms. The default, every frame, would also redraw the page
 * and slow the engine. @param {Page} page */
function waitCalmly(page) {
  const wait = page.waitForFunction.bind(page);
  page.waitForFunction = (f, options, ...args) => wait(f, { polling: 30, ...options }, ...args);
}

/** Opens an empty tab, and records its errors. @param {import('puppeteer-core').BrowserContext} context */
async function newTab(context) {
  const page = await context.newPage();
  waitCalmly(page);
  /** @type {string[]} */
  const troubles = [];
  page.on('console', (message) => {
    if (message.type() === 'error') troubles.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => troubles.push(`exception: ${error}`));
  await page.evaluateOnNewDocument(countSeeds);
  await page.evaluateOnNewDocument(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  return { context, page, troubles };
}

/** Spare tabs: reusable tabs that were emptied at the end of their test, each in a private context without data.
 * @type {Map<import('puppeteer-core').Browser, Awaited<ReturnType<typeof newTab>>>} */
const spare = new Map();

/** Brings the spare tab to the front, and returns it, or undefined if there is none.
 * @param {import('puppeteer-core').Browser} browser */
async function takeSpare(browser) {
  const tab = spare.get(browser);
  spare.delete(browser);
  await tab?.page.bringToFront(); // Browsers do not draw hidden tabs.
  return tab;
}

/** Deletes everything that the page of an origin has stored. Runs in a page of this origin. */
async function forget() {
  localStorage.clear();
  sessionStorage.clear();
  const databases = (await indexedDB.databases()).map(
    ({ name }) =>
      new Promise((resolve, reject) => {
        const request = indexedDB.deleteDatabase(String(name));
        Object.assign(request, { onsuccess: resolve, onerror: reject });
      }),
  );
  await Promise.all(databases);
  const folder = /** @type {any} */ (await navigator.storage.getDirectory());
  for await (const name of folder.keys()) await folder.removeEntry(name, { recursive: true });
}

/** Makes a tab the spare one: leaves its page, which ends its workers, and deletes its data. Closes the tab instead if
 * that fails, for example because a worker still holds a file.
 * @param {import('puppeteer-core').Browser} browser @param {Awaited<ReturnType<typeof newTab>>} tab
 * @param {string} url of a document without scripts @param {string} [script] to remove from the tab */
async function makeSpare(browser, { context, page, troubles }, url, script) {
  try {
    if (script) await page.removeScriptToEvaluateOnNewDocument(script);
    for (const other of await context.pages()) if (other !== page) await other.close();
    await page.goto(url);
    await page.evaluate(forget);
    if (spare.has(browser)) throw new Error('There is a spare tab already.');
    spare.set(browser, { context, page, troubles });
  } catch {
    await context.close();
  }
}

/** @param {Page} page @param {{ width: number, height: number }} size */
async function resize(page, size) {
  await page.setViewport(size).catch((/** @type {Error} */ error) => {
    // Firefox 140 sets the viewport's size but does not support the screen orientation, which no test needs.
    if (!/setScreenOrientationOverride/.test(error.message)) throw error;
  });
}

/** Time in which a spare tab must take a new size, in milliseconds. */
const RESIZE_MS = 20000;

/** Returns the spare tab with a new size. Returns undefined if there is none or if it does not answer: one of several
 * thousand spare tabs of Chromium did not answer for three minutes, for an unknown reason.
 * @param {import('puppeteer-core').Browser} browser @param {{ width: number, height: number }} size */
async function resizedSpare(browser, size) {
  const tab = await takeSpare(browser);
  if (!tab) return undefined;
  const late = wait(RESIZE_MS, false, { ref: false });
  if (await Promise.race([resize(tab.page, size).then(() => true), late])) return tab;
  console.log(`A spare tab did not take its size within ${RESIZE_MS} ms. The test gets a new tab.`);
  return undefined;
}

/** Opens a URL in a new tab, and waits until the page has chosen what to show. suite() closes the tab at the end.
 * @param {import('puppeteer-core').Browser} browser @param {string} url @param {TabOptions} [options] */
export async function openTab(
  browser,
  url,
  { expected, width = 1100, height = 800, before, usual, lasting, reuse } = {},
) {
  const own = async () => newTab(usual ? browser.defaultBrowserContext() : await browser.createBrowserContext());
  const spared = reuse && (await resizedSpare(browser, { width, height }));
  const made = spared || (await own());
  const { context, page, troubles } = made;
  if (!spared) await resize(page, { width, height });
  const script = before && (await page.evaluateOnNewDocument(before));
  await page.goto(url);
  await page.waitForFunction(() => document.body?.dataset.state !== 'opening');
  /** @type {Tab} */
  const tab = {
    page,
    troubles,
    async close() {
      tabs.delete(tab);
      if (reuse) await makeSpare(browser, made, reuse, script?.identifier);
      else await (usual ? page : context).close();
      assert.deepEqual(
        troubles.splice(0).filter((text) => !expected?.test(text)),
        [],
      );
    },
  };
  if (!lasting) tabs.add(tab);
  return tab;
}

/** Waits until an element matches the selector. The error after a timeout contains the page's text.
 * @param {Page} page @param {string} selector @param {number} [timeout] */
export async function until(page, selector, timeout = 30000) {
  try {
    await page.waitForSelector(selector, { timeout });
  } catch (cause) {
    const shown = await page.evaluate(() =>
      [
        document.body.dataset.state,
        document.querySelector('.error')?.textContent,
        document.querySelector('#log')?.textContent,
      ].join(' | '),
    );
    throw new Error(`No element matched ${selector} in time. The page: ${shown.slice(0, 800)}`, { cause });
  }
}

/** Waits until the text of the first element that matches the selector matches a pattern. The error after a timeout
 * contains the element's text.
 * @param {Page} page @param {string} selector @param {RegExp} pattern @param {number} [timeout] */
export async function untilText(page, selector, pattern, timeout = 30000) {
  try {
    await page.waitForFunction(
      (where, source, flags) => new RegExp(source, flags).test(document.querySelector(where)?.textContent ?? ''),
      { timeout },
      selector,
      pattern.source,
      pattern.flags,
    );
  } catch (cause) {
    const text = await page.evaluate((where) => document.querySelector(where)?.textContent, selector);
    throw new Error(`The text of ${selector} did not match ${pattern} in time: ${text}`, { cause });
  }
}

/** Waits until exactly `count` elements match the selector. @param {Page} page @param {string} selector
 * @param {number} count */
export const untilCount = (page, selector, count) =>
  page.waitForFunction((where, n) => document.querySelectorAll(where).length === n, {}, selector, count);

/** Waits until the engine's state of the open conversation is saved. @param {Page} page */
export const untilKept = (page) =>
  page.waitForFunction(() => document.body.dataset.kept && location.hash.endsWith(document.body.dataset.kept));

export const READY = 'body[data-state="ready"]';
/** Selector that matches while the model chooser is open, alone or over a conversation. */
export const PICKING = 'body[data-state="picking"], #chooser[open]';
export const ANSWERED = '.from-model:last-child .retry';
export const FAILED = '.error';

/** Starts a load of a model and waits until the page shows that it succeeded (READY) or failed (FAILED).
 * @param {Page} page @param {() => Promise<unknown>} start @param {number} [timeout] */
export async function load(page, start, timeout = 60000) {
  await start();
  await until(page, `${READY}, ${FAILED}`, timeout);
}

/** Starts a load of the model at an address. @param {Page} page @param {string} address */
export const submitAddress = (page, address) =>
  page.evaluate((value) => {
    /** @type {HTMLInputElement} */ (document.querySelector('#web-url')).value = value;
    /** @type {HTMLFormElement} */ (document.querySelector('#web-form')).requestSubmit();
  }, address);

/** Loads the model at an address. Resolves when the load has succeeded or failed. @param {Page} page
 * @param {string} address @param {number} [timeout] */
export const loadAddress = (page, address, timeout) => load(page, () => submitAddress(page, address), timeout);

/** Waits until a share (0 to 1) of a model has arrived. @param {Page} page @param {number} share */
export const untilProgress = (page, share) =>
  page.waitForFunction(
    (least) => /** @type {HTMLProgressElement} */ (document.querySelector('#loading-bar')).value > least,
    { timeout: 60000 },
    share,
  );

/** Opens the model chooser, and waits until it is shown. @param {Page} page */
export async function openModels(page) {
  await page.click('#change-model');
  await until(page, PICKING);
}

/** Unloads the model through the settings, which must not be open yet. @param {Page} page */
export async function unload(page) {
  await page.click('#settings-toggle');
  await page.click('#unload');
  await until(page, PICKING);
}

/** Asserts that a model is loaded, without waiting. @param {Page} page */
export async function assertReady(page) {
  assert.equal(await page.$eval('body', (body) => body.dataset.state), 'ready');
}

/** Waits until the page has loaded a model. @param {Page} page @param {number} [timeout] */
export async function untilReady(page, timeout) {
  await load(page, async () => {}, timeout);
  await assertReady(page);
}

/** Reloads the page and waits until it has loaded its model again. @param {Page} page */
export async function reload(page) {
  await page.reload();
  await untilReady(page);
}

/** Opens the page in a new tab and loads the model at an address. Fails if the load fails.
 * @param {import('puppeteer-core').Browser} browser @param {string} base @param {string} address
 * @param {TabOptions & { query?: string }} [options] */
export async function openWithModel(browser, base, address, options = {}) {
  const tab = await openTab(browser, `${base}${options.query ?? ''}`, options);
  await loadAddress(tab.page, address);
  await assertReady(tab.page);
  return tab;
}

/** Sets the value of a field, as if the user had typed it. @param {Page} page @param {string} selector
 * @param {string | number} value */
export const fill = (page, selector, value) =>
  page.$eval(
    selector,
    (field, text) => {
      /** @type {HTMLInputElement} */ (field).value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    },
    String(value),
  );

/** Sets options by name, in the settings. @param {Page} page @param {Record<string, string | number>} values */
export async function setOptions(page, values) {
  for (const [name, value] of Object.entries(values)) await fill(page, `#opt-${name}`, value);
}

/** Types and sends a message, without waiting for the answer. @param {Page} page @param {string} text */
export async function say(page, text) {
  await page.focus('#input');
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
}

/** Sends a message and waits until its answer has ended. @param {Page} page @param {string} text */
export async function ask(page, text) {
  const before = (await page.$$('.from-user')).length;
  await say(page, text);
  await page.waitForFunction((count) => document.querySelectorAll('.from-user').length > count, {}, before);
  await until(page, ANSWERED);
}

/** Returns the trimmed texts of all shown messages, in order. @param {Page} page */
export const shown = (page) =>
  page.$$eval('.from-user, .from-model .md', (all) => all.map((one) => one.textContent?.trim()));

/** Clicks the first element with this text, once there is one.
 * @param {Page} page @param {string} selector @param {string} text */
export const press = (page, selector, text) =>
  page.waitForFunction(
    (where, what) => {
      const found = [...document.querySelectorAll(where)].find((one) => one.textContent === what);
      /** @type {HTMLElement | undefined} */ (found)?.click();
      return found !== undefined;
    },
    {},
    selector,
    text,
  );

/** Returns a test model's answers to the questions of one chat in Node, to compare a page's answers with them.
 * @param {string} name @param {string[]} questions @param {object} options @param {object} [chatOptions] */
export async function inNode(name, questions, options, chatOptions = {}) {
  const model = await loadModel(await testModel(name), { threads: 1 });
  try {
    const chat = model.chat(chatOptions);
    const answers = [];
    for (const question of questions) answers.push(await chat.send(question, options).text());
    return answers;
  } finally {
    await model.dispose();
  }
}

/** Runs in the page before its scripts: makes the engine use the simd128 build, which computes the same numbers on
 * every machine. */
export function plainBuild() {
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (/** @type {any} */ message, /** @type {any} */ ...more) {
    if (message?.kind === 'open') message.options.variant = 'simd128';
    return post.call(this, message, ...more);
  };
}

/** Runs in the page before its scripts: stores copied text in window.copied. */
export function catchCopies() {
  Object.defineProperty(navigator, 'clipboard', {
    value: {
      writeText: async (/** @type {string} */ text) => {
        Object.assign(window, { copied: text });
      },
    },
  });
}

/** Returns the last answer as the model wrote it, which the answer's copy button copies. Requires catchCopies().
 * @param {Page} page */
export async function answerText(page) {
  return page.evaluate(async () => {
    const buttons = [...document.querySelectorAll('.from-model:last-child .answer-foot button')];
    /** @type {any} */ (buttons.find((one) => one.textContent === 'Copy')).click();
    await new Promise((done) => {
      setTimeout(done, 0);
    });
    return /** @type {any} */ (window).copied;
  });
}

/** Returns the visible text of an element, as CSS lays it out. @param {Page} page @param {string} selector */
export function textOf(page, selector) {
  return page.$eval(selector, (element) => /** @type {HTMLElement} */ (element).innerText);
}

/** @param {Page} page @param {string} selector   of a field */
export const valueOf = (page, selector) =>
  page.$eval(selector, (field) => /** @type {HTMLInputElement} */ (field).value);

/** Returns the id of the focused element. @param {Page} page */
export const focused = (page) => page.evaluate(() => document.activeElement?.id);

/** Imports a file into the list of conversations. @param {Page} page @param {string} text */
export const importFile = (page, text) =>
  page.$eval(
    '#library-file',
    (field, content) => {
      const data = new DataTransfer();
      data.items.add(new File([content], 'conversations.json'));
      /** @type {HTMLInputElement} */ (field).files = data.files;
      field.dispatchEvent(new Event('change'));
    },
    text,
  );

/** Imports conversations, in the format of an exported file. @param {Page} page @param {object[]} conversations */
export const importConversations = (page, conversations) =>
  importFile(page, JSON.stringify({ format: 'gemma-wasm conversations', version: 1, conversations }));

/** Returns a conversation for importConversations(). @param {string} title
 * @param {string[]} texts   of questions and answers, in turn */
export const talk = (title, ...texts) => ({
  title,
  updated: 1e12,
  said: texts.map((text, i) => {
    const parent = i ? `${i - 1}` : null;
    return { id: `${i}`, parent, role: i % 2 ? 'assistant' : 'user', text, state: 'whole' };
  }),
});

/** Opens a conversation whose answer has a formula that is wider than any screen, after other words in its line.
 * Returns by how many pixels boxes scroll sideways, and how far below the baseline of its line a formula stands.
 * @param {Page} page @param {string} words */
export async function wideFormula(page, words) {
  const sum = Array.from({ length: 90 }, (_, i) => `x_{${i}}`).join(' + ');
  await page.click('#library-toggle');
  await importConversations(page, [talk('Formulas', 'Q', `${words} $x$ $${sum}$`)]);
  await press(page, '.talk-title', 'Formulas');
  await page.waitForSelector('.md math');
  return page.evaluate(() => {
    const over = (/** @type {Element} */ one) => one.scrollWidth - one.clientWidth;
    const formulas = [...document.querySelectorAll('.md math')].map(
      (one) => /** @type {HTMLElement} */ (one.parentElement),
    );
    const [short, long] = formulas;
    const line = /** @type {Element} */ (short.parentElement);
    const [root, log] = [document.documentElement, document.getElementById('scroller') ?? line];
    const scrolls = { page: over(root), log: over(log), line: over(line), short: over(short), long: over(long) };
    const baseline = document.createElement('span');
    baseline.style.display = 'inline-block'; // the bottom of an empty inline-block is on the baseline
    line.prepend(baseline);
    const [letter] = short.getElementsByTagName('mi');
    const depth = () => letter.getBoundingClientRect().bottom - baseline.getBoundingClientRect().bottom;
    const below = depth();
    short.style.display = 'inline';
    return { ...scrolls, below: Math.round(below - depth()) };
  });
}

/** Pastes a text into the message field. @param {Page} page @param {string} text */
export const paste = (page, text) =>
  page.$eval(
    '#input',
    (field, pasted) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', pasted);
      field.dispatchEvent(Object.assign(new Event('paste', { bubbles: true, cancelable: true }), { clipboardData }));
    },
    text,
  );

/** Drops a file on the page. @param {Page} page @param {string} name @param {string} text */
export const dropFile = (page, name, text) =>
  page.evaluate(
    (title, content) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([content], title));
      dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    },
    name,
    text,
  );

/** Returns an interceptor that throttles the responses for matching addresses to SLOW bytes per millisecond while
 * isSlow().
 * @param {RegExp} pattern @param {() => boolean} isSlow @param {(bytes: number) => void} [sent]
 * @returns {NonNullable<import('../../tools/serve.js').Options['intercept']>} */
export const slowly =
  (pattern, isSlow, sent = () => {}) =>
  (request, response) => {
    if (!pattern.test(request.url ?? '')) return false;
    const { write, end } = response;
    let before = Promise.resolve();
    response.write = (/** @type {any} */ chunk, /** @type {any} */ done) => {
      before = before.then(async () => {
        await sleep(isSlow() ? chunk.length / SLOW : 0);
        if (!response.destroyed) sent(chunk.length);
        write.call(response, chunk, done);
      });
      return false;
    };
    response.end = (/** @type {any} */ ...last) => {
      void before.then(() => /** @type {any} */ (end).call(response, ...last));
      return response;
    };
    return false;
  };

/** Returns f(), which reads /proc, or [] if the process or thread has ended.
 * @template T @param {() => T[]} f */
function ofLiving(f) {
  try {
    return f();
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(String(/** @type {any} */ (error).code))) return [];
    throw error;
  }
}

/** Returns the peak resident memory of a process and of each descendant, in bytes (Linux). @param {number} pid
 * @returns {{ pid: number, command: string, peak: number }[]} */
export function peaksBelow(pid) {
  const own = ofLiving(() => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return [{ pid, command, peak: Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1] ?? 0) * 1024 }];
  });
  return [...own, ...childrenOf(pid).flatMap(peaksBelow)];
}

/** Returns the peak resident memory of the largest process that runs pages, and an upper bound of the process's peak
 * PSS (proportional set size). @param {import('puppeteer-core').Browser} browser */
export function pagePeak(browser) {
  const all = peaksBelow(Number(browser.process()?.pid));
  const [{ pid, peak }] = all
    .filter(({ command }) => /--type=renderer|-contentproc/.test(command))
    .sort((a, b) => b.peak - a.peak);
  const now = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const bytes = (/** @type {string} */ name) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(now)?.[1]) * 1024;
  return { resident: peak, proportional: bytes('Pss') + Math.max(peak - bytes('Rss'), 0) };
}

/** Returns the ids of a process's children, which Linux lists for each thread. @param {number} pid
 * @returns {number[]} */
function childrenOf(pid) {
  return ofLiving(() => readdirSync(`/proc/${pid}/task`)).flatMap((task) =>
    ofLiving(() => {
      const ids = readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8');
      return (ids.match(/\d+/g) ?? []).map(Number);
    }),
  );
}

/** Chooses files in a file input, and dispatches the `change` event if the browser does not. @param {Page} page
 * @param {string} selector @param {...string} files */
export async function chooseFiles(page, selector, ...files) {
  const input = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await page.$(selector));
  await input.evaluate((one) =>
    one.addEventListener(
      'change',
      () => {
        one.dataset.told = 'yes';
      },
      { once: true, capture: true },
    ),
  );
  await input.uploadFile(...files);
  // After puppeteer's uploadFile(), Firefox 140 may fire no change event, or a late one. Two change events would add
  // the files twice.
  await page.waitForFunction((one) => one.dataset.told || one.files?.length, {}, input);
  await input.evaluate((one) => {
    if (!one.dataset.told) one.dispatchEvent(new Event('change'));
    delete one.dataset.told;
  });
}

/** Presses a key with Alt and Shift. @param {Page} page @param {import('puppeteer-core').KeyInput} key */
export async function shortcut(page, key) {
  for (const held of /** @type {const} */ (['Alt', 'Shift'])) await page.keyboard.down(held);
  await page.keyboard.press(key);
  for (const held of /** @type {const} */ (['Shift', 'Alt'])) await page.keyboard.up(held);
}
