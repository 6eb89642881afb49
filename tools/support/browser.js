/** browser: starts browsers for measurements and checks. */
import puppeteer from 'puppeteer-core';
import { testEnvironment } from '../build/setup.js';
import { CHROMIUM_FLAGS, Trouble } from './proc.js';

/** Time limit of a call in a page, in milliseconds. A peer with one thread needs minutes for 1024 tokens. */
const TIMEOUT = 3600e3;

/** Starts a headless browser. Throws a Trouble if it is not installed. @param {'chromium' | 'firefox'} name
 * @param {import('puppeteer-core').LaunchOptions} [options] */
export function launch(name, { args = [], ...options } = {}) {
  const { GW_CHROMIUM, GW_FIREFOX } = testEnvironment();
  const executablePath = name === 'firefox' ? GW_FIREFOX : GW_CHROMIUM;
  const variable = name === 'firefox' ? 'GW_FIREFOX' : 'GW_CHROMIUM';
  if (!executablePath) throw new Trouble(`${name} was not found. Install it, or set ${variable} to its path.`);
  // puppeteer's network monitoring is off, because with it browsers keep copies of up to 200 MB of fetched bytes, which
  // takes half of the loading time.
  const common = { executablePath, headless: true, protocolTimeout: TIMEOUT, networkEnabled: false, ...options };
  if (name === 'firefox') return puppeteer.launch({ ...common, browser: 'firefox' });
  return puppeteer.launch({ ...common, args: [...CHROMIUM_FLAGS, ...args] });
}

/** Calls `use` with a page of a new browser, then closes the browser.
 * @template T @param {'chromium' | 'firefox'} name @param {(page: import('puppeteer-core').Page) => Promise<T>} use
 * @param {import('puppeteer-core').LaunchOptions} [options] */
export async function withPage(name, use, options) {
  const browser = await launch(name, options);
  try {
    return await use(await browser.newPage());
  } finally {
    await browser.close();
  }
}
