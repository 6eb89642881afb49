/**
 * Tests thinking on the page: the setting, and the collapsed thoughts of answers, which open by keyboard and survive a
 * reload.
 */
import assert from 'node:assert/strict';
import { ANSWERED, ask, onlyIn, pageIn, reload, setOptions, suite, until, untilKept } from './helpers.js';

const test = suite('thoughts', (name) => pageIn(name), onlyIn('chromium'));

test('thoughts are collapsed above the answer, apart from its text, and survive a reload', async ({ openWith }) => {
  const page = await openWith('gemma4-thinks');
  await setOptions(page, { temperature: 0, maxTokens: 24 });
  await ask(page, 'Hello');
  assert.equal(await page.$('.thoughts'), null);
  await page.click('#settings-toggle');
  assert.equal(await page.$eval('#thinking', (one) => /** @type {HTMLElement} */ (one).hidden), false);
  await page.click('#opt-thinking');
  await page.click('#settings-toggle');
  await page.evaluate(() => {
    const heads = /** @type {any} */ (window);
    heads.heads = [];
    new MutationObserver(() => {
      const head = document.querySelector('.from-model:last-child .thoughts summary')?.textContent;
      if (head && heads.heads.at(-1) !== head) heads.heads.push(head);
    }).observe(/** @type {Node} */ (document.querySelector('#log')), { subtree: true, childList: true });
  });
  await ask(page, 'Think');
  const heads = /** @type {string[]} */ (await page.evaluate(() => /** @type {any} */ (window).heads));
  assert.equal(heads[0], 'Thinking…');
  assert.match(heads[heads.length - 1], /^Thought for \S/);
  const parts = () =>
    page.$eval('.from-model:last-child', (answer) => {
      const thoughts = /** @type {HTMLDetailsElement} */ (answer.querySelector('.thoughts'));
      const [head, body] = [...thoughts.children].map((one) => one.textContent);
      return { head, body, open: thoughts.open, text: answer.querySelector('.md')?.textContent };
    });
  const shown = await parts();
  assert.ok(shown.body && shown.text && !shown.open, JSON.stringify(shown));

  await page.focus('.from-model:last-child .thoughts summary');
  await page.keyboard.press('Enter');
  assert.equal((await parts()).open, true);

  await untilKept(page);
  await reload(page);
  await until(page, ANSWERED);
  assert.deepEqual(await parts(), { ...shown, open: false });
  assert.equal(await page.$eval('#opt-thinking', (one) => /** @type {HTMLInputElement} */ (one).checked), true);
});
