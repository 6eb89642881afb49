/**
 * Tests the page's own model: it loads when the page opens, introduces itself, tells a story at a click, and points to
 * other models.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { storytellerTag } from '../../tools/build/page.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  READY,
  assertReady,
  load,
  loadAddress,
  modelAddress,
  onlyIn,
  openTab,
  root,
  say,
  servePage,
  setOptions,
  sharedBrowser,
  suite,
  textOf,
  until,
} from './helpers.js';

const test = suite(
  'the included storyteller',
  async (name) => {
    const server = await servePage({ storyteller: await modelAddress('tiny') });
    const browser = await sharedBrowser(name);

    /** @param {Parameters<typeof openTab>[2]} [options] */
    async function opened(options) {
      const tab = await openTab(browser, 'about:blank', options);
      await load(tab.page, () => tab.page.goto(server.url));
      await assertReady(tab.page);
      return tab;
    }
    return { browser, server, opened };
  },
  onlyIn('chromium'),
);

test('the page opens with the storyteller and describes it; a click tells a story', async ({ opened }) => {
  const tab = await opened();
  assert.match(
    await textOf(tab.page, '.empty'),
    /tiny storyteller[\s\S]*parameters[\s\S]*children’s stories[\s\S]*Gemma 3 1B/,
  );
  assert.equal(await textOf(tab.page, '#model-name'), 'Storyteller');
  const temperature = () =>
    tab.page.$eval('#opt-temperature', (field) => /** @type {HTMLInputElement} */ (field).value);
  assert.equal(await temperature(), '0.7', 'that of its model card');
  await setOptions(tab.page, { maxTokens: 12 });
  await tab.page.click('.suggestions button');
  await until(tab.page, ANSWERED);
  assert.match(await textOf(tab.page, '.from-user'), /^Tell me a story about a little dragon\.$/);
  assert.match(await textOf(tab.page, '.from-model .stats'), /^12\stokens/);
  assert.equal(await tab.page.$('.empty'), null);
  await tab.page.click('#new-chat');
  await until(tab.page, '.suggestions button');
  await tab.close();
});

test('in a low window the welcome is shown from its beginning, and the message field has the focus', async ({
  opened,
}) => {
  const tab = await opened({ height: 320 });
  assert.equal(await tab.page.$eval('#scroller', (one) => one.scrollTop), 0);
  assert.equal(await tab.page.evaluate(() => document.activeElement?.id), 'input');
  await tab.close();
});

test('after a suggestion or Retry by keyboard, the message field has the focus', async ({ opened }) => {
  const tab = await opened();
  await setOptions(tab.page, { maxTokens: 4 });
  for (const selector of ['.suggestions button', '.retry']) {
    await tab.page.focus(selector);
    const button = await tab.page.$(selector);
    await tab.page.keyboard.press('Enter');
    await tab.page.waitForFunction((old) => !old?.isConnected, {}, button);
    await until(tab.page, ANSWERED);
    assert.equal(await tab.page.evaluate(() => document.activeElement?.id), 'input', selector);
  }
  await tab.close();
});

test('one click opens the other models, another returns to the conversation, which continues', async ({ opened }) => {
  const tab = await opened();
  await setOptions(tab.page, { maxTokens: 4 });
  await tab.page.click('.upgrade button');
  await until(tab.page, PICKING);
  assert.match(await textOf(tab.page, '#presets'), /Gemma 3 1B/);
  assert.ok(await tab.page.$eval('#chat', (one) => one.checkVisibility()), 'it lies beneath');
  await tab.page.click('#back');
  await until(tab.page, READY);
  await say(tab.page, 'Once');
  await until(tab.page, ANSWERED);
  await tab.page.click('#change-model');
  await until(tab.page, PICKING);
  await tab.page.keyboard.press('Enter'); // Presses “Close”, which has the focus.
  await until(tab.page, READY);
  assert.match(await textOf(tab.page, '.from-user'), /Once/);
  await tab.page.click('#change-model');
  await loadAddress(tab.page, await modelAddress('medium')); // The storyteller stays ready during the load.
  await tab.page.waitForFunction(() => /medium/.test(document.querySelector('#model-name')?.textContent ?? ''));
  await assertReady(tab.page);
  assert.match(await textOf(tab.page, '.empty'), /Ask anything/);
  assert.deepEqual(
    await tab.page.$$eval('#opt-temperature, #opt-maxTokens', (all) =>
      all.map((one) => /** @type {HTMLInputElement} */ (one).value),
    ),
    ['1', '4'],
    'its own defaults, and what was changed by hand',
  );
  await tab.close();
});

test('the storyteller is not fetched if the link names a model or the list of models, or if the browser saves data', async ({
  browser,
  server,
}) => {
  const tab = await openTab(browser, `${server.url}?pick`, {
    before: () => {
      if (location.search !== '?save') return;
      Object.defineProperty(navigator, 'connection', { value: { saveData: true } });
    },
  });
  for (const query of ['?pick', '?model=https://example.com/x.gguf', '?save']) {
    await tab.page.goto(server.url + query);
    await until(tab.page, PICKING);
  }
  assert.match(await textOf(tab.page, '#presets li'), /Tiny storyteller/);
  await load(tab.page, () => tab.page.click('#presets li button'));
  await assertReady(tab.page);
  await tab.close();
});

test('a file with other bytes than the page was built with is refused, and loaded when the host has the right one', async ({
  browser,
}) => {
  const address = await modelAddress('tiny');
  const file = readFileSync(await testModel('tiny'));
  let lies = true;
  const spoilt = Buffer.from(file);
  spoilt[spoilt.length - 1] ^= 1; // The last byte belongs to a weight, so only the digest detects the change.
  const index = readFileSync(path.join(root, 'build', 'page', 'index.html'), 'utf8')
    .replace(/<meta name="storyteller".*>/, '')
    .replace(
      '</head>',
      `${storytellerTag(address, file.length, createHash('sha256').update(file).digest('hex'))}</head>`,
    );
  const site = await servePage({
    intercept: ({ url = '' }, response) => {
      if (!/^\/(\?|$)/.test(url) && !(lies && url === address)) return false;
      response.setHeader('Content-Type', url === address ? 'application/octet-stream' : 'text/html; charset=utf-8');
      response.end(url === address ? spoilt : index);
      return true;
    },
  });
  try {
    const tab = await openTab(browser, site.url);
    await until(tab.page, FAILED);
    assert.match(await textOf(tab.page, FAILED), /isn’t the expected file/);
    lies = false;
    await tab.page.reload();
    await until(tab.page, READY);
    assert.equal(await textOf(tab.page, '#model-name'), 'Storyteller');
    await tab.close();
  } finally {
    await site.close();
  }
});

test("a host without the storyteller's file shows the list of models and no error", async ({ browser }) => {
  const without = await servePage({ storyteller: 'storyteller-left-out.gguf' });
  try {
    const tab = await openTab(browser, 'about:blank', { expected: /Failed to load resource|404/ });
    await tab.page.goto(without.url);
    await until(tab.page, PICKING);
    assert.equal(await tab.page.$(FAILED), null);
    assert.doesNotMatch(await textOf(tab.page, '#presets'), /storyteller/);
    await tab.close();
  } finally {
    await without.close();
  }
});
