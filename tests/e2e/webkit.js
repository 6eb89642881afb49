/**
 * webkit: WebKit for end-to-end tests, driven through WebKitGTK's WebDriver (the W3C's protocol, spoken with fetch).
 * Each driver has one session, with an empty profile. The Linux port hides SharedArrayBuffer unless an environment
 * variable is set.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { sleep } from '../lab/inject.js';
import { peaksBelow } from './helpers.js';

const FOLDERS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/libexec'];
const BROWSER = FOLDERS.map((folder) => `${folder}/webkit2gtk-4.1/MiniBrowser`).find(existsSync) ?? '';
const LONGEST = 60_000;
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

/** Returns why WebKit cannot be tested on this machine, or '' if it can. */
export function noWebKit() {
  const has = (/** @type {string} */ name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
  return BROWSER && has('WebKitWebDriver') && has('Xvfb')
    ? ''
    : 'no WebKitWebDriver and Xvfb here (webkit2gtk-driver, xvfb)';
}

async function openScreen() {
  const screen = spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1200x900x24', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  const display = await new Promise((done, fail) => {
    screen.stdio[3]?.once('data', (data) => done(`:${String(data).trim()}`));
    screen.once('exit', () => fail(new Error('Xvfb exited before it reported a display.')));
  });
  return { screen, display };
}

async function freePort() {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await once(server.close(), 'close');
  return port;
}

/** @param {import('node:child_process').ChildProcess} child */
async function end(child) {
  if (child.exitCode !== null || child.signalCode) return;
  const ended = new Promise((done) => {
    child.once('exit', done);
  });
  child.kill();
  await ended;
}

export class WebKit {
  #base = '';
  #children;
  #driver;

  /** @param {import('node:child_process').ChildProcess} driver @param {import('node:child_process').ChildProcess[]} others */
  constructor(driver, others) {
    this.#driver = driver;
    this.#children = [driver, ...others];
  }

  /** @param {{ shared?: boolean }} [options] `shared`: with SharedArrayBuffer */
  static async open({ shared = true } = {}) {
    const { screen, display } = await openScreen();
    const port = await freePort();
    const env = {
      ...process.env,
      DISPLAY: display,
      JSC_useSharedArrayBuffer: shared ? '1' : '0',
      WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
      // Drawing by OpenGL, which Xvfb emulates, would take a quarter of the tests' time.
      WEBKIT_DISABLE_COMPOSITING_MODE: '1',
    };
    const driver = spawn('WebKitWebDriver', [`--port=${port}`], { env, stdio: 'ignore' });
    const browser = new WebKit(driver, [screen]);
    try {
      await browser.#begin(`http://127.0.0.1:${port}`);
    } catch (error) {
      await browser.close();
      throw error;
    }
    return browser;
  }

  /** @param {string} driver */
  async #begin(driver) {
    const answers = () =>
      fetch(`${driver}/status`)
        .then(({ ok }) => ok)
        .catch(() => false);
    for (let tries = 0; !(await answers()); tries++) {
      if (tries === 100) throw new Error('WebKitWebDriver did not answer within 10 s.');
      await sleep(100);
    }
    this.#base = driver;
    const alwaysMatch = {
      browserName: 'MiniBrowser',
      timeouts: { script: 300_000, pageLoad: 60_000, implicit: 0 },
      'webkitgtk:browserOptions': { binary: BROWSER, args: ['--automation'] },
    };
    const { sessionId } = await this.#ask('POST', '/session', { capabilities: { alwaysMatch } });
    this.#base = `${driver}/session/${sessionId}`;
  }

  /** @param {string} method @param {string} path @param {object} [body] */
  async #ask(method, path, body) {
    const response = await fetch(`${this.#base}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${value.error}: ${value.message}`);
    return value;
  }

  /** @param {string} url */
  goto(url) {
    return this.#ask('POST', '/url', { url });
  }

  /** Runs a function in the page. Returns its awaited result, or throws its error.
   * @template {any[]} A, R @param {(...args: A) => R} f @param {A} args @returns {Promise<Awaited<R>>} */
  async run(f, ...args) {
    const script = `const done = arguments[arguments.length - 1], given = [...arguments].slice(0, -1);
      Promise.resolve().then(() => (${f})(...given)).then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const { value, error } = await this.#ask('POST', '/execute/async', { script, args });
    if (error) throw new Error(`The function failed in the page: ${error}`);
    return value;
  }

  /** Waits until a function returns true in the page. @template {any[]} A @param {(...args: A) => unknown} f
   * @param {A} args */
  async until(f, ...args) {
    for (const start = Date.now(); !(await this.run(f, ...args)); ) {
      if (Date.now() - start > LONGEST) throw new Error(`The condition did not become true in time: ${f} ${args}`);
      await sleep(100);
    }
  }

  /** @param {string} selector @returns {Promise<string>} */
  async #element(selector) {
    return (await this.#ask('POST', '/element', { using: 'css selector', value: selector }))[ELEMENT];
  }

  /** Types a text into an element. U+E007 presses Enter. @param {string} selector @param {string} text */
  async type(selector, text) {
    await this.#ask('POST', `/element/${await this.#element(selector)}/value`, { text });
  }

  /** @param {string} selector */
  async click(selector) {
    await this.#ask('POST', `/element/${await this.#element(selector)}/click`, {});
  }

  /** Presses and releases keys, one after another. @param {string[]} keys
   * @param {string[]} [types] WebDriver's actions for each key */
  async keys(keys, types = ['keyDown', 'keyUp']) {
    const actions = keys.flatMap((value) => types.map((type) => ({ type, value })));
    await this.#ask('POST', '/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] });
  }

  async reload() {
    await this.#ask('POST', '/refresh', {});
  }

  get peak() {
    const below = peaksBelow(Number(this.#driver.pid));
    return Math.max(0, ...below.filter(({ command }) => /WebKitWebProcess/.test(command)).map(({ peak }) => peak));
  }

  async close() {
    if (this.#base.includes('/session/')) await this.#ask('DELETE', '').catch(() => {});
    for (const child of this.#children) await end(child);
  }
}
