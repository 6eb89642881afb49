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
  ask,
  assertReady,
  focused,
  loadAddress,
  modelAddress,
  onlyIn,
  openModels,
  pageIn,
  root,
  setOptions,
  suite,
  textOf,
  until,
  untilReady,
  untilText,
  valueOf,
} from './helpers.js';

const test = suite(
  'the included storyteller',
  async (name) => {
    const site = await pageIn(name, { storyteller: await modelAddress('tiny') });

    /** @param {import('./helpers.js').TabOptions} [options] */
    async function opened(options) {
      const page = await site.open('', options);
      await untilReady(page);
      return page;
    }
    return { ...site, opened };
  },
  onlyIn('chromium'),
);

test('the page opens with the storyteller and describes it; a click tells a story', async ({ opened }) => {
  const page = await opened();
  assert.match(
    await textOf(page, '.empty'),
    /tiny storyteller[\s\S]*parameters[\s\S]*children’s stories[\s\S]*Gemma 3 1B/,
  );
  assert.equal(await textOf(page, '#model-name'), 'Storyteller');
  assert.equal(await valueOf(page, '#opt-temperature'), '0.7', 'the temperature of its model card');
  await setOptions(page, { maxTokens: 12 });
  await page.click('.suggestions button');
  await until(page, ANSWERED);
  assert.match(await textOf(page, '.from-user'), /^Tell me a story about a little dragon\.$/);
  assert.match(await textOf(page, '.from-model .stats'), /^12\stokens/);
  assert.equal(await page.$('.empty'), null);
  await page.click('#new-chat');
  await until(page, '.suggestions button');
});

test('in a low window the welcome is shown from its beginning, and the message field has the focus', async ({
  opened,
}) => {
  const page = await opened({ height: 320 });
  assert.equal(await page.$eval('#scroller', (one) => one.scrollTop), 0);
  assert.equal(await focused(page), 'input');
});

test('after a suggestion or Retry by keyboard, the message field has the focus', async ({ opened }) => {
  const page = await opened();
  await setOptions(page, { maxTokens: 4 });
  for (const selector of ['.suggestions button', '.retry']) {
    await page.focus(selector);
    const button = await page.$(selector);
    await page.keyboard.press('Enter');
    await page.waitForFunction((old) => !old?.isConnected, {}, button);
    await until(page, ANSWERED);
    assert.equal(await focused(page), 'input', selector);
  }
});

test('one click opens the other models, another returns to the conversation, which continues', async ({ opened }) => {
  const page = await opened();
  await setOptions(page, { maxTokens: 4 });
  await page.click('.upgrade button');
  await until(page, PICKING);
  assert.match(await textOf(page, '#presets'), /Gemma 3 1B/);
  assert.ok(await page.$eval('#chat', (one) => one.checkVisibility()), 'the chat stays visible');
  await page.click('#back');
  await until(page, READY);
  await ask(page, 'Once');
  await openModels(page);
  await page.keyboard.press('Enter'); // Presses “Close”, which has the focus.
  await until(page, READY);
  assert.match(await textOf(page, '.from-user'), /Once/);
  await page.click('#change-model');
  await loadAddress(page, await modelAddress('medium')); // The storyteller stays ready during the load.
  await untilText(page, '#model-name', /medium/);
  await assertReady(page);
  assert.match(await textOf(page, '.empty'), /Ask anything/);
  assert.equal(await valueOf(page, '#opt-temperature'), '1', 'the default of the new model');
  assert.equal(await valueOf(page, '#opt-maxTokens'), '4', 'an option that the user set stays');
});

test('the storyteller is not fetched if the link names a model or the list of models, or if the browser saves data', async ({
  open,
  server,
}) => {
  const page = await open('?pick', {
    before: () => {
      if (location.search !== '?save') return;
      Object.defineProperty(navigator, 'connection', { value: { saveData: true } });
    },
  });
  for (const query of ['?pick', '?model=https://example.com/x.gguf', '?save']) {
    await page.goto(server.url + query);
    await until(page, PICKING);
  }
  assert.match(await textOf(page, '#presets li'), /Tiny storyteller/);
  await page.click('#presets li button');
  await untilReady(page);
});

test('a file that differs from the one of the build is refused, and loaded when the host has the right one', async ({
  name,
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
  const { open } = await pageIn(name, {
    intercept: ({ url = '' }, response) => {
      if (!/^\/(\?|$)/.test(url) && !(lies && url === address)) return false;
      response.setHeader('Content-Type', url === address ? 'application/octet-stream' : 'text/html; charset=utf-8');
      response.end(url === address ? spoilt : index);
      return true;
    },
  });
  const page = await open();
  await until(page, FAILED);
  assert.match(await textOf(page, FAILED), /isn’t the expected file/);
  lies = false;
  await page.reload();
  await until(page, READY);
  assert.equal(await textOf(page, '#model-name'), 'Storyteller');
});

test("a host without the storyteller's file shows the list of models and no error", async ({ name }) => {
  const { open } = await pageIn(name, { storyteller: 'storyteller-left-out.gguf' });
  const page = await open('', { expected: /Failed to load resource|404/ });
  await until(page, PICKING);
  assert.equal(await page.$(FAILED), null);
  assert.doesNotMatch(await textOf(page, '#presets'), /storyteller/);
});
