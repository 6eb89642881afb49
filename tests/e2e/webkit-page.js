/**
 * webkit-page: a WebKit window with the methods of a puppeteer page that the scripted visitor (tests/lab/visitor.js)
 * uses, so that the same steps run in WebKit.
 */
import { sleep } from '../lab/inject.js';
import { WebKit } from './webkit.js';

/** WebDriver's codes of special keys, by puppeteer's names of the keys. @type {Record<string, string>} */
const KEYS = { Enter: '\uE007', Escape: '\uE00C', ArrowUp: '\uE013', Alt: '\uE00A', Shift: '\uE008' };
const LONGEST = 30_000;

/** An element of the page, found again by its selector and index at each use. */
class Handle {
  #page;
  #where;

  /** @param {WebKitPage} page @param {[selector: string, index: number]} where */
  constructor(page, where) {
    this.#page = page;
    this.#where = where;
  }

  /** @param {(one: any, ...args: any[]) => any} f @param {any[]} args */
  evaluate(f, ...args) {
    return this.#page.$$eval(this.#where[0], `(all, n, ...rest) => (${f})(all[n], ...rest)`, this.#where[1], ...args);
  }

  click() {
    return this.evaluate((one) => one.click());
  }
}

export class WebKitPage {
  #browser;
  keyboard = {
    press: (/** @type {string} */ key) => this.#browser.keys([KEYS[key] ?? key]),
    type: (/** @type {string} */ text) => this.#browser.keys([...text]),
    down: (/** @type {string} */ key) => this.#browser.keys([KEYS[key]], ['keyDown']),
    up: (/** @type {string} */ key) => this.#browser.keys([KEYS[key]], ['keyUp']),
  };

  /** @param {WebKit} browser */
  constructor(browser) {
    this.#browser = browser;
  }

  /** @param {string} url */
  goto(url) {
    return this.#browser.goto(url);
  }

  reload() {
    return this.#browser.reload();
  }

  /** @param {any} f @param {any[]} args */
  evaluate(f, ...args) {
    return this.#browser.run(f, ...args);
  }

  /** @param {string} selector @param {any} f @param {any[]} args */
  $$eval(selector, f, ...args) {
    return this.evaluate(
      `(selector, ...rest) => (${f})([...document.querySelectorAll(selector)], ...rest)`,
      selector,
      ...args,
    );
  }

  /** @param {string} selector @param {any} f @param {any[]} args */
  $eval(selector, f, ...args) {
    return this.$$eval(selector, `([one], ...rest) => (${f})(one, ...rest)`, ...args);
  }

  /** @param {string} selector */
  async $$(selector) {
    const count = await this.$$eval(selector, (/** @type {Element[]} */ all) => all.length);
    return Array.from({ length: count }, (_, i) => new Handle(this, [selector, i]));
  }

  /** @param {string} selector */
  async $(selector) {
    return (await this.$$(selector))[0] ?? null;
  }

  /** @param {string} selector */
  async click(selector) {
    await this.#browser.click(selector);
  }

  /** @param {string} selector */
  focus(selector) {
    return this.$eval(selector, (/** @type {HTMLElement} */ one) => one.focus());
  }

  /** @param {any} f @param {{ timeout?: number }} [options] @param {any[]} args */
  async waitForFunction(f, { timeout = LONGEST } = {}, ...args) {
    for (const end = Date.now() + timeout; !(await this.evaluate(f, ...args)); ) {
      if (Date.now() > end) throw new Error(`The condition did not become true in time: ${f} ${args}`);
      await sleep(30);
    }
  }

  /** @param {string} selector @param {{ timeout?: number }} [options] */
  waitForSelector(selector, options) {
    return this.waitForFunction(
      (/** @type {string} */ wanted) => document.querySelector(wanted) !== null,
      options,
      selector,
    );
  }

  close() {
    return this.#browser.close();
  }
}
