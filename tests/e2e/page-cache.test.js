/**
 * Tests cached models in the page: stored, listed with their sizes, opened without the network, resumed after an
 * interruption, deleted. Also messages before a download: memory needed, smaller alternatives, a required access token,
 * too little storage.
 */
import assert from 'node:assert/strict';
import { beforeEach } from 'node:test';
import {
  FAILED,
  PICKING,
  READY,
  assertReady,
  fill,
  focused,
  loadAddress,
  modelAddress,
  onlyIn,
  pageIn,
  slowly,
  submitAddress,
  suite,
  textOf,
  unload,
  until,
  untilProgress,
  untilReady,
  untilText,
  valueOf,
} from './helpers.js';

/** How the server responds to requests for models: 'serve', 'slow' (so that a test can cancel a load), 'refuse'. */
let manner = 'serve';
/** @type {{ range: string, method: string }[]} */
let asked = [];

const slows = slowly(/^\/models\//, () => manner === 'slow');

/** @type {import('../../tools/serve.js').Options['intercept']} */
const intercept = async (request, response) => {
  if (!request.url?.startsWith('/models/')) return false;
  asked.push({ range: request.headers.range ?? '', method: request.method ?? '' });
  if (manner === 'refuse') {
    request.socket.destroy();
    return true;
  }
  return manner === 'slow' && !request.headers.range?.startsWith('bytes=0-') && slows(request, response);
};

function bytesAsked() {
  return asked.reduce((sum, { range }) => {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    return sum + (last === undefined ? Infinity : Number(last) - Number(first) + 1);
  }, 0);
}

/** @param {import('puppeteer-core').Page} page @param {string} text of a button in the list */
async function press(page, text) {
  const names = await page.$$eval('#stored button', (all) => all.map((one) => one.textContent));
  const at = names.indexOf(text);
  assert.ok(at >= 0, `no button "${text}" among ${names}`);
  await (await page.$$('#stored button'))[at].click();
}

const LISTED = '#stored:not([hidden]) li';

const test = suite('the cache', async (name) => {
  const [tiny, medium] = [await modelAddress('tiny'), await modelAddress('medium')];
  return { ...(await pageIn(name, { intercept, storyteller: tiny })), tiny, medium };
});
/** Tests only the page's own code, in one browser. download.test.js resumes downloads in each browser.
 * @type {typeof test} */
const testInOne = (name, run) => test(name, run, onlyIn('chromium'));

beforeEach(() => {
  manner = 'serve';
  asked = [];
});

test('a stored model is offered first, starts without a network, and can be deleted', async ({
  open,
  server,
  tiny,
}) => {
  const page = await open('?pick', {
    expected: /Failed to load|NetworkError|ERR_|reach|refused/i,
  });
  assert.ok(await page.$('#stored[hidden]'));
  await loadAddress(page, tiny);
  await assertReady(page);

  await page.goto(server.url);
  await until(page, `${READY}, ${FAILED}`);
  assert.match(await textOf(page, '#model-name'), /^tiny$/, 'the page opens the model used last, not the storyteller');
  await page.goto(`${server.url}?pick`);
  await until(page, LISTED);
  assert.match(await textOf(page, LISTED), /tiny-\w+\.gguf[\s\S]*258\skB[\s\S]*Load/);
  await untilText(page, '#stored-room', /of [\d.]+\s[MGT]B of available storage/);
  assert.match(await page.evaluate(() => document.activeElement?.ariaLabel ?? ''), /^Load tiny-/);

  asked = [];
  await page.keyboard.press('Enter');
  await untilReady(page);
  assert.ok(bytesAsked() <= 1, `only the file's version is requested: ${JSON.stringify(asked)}`);
  assert.equal(await page.$('#chat-notice .notice'), null);
  await page.$eval(LISTED, (row) => row.setAttribute('data-marked', ''));
  await unload(page);

  manner = 'refuse';
  await press(page, 'Load');
  await untilReady(page);
  assert.match(await textOf(page, '#chat-notice'), /stored copy/);
  await page.click('#chat-notice button');
  assert.equal(await page.$('#chat-notice .notice'), null);
  await unload(page);

  assert.ok(await page.$(`${LISTED}[data-marked]`), 'a row that is still right is not rendered again');
  await press(page, 'Delete');
  assert.match(await textOf(page, LISTED), /Really delete\?/);
  await page.focus('#choose');
  assert.doesNotMatch(await textOf(page, LISTED), /\?/, 'moving the focus away cancels the deletion');
  await press(page, 'Delete');
  await page.keyboard.press('Enter');
  await until(page, '#stored[hidden]', 5000).catch(() => {});
  assert.ok(await page.$('#stored[hidden]'));
});

testInOne('a cancelled download resumes', async ({ open, server, medium }) => {
  const page = await open('?pick');
  manner = 'slow';
  await submitAddress(page, medium);
  await untilProgress(page, 0.3);
  assert.match(await textOf(page, '#loading-needs'), /^40\.6\sMB to download · needs 80\.\d\sMB of memory$/);
  await page.click('#loading-cancel');
  await until(page, PICKING);
  manner = 'serve';

  await page.goto(`${server.url}?pick`);
  await until(page, LISTED);
  // Reads only the line with the sizes: the whole row's text has no line breaks while the list is not shown.
  const state = await textOf(page, `${LISTED} .from ~ .from`);
  const [, here] = /^([\d.]+)\sMB of 40\.6\sMB downloaded/.exec(state) ?? [];
  assert.ok(Number(here) > 8 && Number(here) < 40.6, state);
  asked = [];
  await press(page, 'Resume');
  await untilReady(page);
  const again = bytesAsked() / 1e6;
  // A load requests a whole segment to read the header and cancels this request early, so it asks for more bytes than
  // it receives.
  assert.ok(again < 40.7 - Number(here) + 4.3, `${here} MB were cached, ${again} MB were requested`);
  await unload(page);
  await press(page, 'Delete all');
  await press(page, 'Delete all models?');
  await until(page, '#stored[hidden]', 5000).catch(() => {});
  assert.ok(await page.$('#stored[hidden]'));
  await page.waitForSelector('#presets button:focus');
});

testInOne(
  'without storage space the model runs, and a notice says that it is not stored',
  async ({ open, server, name, medium }) => {
    const page = await open('?pick', {
      reuse: '', // A reused tab would keep the storage limit.
      before: () => {
        if (!navigator.storage) return; // about:blank has no navigator.storage.
        navigator.storage.estimate = async () => ({ usage: 0, quota: 20e6 });
        Object.assign(window, { said: '' });
        addEventListener('DOMContentLoaded', () => {
          const place = /** @type {HTMLElement} */ (document.querySelector('#loading-needs'));
          new MutationObserver(() => {
            /** @type {any} */ (window).said += place.textContent;
          }).observe(place, { childList: true });
        });
      },
    });
    if (name === 'chromium') {
      // The engine's worker uses the browser's own estimate of the storage, which a test can override only in Chromium.
      const devtools = await page.createCDPSession();
      await devtools.send('Storage.overrideQuotaForOrigin', { origin: new URL(server.url).origin, quotaSize: 20e6 });
    }
    await loadAddress(page, medium);
    await assertReady(page);
    assert.match(
      await page.evaluate(() => /** @type {any} */ (window).said),
      /too big to save: only 20\.0\sMB of storage left/,
    );
    if (name === 'chromium') {
      assert.match(await textOf(page, '#chat-notice'), /couldn’t be saved or used/);
      await unload(page);
      await until(page, '#stored[hidden]');
    }
  },
);

testInOne('after stored models were protected, the focus is on the next button', async ({ open, tiny }) => {
  const page = await open('?pick', {
    before: () => {
      if (navigator.storage) navigator.storage.persist = async () => true;
    },
  });
  await loadAddress(page, tiny);
  await unload(page);
  await until(page, LISTED);
  await page.focus('#stored-keep');
  await page.keyboard.press('Enter');
  await untilText(page, '#stored-kept', /will keep these models/);
  assert.equal(await focused(page), 'stored-clear');
});

testInOne(
  'a model that does not fit is refused before the download, and models that fit are offered',
  async ({ open, medium }) => {
    const page = await open('?pick', {
      before: () => {
        Object.defineProperty(navigator, 'deviceMemory', { value: 0.08615 }); // In GB. The page may use 74 MB of this.
      },
    });
    await loadAddress(page, medium);
    assert.match(
      await textOf(page, FAILED),
      /needs 80\.\d\sMB of memory[\s\S]*limit is about 74\.0\sMB[\s\S]*would fit/,
    );
    const buttons = await page.$$eval('.error > button', (all) =>
      all.map((one) => one.textContent?.replaceAll('\u00a0', ' ')),
    );
    assert.match(buttons.join(' | '), /^Use a 1,024-token context \(73\.\d MB\) \| Try anyway$/);
    assert.ok(bytesAsked() < 30e6, 'headers only');
    await page.click('.error > button');
    await untilReady(page);
    assert.match(await textOf(page, '#meter-text'), /of 1,024$/);
  },
);

testInOne(
  'if Hugging Face requires a token, the page asks for it, uses it once and does not store it',
  async ({ open }) => {
    // Replaces Worker.postMessage(), so that the loads fail with HTTP status 401, 403 and 401.
    const page = await open('?pick', {
      before: () => {
        const sent = /** @type {string[]} */ ([]);
        Object.assign(window, { sent });
        Worker.prototype.postMessage = function (
          /** @type {{ id: number, kind: string, source: unknown }} */ { id, kind, source },
        ) {
          if (kind !== 'open') return;
          sent.push(JSON.stringify(source));
          const got = `status ${sent.length === 2 ? 403 : 401}`;
          const error = { code: 'http-error', message: 'refused', expected: 'status 200', got, cause: '' };
          setTimeout(() => this.onmessage?.(/** @type {any} */ ({ data: { kind: 'failed', id, error } })), 0);
        };
      },
    });
    await page.evaluate(() => {
      const fields = { 'hub-repo': 'owner/name', 'hub-file': 'm.gguf' };
      for (const [id, value] of Object.entries(fields)) Object(document.getElementById(id)).value = value;
      /** @type {HTMLFormElement} */ (document.querySelector('#hub-form')).requestSubmit();
    });
    await until(page, '#token-form:not([hidden])');
    assert.match(await textOf(page, FAILED), /requires you to sign in/);
    assert.equal(await focused(page), 'token');
    await page.keyboard.type('two words');
    await page.keyboard.press('Enter');
    assert.match(await textOf(page, FAILED), /not an access token/);
    await fill(page, '#token', 'hf_secret');
    await page.keyboard.press('Enter');
    await untilText(page, '.error', /don’t have access/);
    await fill(page, '#token', 'hf_revoked');
    await page.keyboard.press('Enter');
    await untilText(page, '.error', /did not accept this access token/);
    const { sent, kept } = await page.evaluate(() => ({
      sent: /** @type {any} */ (window).sent,
      kept: JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + location.href,
    }));
    assert.doesNotMatch(sent[0], /authorization/i);
    assert.match(sent[1], /Bearer hf_secret/);
    assert.match(sent[1], /"url":"https:\/\/huggingface\.co\/owner\/name\/resolve\/main\/m\.gguf"/);
    assert.doesNotMatch(kept, /hf_/);
    assert.equal(await valueOf(page, '#token'), '');
    await page.focus('#token-form [type="reset"]');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#token-form[hidden]');
    assert.equal(await focused(page), 'main');
  },
);
