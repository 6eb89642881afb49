/**
 * Tests the served page in Chromium and Firefox: from a GGUF file to text, with everything that a user can do. A test
 * fails if its tab had console errors, exceptions or violations of the content security policy.
 */
import assert from 'node:assert/strict';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  answerText,
  ask,
  assertReady,
  catchCopies,
  focused,
  inNode,
  load,
  loadAddress,
  modelAddress,
  onlyIn,
  pageIn,
  say,
  setOptions,
  shortcut,
  slowly,
  suite,
  textOf,
  unload,
  until,
  untilReady,
  valueOf,
} from './helpers.js';

const test = suite('the page', (name) => pageIn(name, { intercept: slowly(/^\/models\/.*\?slow$/, () => true) }));
/** Tests only the page's own code, in one browser. storyteller.test.js compares an answer in each browser.
 * @type {typeof test} */
const testInOne = (name, run) => test(name, run, onlyIn('chromium'));

testInOne('a model loaded from an address gives the same two answers as Node', async ({ openWith }) => {
  const options = { temperature: 0, maxTokens: 40 };
  const expected = await inNode('tiny', ['Hello there', 'And then?'], options);
  const page = await openWith('tiny', { before: catchCopies });
  await setOptions(page, options);
  const got = [];
  for (const question of ['Hello there', 'And then?']) {
    await ask(page, question);
    got.push(await answerText(page));
  }
  assert.deepEqual(got, expected);
  assert.match(await textOf(page, '.from-model:last-child .stats'), /40\stokens · [\d.,]+\stokens\/s/);
  assert.match(await textOf(page, '#meter-text'), /^Context [1-9]\d+ of 512$/);
  assert.equal(await page.$('#chat-notice .notice'), null);
});

testInOne('a system prompt applies to the next chat', async ({ openWith }) => {
  const options = { temperature: 0, maxTokens: 20 };
  const [expected] = await inNode('tiny', ['Hello'], options, { system: 'Be brief.' });
  const page = await openWith('tiny', { before: catchCopies });
  await setOptions(page, { ...options, system: 'Be brief.' });
  await ask(page, 'Hello');
  assert.equal(await answerText(page), expected);
  await page.click('#new-chat');
  await until(page, '.empty');
  assert.match(await textOf(page, '#meter-text'), /^Context 0 of/);
});

test('typed text goes to the message field wherever the focus is; shortcuts need Alt and Shift', async ({
  openWith,
}) => {
  const page = await openWith('tiny', { before: catchCopies });
  await ask(page, 'Hello');
  await page.evaluate(() => /** @type {HTMLElement | null} */ (document.activeElement)?.blur());
  await page.keyboard.type('now make it shorter');
  assert.equal(await valueOf(page, '#input'), 'now make it shorter');
  assert.equal((await page.$$('.from-model')).length, 1);
  await shortcut(page, 'n');
  await until(page, '.empty');
  await shortcut(page, 'k');
  await until(page, '#shortcuts[open]');
});

// Only Chromium emulates a touch screen.
test(
  'with a touch keyboard Enter begins a line, and the list of conversations does not open the keyboard',
  async ({ open }) => {
    const page = await open('', { width: 390, height: 700, before: catchCopies });
    await page.setViewport({ width: 390, height: 700, hasTouch: true, isMobile: true });
    await loadAddress(page, await modelAddress('tiny'));
    await page.focus('#input');
    await page.keyboard.type('one');
    await page.keyboard.press('Enter');
    await page.keyboard.type('two');
    assert.equal(await valueOf(page, '#input'), 'one\ntwo');
    await page.click('#library-toggle');
    await until(page, '#library:not([hidden])');
    assert.notEqual(await focused(page), 'library-search');
  },
  ['chromium'],
);

testInOne('text has the size that is set in the browser', async ({ open }) => {
  const page = await open();
  const size = () => page.evaluate(() => getComputedStyle(document.body).fontSize);
  assert.equal(await size(), '16px');
  await page.evaluate(() => {
    document.documentElement.style.fontSize = '24px';
  });
  assert.equal(await size(), '24px');
});

testInOne('Retry replaces the last answer', async ({ openWith }) => {
  const page = await openWith('tiny', { before: catchCopies });
  /** @type {string[]} */
  const answers = [];
  for (const seed of [1, 2, 1]) {
    await setOptions(page, { seed, temperature: 1, maxTokens: 30 });
    if (answers.length) await page.click('.retry');
    else await say(page, 'Hello');
    await until(page, ANSWERED);
    answers.push(await answerText(page));
  }
  assert.notEqual(answers[1], answers[0]);
  assert.equal(answers[2], answers[0]);
  assert.equal((await page.$$('.from-model')).length, 1);
});

testInOne('after stopping with the button or with Escape, the model still answers', async ({ openWith }) => {
  const page = await openWith('medium', { before: catchCopies });
  const stop = [() => page.click('#stop'), () => page.keyboard.press('Escape')];
  for (const act of stop) {
    await setOptions(page, { temperature: 1, seed: 1, maxTokens: 4000 });
    await say(page, 'Tell me everything');
    await until(page, '.from-model:last-child .md');
    await act();
    await until(page, ANSWERED);
    assert.match(await textOf(page, '.from-model:last-child .stats'), /stopped/);
  }
  await page.click('#new-chat');
  await until(page, '.empty');
  const options = { temperature: 0, maxTokens: 12 };
  await setOptions(page, options);
  await ask(page, 'Hello there');
  const [expected] = await inNode('medium', ['Hello there'], options);
  assert.equal(await answerText(page), expected);
});

testInOne('text typed as soon as a new chat appears stays', async ({ openWith }) => {
  const page = await openWith('tiny');
  await setOptions(page, { maxTokens: 4 });
  await ask(page, 'Hello');
  await page.evaluate(
    () =>
      new Promise((typed) => {
        new MutationObserver((_, observer) => {
          if (!document.querySelector('.empty')) return;
          observer.disconnect();
          setTimeout(() => {
            const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#input'));
            field.value += 'Hell';
            field.dispatchEvent(new Event('input', { bubbles: true }));
            typed(undefined);
          });
        }).observe(/** @type {Element} */ (document.querySelector('#log')), { childList: true, subtree: true });
        /** @type {HTMLElement} */ (document.querySelector('#new-chat')).click();
      }),
  );
  await page.waitForFunction(() => location.hash === '' && document.querySelector('#input') === document.activeElement);
  await page.keyboard.type('o');
  assert.equal(await valueOf(page, '#input'), 'Hello');
});

test('the newest text stays in view until the reader scrolls up, and a button leads back', async ({ openWith }) => {
  const page = await openWith('medium', { height: 420 });
  await setOptions(page, { temperature: 1, seed: 1, maxTokens: 4000 });
  await say(page, 'Tell me everything');
  const end = () => page.$eval('#scroller', (s) => s.scrollHeight - s.scrollTop - s.clientHeight);
  const grown = () =>
    page.waitForFunction(
      (before) => {
        return (document.querySelector('.from-model:last-child .md')?.textContent?.length ?? 0) > before + 200;
      },
      {},
      shown,
    );
  let shown = 0;
  await grown();
  assert.ok((await end()) <= 2, `follows: ${await end()}`);
  await page.keyboard.down('Shift');
  for (let i = 0; i < 4; i++) await page.keyboard.press('Enter');
  await page.keyboard.up('Shift');
  shown = await page.$eval('.from-model:last-child .md', (md) => md.textContent?.length ?? 0);
  await grown();
  assert.ok((await end()) <= 2, 'the view follows the answer even while a message is typed');
  await page.$eval('#scroller', (s) => {
    s.scrollTop -= 12;
  });
  await until(page, '#latest:not([hidden])');
  const place = await page.$eval('#scroller', (s) => s.scrollTop);
  shown = await page.$eval('.from-model:last-child .md', (md) => md.textContent?.length ?? 0);
  await grown();
  assert.equal(
    await page.$eval('#scroller', (s) => s.scrollTop),
    place,
    'the view stops following after a scroll of a few pixels',
  );
  await page.click('#latest');
  assert.ok((await end()) <= 2, 'the view follows again');
  await page.click('#stop');
  await until(page, ANSWERED);
});

testInOne('progress shows bytes, rate and time; Cancel returns to the list of models', async ({ open }) => {
  const page = await open(`?model=${await modelAddress('medium')}?slow`);
  assert.equal(await page.$eval('body', (body) => body.dataset.state), 'picking', 'opening a link loads no model');
  // The load has a timeout of 1 ms: the test does not wait for its end, because the server is slow on purpose.
  await load(page, () => page.click('#web-form button'), 1).catch(() => {});
  await page.waitForFunction(
    () => {
      const shown = /** @type {HTMLElement} */ (document.querySelector('#loading')).innerText;
      const bar = /** @type {HTMLProgressElement} */ (document.querySelector('#loading-bar'));
      return /[\d.]+\s[kM]B of 40\.6\sMB/.test(shown) && /B\/s/.test(shown) && /s left/.test(shown) && bar.value > 0.1;
    },
    { timeout: 20000 },
  );
  await page.click('#loading-cancel');
  await until(page, PICKING);
  assert.equal(await page.$(FAILED), null, 'cancelling shows no error');
  await loadAddress(page, await modelAddress('tiny'));
  await assertReady(page);
  await page.click('#settings-toggle');
  assert.match(await textOf(page, '#info'), /gemma3[\s\S]*Q4_0/);
  await page.click('#unload');
  await until(page, PICKING);
});

test('a chosen file and a dropped file load', async ({ open }) => {
  const page = await open();
  const chooser = await page.$('#file');
  const file = await testModel('tiny');
  await load(page, () => /** @type {any} */ (chooser).uploadFile(file));
  await assertReady(page);
  await unload(page);
  const drop = async (/** @type {string} */ called) =>
    page.evaluate(
      async (url, as) => {
        const data = new DataTransfer();
        data.items.add(new File([await (await fetch(url)).blob()], as));
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      },
      await modelAddress('tiny'),
      called,
    );
  await load(page, () => drop('dropped.gguf'));
  assert.equal(await textOf(page, '#model-name'), 'tiny', "the model's name in the file's metadata");
  await drop('during-a-chat.gguf');
  await page.waitForFunction(() =>
    /^during-a-chat\.gguf/.test(document.querySelector('#change-model')?.getAttribute('title') ?? ''),
  );
  await assertReady(page);
});

testInOne('a link with &load=1 loads the model without a click', async ({ open }) => {
  const page = await open(`?model=${await modelAddress('tiny')}&load=1&context=128`);
  await untilReady(page);
  assert.match(await textOf(page, '#meter-text'), /of 128$/);
});

test('keyboard: Enter sends, Shift+Enter breaks the line, HTML in a message stays text', async ({ openWith }) => {
  const page = await openWith('tiny');
  await setOptions(page, { maxTokens: 5 });
  assert.equal(await focused(page), 'input', 'the message field has the focus');
  await page.keyboard.type('<b>one</b>');
  await page.keyboard.down('Shift');
  await page.keyboard.press('Enter');
  await page.keyboard.up('Shift');
  await page.keyboard.type('two');
  await page.keyboard.press('Enter');
  await until(page, ANSWERED);
  assert.equal(await page.$eval('.from-user', (message) => message.textContent), '<b>one</b>\ntwo');
  assert.equal(await page.$('.from-user b'), null);
  assert.equal(await focused(page), 'input', 'the message field keeps the focus');
});

test('Tab reaches every control; nothing is wider than 360 pixels', async ({ open }) => {
  const page = await open('', { width: 360, height: 700 });
  await page.evaluate(() => {
    for (const fold of document.querySelectorAll('details')) fold.open = true;
  });
  const wanted = await page.evaluate(
    () =>
      [...document.querySelectorAll('#picker :is(button:enabled, summary, input, a)')].filter((one) =>
        one.checkVisibility(),
      ).length,
  );
  const seen = new Set();
  let last = '';
  for (let i = 0; i < wanted + 8; i++) {
    await page.keyboard.press('Tab');
    const where = await page.evaluate(() => {
      const one = document.activeElement;
      const all = [...document.querySelectorAll('#picker :is(button:enabled, summary, input, a)')].filter((one) =>
        one.checkVisibility(),
      );
      return one ? all.indexOf(/** @type {Element} */ (one)) : -1;
    });
    if (where >= 0) seen.add(where);
    last = String(where);
  }
  assert.equal(seen.size, wanted, `Tab reaches all ${wanted} controls: reached ${[...seen]}, last ${last}`);
  assert.ok(
    await page.evaluate(
      () =>
        document.documentElement.scrollWidth <= innerWidth &&
        [...document.querySelectorAll('#picker *')].every((one) => one.getBoundingClientRect().right <= innerWidth + 1),
    ),
  );
});
