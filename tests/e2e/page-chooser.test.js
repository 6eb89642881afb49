/**
 * Tests the model chooser, a dialog on the page. It covers the conversation, which keeps its answer, its address and
 * the focus. Every way of closing the chooser returns to the conversation.
 */
import assert from 'node:assert/strict';
import {
  ANSWERED,
  READY,
  ask,
  focused,
  modelAddress,
  onlyIn,
  openModels,
  pageIn,
  press,
  say,
  setOptions,
  shortcut,
  shown,
  slowly,
  submitAddress,
  suite,
  textOf,
  until,
  untilCount,
  untilProgress,
  untilText,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

const OPEN = '#chooser[open]';
let slow = false;

/** @param {Page} page */
const closed = (page) =>
  page.waitForFunction(() => !document.querySelector('#chooser[open]') && !/models/.test(location.hash));

const test = suite(
  'the model chooser',
  async (name) => {
    const { open } = await pageIn(name, {
      storyteller: await modelAddress('tiny'),
      intercept: slowly(/^\/models\/medium/, () => slow),
    });

    /** @param {import('./helpers.js').TabOptions} [options] */
    async function asked(options) {
      const page = await open('', options);
      await until(page, READY);
      await setOptions(page, { maxTokens: 4 });
      await ask(page, 'Stay');
      return page;
    }
    return { asked };
  },
  onlyIn('chromium'),
);

test('a button, Escape, Back and a click outside close the dialog and return the focus', async ({ asked }) => {
  const page = await asked();
  const address = page.url();
  const said = await shown(page);
  /** @type {(() => Promise<unknown>)[]} */
  const ways = [
    () => page.keyboard.press('Enter'), // Presses “Close”, which has the focus.
    () => page.keyboard.press('Escape'),
    () => page.evaluate(() => history.back()),
    () => page.mouse.click(5, 400),
  ];
  for (const close of ways) {
    await page.focus('#change-model');
    await page.keyboard.press('Enter');
    await page.waitForSelector(OPEN);
    assert.equal(await focused(page), 'back');
    assert.equal(await textOf(page, '#back'), 'Close');
    assert.match(page.url(), /#\/c\/[\w-]+\/models$/);
    assert.ok(await page.$eval('#log', (one) => one.checkVisibility()), 'the conversation stays visible');
    assert.match(await textOf(page, '#storyteller'), /in use[\s\S]*Reload/);
    await close();
    await closed(page);
    assert.equal(await focused(page), 'change-model');
    assert.equal(page.url(), address);
    assert.deepEqual(await shown(page), said);
  }
  await page.evaluate(() => history.back());
  await page.waitForFunction(() => !location.hash && document.querySelector('#log .empty'));
});

test('an open dialog survives a reload, keeps Tab inside and disables shortcuts', async ({ asked }) => {
  const page = await asked();
  const said = await shown(page);
  await openModels(page);
  await page.reload();
  await page.waitForSelector(OPEN);
  await until(page, READY);
  assert.deepEqual(await shown(page), said);
  await page.focus('#load-options summary');
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press('Tab');
    // After the last element of the dialog, Tab moves the focus to the browser's own controls.
    assert.ok(
      await page.evaluate(
        () =>
          [null, document.body].includes(/** @type {any} */ (document.activeElement)) ||
          Boolean(document.activeElement?.closest('#chooser')),
      ),
    );
  }
  await shortcut(page, 'n');
  await page.focus('#back');
  await shortcut(page, 'n');
  assert.deepEqual(await shown(page), said);
  await page.keyboard.press('Escape');
  await closed(page);
  assert.deepEqual(await shown(page), said);
});

test('the dialog shows the running load with Pause and Cancel; Escape stops neither the load nor an answer', async ({
  asked,
}) => {
  slow = true;
  const page = await asked({ width: 390 });
  await openModels(page);
  const low = await page.$eval('#chooser', (one) => innerHeight - one.getBoundingClientRect().bottom);
  assert.ok(Math.abs(low) < 1, 'the chooser is at the bottom of a narrow window');
  await submitAddress(page, await modelAddress('medium'));
  await closed(page);
  await page.waitForSelector('#chat > #loading');
  await untilProgress(page, 0.05);
  await setOptions(page, { temperature: 1, seed: 1, maxTokens: 3000 });
  await say(page, 'Tell me everything');
  await untilCount(page, '.from-user', 2);
  await page.click('#change-model');
  await page.waitForSelector(`${OPEN} #loading`);
  await press(page, '#loading-pause', 'Pause');
  await untilText(page, '#loading-title', /^Paused$/);
  assert.deepEqual(
    await page.$$eval('#stored-list li:not([hidden])', (all) => all.map((one) => one.textContent)),
    [],
    'a paused download is not in the list',
  );
  await page.keyboard.press('Escape');
  await closed(page);
  await page.waitForSelector('#chat > #loading');
  assert.equal(await textOf(page, '#loading-title'), 'Paused');
  await until(page, ANSWERED); // The answer ended by itself, or the context was full.
  assert.doesNotMatch(await textOf(page, '.from-model:last-child .answer-foot'), /stopped/);
  await openModels(page);
  await press(page, '#loading-cancel', 'Cancel');
  await page.waitForSelector('#stored-list li:not([hidden])');
  assert.ok(await page.$(OPEN));
  slow = false;
  await press(page, '#stored-list button', 'Resume');
  await untilText(page, '#model-name', /medium/, 60000);
  await closed(page);
});

/** Runs in the page before its scripts: the model claims to have 1 GB of weights and to decode 10 tokens per second. */
function claimSpeed() {
  const { set } = /** @type {any} */ (Object.getOwnPropertyDescriptor(Worker.prototype, 'onmessage'));
  Object.defineProperty(Worker.prototype, 'onmessage', {
    set(handler) {
      set.call(this, (/** @type {MessageEvent} */ event) => {
        const { memory, timings } = Object(event.data?.value);
        if (memory) memory.resident = 1e9;
        if (timings) timings.decodeTokensPerSecond = 10;
        handler(event);
      });
    },
  });
}

test('after a long answer of a large model, the list estimates the speed of the others', async ({ asked }) => {
  /** @param {Page} page */
  const none = async (page) => {
    await openModels(page);
    await page.waitForNetworkIdle({ idleTime: 300 });
    return (await page.$('.speed')) === null;
  };
  const longer = { temperature: 0, maxTokens: 16 };
  // In a reused tab, the network is never idle if workers of an earlier page ended during their requests.
  const fresh = { reuse: '' };
  const small = await asked(fresh);
  await setOptions(small, longer);
  await ask(small, 'More');
  assert.ok(await none(small), 'no speeds are estimated from a small model');
  const page = await asked({ ...fresh, before: claimSpeed });
  assert.ok(await none(page), 'no speeds are estimated from a short answer');
  await page.click('#back');
  await closed(page);
  await setOptions(page, longer);
  await ask(page, 'More');
  await openModels(page);
  await page.waitForSelector('.speed');
  const found = Object.fromEntries(
    await page.$$eval('.speed', (all) =>
      all.map((one) => [one.closest('li')?.querySelector('.name')?.firstChild?.textContent, one.textContent]),
    ),
  );
  const said = (/** @type {string} */ rate) =>
    `About ${rate}\u00a0tokens/s on this device, estimated from Storyteller.`;
  assert.equal(found['Gemma 3 270M'], said('34'));
  assert.equal(found['Gemma 4 E2B (Google)'], said('6.5'));
  assert.equal(found['Gemma 4 E4B (Google)'], said('3.3'));
});
