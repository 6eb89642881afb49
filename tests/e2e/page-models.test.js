/**
 * Tests getting a model in the page: files of a repository with their sizes, links to other hosts, pausing, chats with
 * the storyteller model meanwhile. Also regressions: storage of private windows, partial downloads, a model that
 * another tab loads, stale errors, invisible errors of settings.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { beforeEach } from 'node:test';
import {
  FAILED,
  PICKING,
  READY,
  ask,
  assertReady,
  fill,
  focused,
  loadAddress,
  modelAddress,
  onlyIn,
  openModels,
  pageIn,
  press,
  root,
  setOptions,
  slowly,
  submitAddress,
  suite,
  textOf,
  until,
  untilProgress,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

let slow = false;
let gone = false;
let sent = 0;

/** Requests for a large table wait for this promise, from the third range of 4 MiB on. */
let held = Promise.resolve();

const throttle = slowly(
  /^\/models\/medium/,
  () => slow,
  (bytes) => {
    sent += bytes;
  },
);

/** @type {typeof throttle} */
const intercept = async (request, response) => {
  const [, start, end] = /^bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '')?.map(Number) ?? [];
  const [large, MiB] = [/^\/models\/gemma4-large/.test(request.url ?? ''), 2 ** 20];
  // Requests for single rows or for other weights do not wait: the ranges of rows are smaller, and other weights are
  // elsewhere in the file.
  if (large && end - start > MiB && start >= 12 * MiB && start < 32 * MiB) await held;
  if (!gone || !request.url?.startsWith('/models/')) return throttle(request, response);
  response.writeHead(404).end();
  return true;
};

const test = suite(
  'getting a model',
  async (name) => {
    const [tiny, medium] = [await modelAddress('tiny'), await modelAddress('medium')];
    const site = await pageIn(name, { intercept, storyteller: tiny });

    /** Opens the page with the storyteller model, and starts a slow load of another model. */
    async function beside() {
      const page = await site.open();
      await until(page, READY);
      await setOptions(page, { maxTokens: 4 });
      slow = true;
      await openModels(page);
      await submitAddress(page, medium);
      await untilProgress(page, 0.05);
      return page;
    }
    return { ...site, tiny, medium, beside };
  },
  onlyIn('chromium'),
);

beforeEach(() => {
  [slow, gone, sent] = [false, false, 0];
});

test("a conversation's chosen model is loaded after a reload, even before its first answer", async ({ open }) => {
  const page = await open();
  const named = (/** @type {string} */ part) =>
    page.waitForFunction(
      (text) =>
        document.body.dataset.state === 'ready' &&
        document.querySelector('#change-model')?.getAttribute('title')?.includes(text),
      { timeout: 60000 },
      part,
    );
  await until(page, READY);
  await loadAddress(page, await modelAddress('tiny-f32'));
  await named('tiny-f32');
  assert.equal(
    await textOf(page, '#model-name'),
    'tiny f32',
    "the model's name in the file's metadata, not the file's name",
  );
  await setOptions(page, { maxTokens: 4 });
  await ask(page, 'Hello');
  await page.click('#change-model');
  await page.waitForSelector('#storyteller button');
  await page.click('#storyteller button');
  await named('Storyteller');
  await page.reload();
  await named('Storyteller');
  assert.equal((await page.$$('.from-user')).length, 1);
});

test('the storyteller answers while another model downloads, while the download is paused, and after it is cancelled', async ({
  beside,
}) => {
  const page = await beside();
  assert.equal(await page.$eval('body', (body) => body.dataset.state), 'ready');
  await ask(page, 'Meanwhile');
  assert.equal(await textOf(page, '#model-name'), 'Storyteller');
  await page.click('#loading-pause');
  await untilText(page, '#loading-title', /^Paused$/);
  await ask(page, 'In the pause');
  await press(page, '#loading-pause', 'Resume');
  await untilProgress(page, 0.1);
  await page.click('#loading-cancel');
  await page.waitForFunction(() => document.body.dataset.behind === 'false');
  await ask(page, 'Still there?');
  await page.click('#change-model');
  await until(page, '#stored:not([hidden]) li');
  const [, here] = /([\d.]+)\sMB of 40\.6\sMB downloaded/.exec(await textOf(page, '#stored-list')) ?? [];
  await untilText(page, '#stored-room', new RegExp(`Using ${here}\\sMB of`));
  slow = false;
  await press(page, '#stored-list button', 'Resume');
  await untilText(page, '#model-name', /medium/, 60000);
  await assertReady(page);
  assert.ok(sent < 40.6e6 * 1.7, `${sent} bytes were sent`);
});

test('when the model is ready, the draft moves to the new chat, and typing in another field is not disturbed', async ({
  beside,
}) => {
  const page = await beside();
  await ask(page, 'Meanwhile');
  await page.type('#input', 'half');
  await page.click('#library-toggle');
  await page.keyboard.type('dra');
  slow = false;
  await untilText(page, '#model-name', /medium/, 60000);
  await until(page, '#log .empty');
  await page.keyboard.type('g');
  assert.deepEqual([await valueOf(page, '#library-search'), await valueOf(page, '#input')], ['drag', 'half']);
});

test('a model that is chosen at the moment when another one becomes ready loads with its progress shown', async ({
  open,
  medium,
}) => {
  const page = await open();
  await until(page, READY);
  slow = true;
  await page.evaluate((address) => {
    const observer = new MutationObserver(() => {
      observer.disconnect();
      /** @type {HTMLInputElement} */ (document.querySelector('#web-url')).value = address;
      /** @type {HTMLFormElement} */ (document.querySelector('#web-form')).requestSubmit();
    });
    observer.observe(/** @type {Node} */ (document.querySelector('#model-name')), { childList: true });
  }, medium);
  await submitAddress(page, await modelAddress('tiny-f32'));
  await untilText(page, '#loading-what', /medium/);
  await untilProgress(page, 0.05);
  assert.equal(await page.$eval('body', (body) => body.dataset.state), 'loading');
});

test('a model answers while its rest downloads: a notice shows the share, and that the download stopped or ended', async ({
  open,
}) => {
  const page = await open('?pick', { expected: /404/ });
  const large = await modelAddress('gemma4-large-table');
  let release = () => {};
  held = new Promise((resolve) => {
    release = resolve;
  });
  await loadAddress(page, large);
  await assertReady(page);
  await untilText(page, '#chat-notice', /^The rest of the model is still downloading: [1-9]\d?%Dismiss$/);
  await setOptions(page, { maxTokens: 4 });
  await ask(page, 'Hello');
  gone = true;
  release();
  await untilText(page, '#chat-notice', /^The download of the rest of the model stopped\./);
  gone = false;
  await openModels(page);
  await press(page, '#stored-list button', 'Reload');
  await untilText(page, '#chat-notice', /^The rest of the model has been downloaded\.Dismiss$/);
});

test('a model that another tab is downloading cannot be deleted, and a message says so', async ({
  open,
  server,
  medium,
}) => {
  const page = await open('?pick');
  slow = true;
  await submitAddress(page, medium);
  await untilProgress(page, 0.05);
  const other = await page.browserContext().newPage();
  await other.goto(`${server.url}?pick`);
  await until(other, '#stored:not([hidden]) li');
  await press(other, '#stored-list button', 'Delete');
  await press(other, '#stored-list button', 'Really delete?');
  await untilText(other, '#stored-kept', /another tab is using it/, 20000);
  const details = await other.$eval('#stored-kept pre', (one) => one.textContent ?? '');
  assert.match(details, /^The model cache could not be .* \(cache-failed\)$/m);
  await other.close();
});

test('after storage was full earlier than the browser said, its estimate is no longer shown', async ({
  name,
  open,
  server,
  tiny,
  medium,
}) => {
  if (name !== 'chromium') return; // A test can limit the storage of workers only in Chromium.
  const page = await open('?pick', {
    reuse: '', // A reused tab would keep the storage limit.
    before: () => {
      if (navigator.storage) navigator.storage.estimate = async () => ({ usage: 0, quota: 11.5e9 });
    },
  });
  await loadAddress(page, tiny);
  const devtools = await page.createCDPSession();
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: new URL(server.url).origin, quotaSize: 20e6 });
  await openModels(page);
  await untilText(page, '#stored-room', /11\.5\sGB/);
  await loadAddress(page, medium);
  await untilText(page, '#model-name', /medium/, 60000);
  assert.match(await textOf(page, '#chat-notice'), /couldn’t be saved/);
  const details = await page.$eval('#chat-notice pre', (one) => one.textContent ?? '');
  assert.match(details, /^The model is not cached for the next visit\. ./);
  await openModels(page);
  await until(page, '#stored-room:empty');
});

test('files of a repository: sizes, files too large for this device, one row for a split model; an old error disappears', async ({
  open,
}) => {
  const page = await open('?pick', {
    before: () => {
      Object.defineProperty(navigator, 'deviceMemory', { value: 2 });
      const fetched = window.fetch;
      window.fetch = async (url, options) => {
        if (!String(url).startsWith('https://huggingface.co/api/models/a/')) return fetched(url, options);
        Object.assign(window, { asked: String(url) });
        if (/sign-in/.test(String(url))) return new Response('<p>Sign in to this network</p>');
        if (!/a\/b/.test(String(url))) return new Response('no', { status: /later/.test(String(url)) ? 429 : 404 });
        // Lists of more than 1000 files have several pages. Here, the second page has one file.
        if (/cursor=2/.test(String(url))) {
          return Response.json([{ type: 'file', path: 'big/m-00002-of-00002.gguf', size: 1e9 }]);
        }
        const files = [
          { type: 'file', path: 'README.md', size: 5 },
          { type: 'file', path: 'm-Q4_0.gguf', size: 7e8 },
          { type: 'file', path: 'big/m-00001-of-00002.gguf', size: 2e9 },
        ];
        return Response.json(files, { headers: { link: `<${url}&cursor=2>; rel="next"` } });
      };
      Worker.prototype.postMessage = function (/** @type {any} */ message) {
        /** @type {any} */ (window).sent ??= JSON.stringify(message);
        const error = { code: 'no-memory', message: '', expected: '', got: '', cause: '' };
        const data = { kind: 'failed', id: message.id, error };
        if (message.kind === 'open') setTimeout(() => this.onmessage?.(/** @type {any} */ ({ data })), 0);
      };
    },
  });
  await page.click('#hub summary');
  await page.type('#hub-repo', 'a/none');
  await page.click('#hub-list');
  await until(page, FAILED);
  assert.match(await textOf(page, FAILED), /no public repository/);
  await press(page, '#presets button', 'Enter token…');
  await until(page, '#token-form:not([hidden])');
  assert.equal(await page.$(FAILED), null, 'the earlier error is gone');
  await fill(page, '#hub-repo', 'a/sign-in');
  await page.click('#hub-list');
  await untilText(page, '.error', /Couldn’t load the file list[^]*Check your connection/);
  await fill(page, '#hub-repo', 'a/later');
  await page.click('#hub-list');
  await untilText(page, '.error', /Wait a few minutes/);
  await fill(page, '#hub-repo', 'a/b');
  await page.focus('#hub-list');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#hub-files li');
  assert.equal(await focused(page), 'hub-list');
  assert.equal(await page.$(FAILED), null);
  const rows = await page.$$eval('#hub-files li', (all) =>
    all.map((one) => /** @type {HTMLElement} */ (one).innerText.replaceAll('\u00a0', ' ')),
  );
  assert.equal(rows.length, 2);
  assert.match(rows[0], /m-Q4_0\.gguf\s+Download 700 MB/);
  assert.match(rows[1], /m-00001-of-00002\.gguf\s*too large for this device\s+Download 3\.00 GB/);
  await page.click('#hub-files li button');
  await page.waitForFunction(() => 'sent' in window);
  assert.match(
    await page.evaluate(() => /** @type {any} */ (window).sent),
    /huggingface\.co\/a\/b\/resolve\/main\/m-Q4_0\.gguf/,
  );
  await until(page, FAILED);
  const offers = await page.$$eval('.error > button', (all) => all.map((one) => one.textContent).join());
  assert.match(offers, /Gemma 3 270M/);
  assert.doesNotMatch(offers, /Gemma 3 1B/, 'no model is offered that is larger than the one that did not fit');
});

test('a link that names a model of another host asks first, and shows the host', async ({ open, server }) => {
  const page = await open('?model=https://models.example.com/x.gguf&load=1', {
    before: () => {
      Worker.prototype.postMessage = () => Object.assign(window, { asked: true });
    },
  });
  await page.waitForSelector('.asked');
  assert.match(await textOf(page, '.asked'), /from models\.example\.com[\s\S]*x\.gguf/);
  assert.equal(await page.evaluate(() => 'asked' in window), false);
  await press(page, '.asked button', 'Load it from models.example.com');
  await page.waitForFunction(() => 'asked' in window);
  await page.click('#loading-cancel');
  await until(page, PICKING);
  await page.goto(`${server.url}?repo=a/b&file=c.gguf&load=1`);
  await page.waitForSelector('.asked');
  assert.match(await textOf(page, '.asked'), /from huggingface\.co[\s\S]*a\/b \/ c\.gguf/);
  await press(page, '.asked button', 'Not now');
  assert.equal(await page.$('.asked'), null);
});

test('a link that names a repository shows its form', async ({ open }) => {
  const page = await open('?repo=owner/name', { width: 390, height: 844 });
  await until(page, PICKING);
  await page.waitForFunction(() => document.activeElement?.id === 'hub-repo');
  const { top, bottom } = await page.$eval('#hub-form', (one) => one.getBoundingClientRect().toJSON());
  assert.ok(top > 0 && bottom < 844, `the form is visible: ${top} to ${bottom}`);
});

test('errors are shown under their settings; one model is recommended; no text says “this computer”', async ({
  openWith,
}) => {
  const page = await openWith('tiny', { query: '?pick' });
  await page.click('#settings-toggle');
  await page.click('#advanced summary');
  await setOptions(page, { temperature: 9 });
  const wrong = await page.$eval('#opt-temperature', (field) => {
    const said = document.getElementById(field.getAttribute('aria-describedby') ?? '');
    return said?.checkVisibility() ? said.innerText : '';
  });
  assert.ok(wrong.length > 5, wrong);
  assert.equal(await page.$$eval('.tag', (all) => all.length), 1);
  for (const file of readdirSync(path.join(root, 'web'), { recursive: true }).map(String)) {
    if (!/\.(js|html|css)$/.test(file)) continue;
    assert.doesNotMatch(readFileSync(path.join(root, 'web', file), 'utf8'), /this computer/i, file);
  }
});
