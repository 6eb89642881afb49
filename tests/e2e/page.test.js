/**
 * Tests the served page in Chromium and Firefox: from a GGUF file to text, with everything that a user can do. A test
 * fails if its tab had console errors, exceptions or violations of the content security policy.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  answerText,
  ask,
  assertReady,
  catchCopies,
  inNode,
  load,
  loadAddress,
  modelAddress,
  onlyIn,
  openTab,
  openWithModel,
  say,
  servePage,
  setOptions,
  sharedBrowser,
  shortcut,
  suite,
  textOf,
  until,
} from './helpers.js';

/** @param {string} file @returns {import('../../tools/serve.js').Options['intercept']} */
function slowly(file) {
  return (request, response) => {
    if (!request.url?.startsWith('/slow/')) return false;
    const bytes = readFileSync(file);
    const step = Math.ceil(bytes.length / 20);
    response.writeHead(200, { 'Content-Length': bytes.length });
    let at = 0;
    const timer = setInterval(() => {
      response.write(bytes.subarray(at, at + step));
      at += step;
      if (at < bytes.length) return;
      clearInterval(timer);
      response.end();
    }, 100);
    response.on('close', () => clearInterval(timer));
    return true;
  };
}

const test = suite('the page', async (name) => {
  const address = await modelAddress('tiny');
  const server = await servePage({ intercept: slowly(await testModel('medium')) });
  const browser = await sharedBrowser(name);
  return { browser, server, address };
});
/** @type {typeof test} */
const testInOne = (name, run) => test(name, run, onlyIn('chromium'));

test('a model loaded from an address gives the same two answers as Node', async ({ browser, server, address }) => {
  const options = { temperature: 0, maxTokens: 40 };
  const expected = await inNode('tiny', ['Hello there', 'And then?'], options);
  const tab = await openWithModel(browser, server.url, address, { before: catchCopies });
  await setOptions(tab.page, options);
  const got = [];
  for (const question of ['Hello there', 'And then?']) {
    await say(tab.page, question);
    await until(tab.page, ANSWERED);
    got.push(await answerText(tab.page));
  }
  assert.deepEqual(got, expected);
  assert.match(await textOf(tab.page, '.from-model:last-child .stats'), /40\stokens · [\d.,]+\stokens\/s/);
  assert.match(await textOf(tab.page, '#meter-text'), /^Context [1-9]\d+ of 512$/);
  assert.equal(await tab.page.$('#chat-notice .notice'), null);
  await tab.close();
});

testInOne('a system prompt applies to the next chat', async ({ browser, server, address }) => {
  const options = { temperature: 0, maxTokens: 20 };
  const [expected] = await inNode('tiny', ['Hello'], options, { system: 'Be brief.' });
  const tab = await openWithModel(browser, server.url, address, { before: catchCopies });
  await setOptions(tab.page, { ...options, system: 'Be brief.' });
  await say(tab.page, 'Hello');
  await until(tab.page, ANSWERED);
  assert.equal(await answerText(tab.page), expected);
  await tab.page.click('#new-chat');
  await until(tab.page, '.empty');
  assert.match(await textOf(tab.page, '#meter-text'), /^Context 0 of/);
  await tab.close();
});

test('typed text goes to the message field wherever the focus is; shortcuts need Alt and Shift', async ({
  browser,
  server,
  address,
}) => {
  const tab = await openWithModel(browser, server.url, address, { before: catchCopies });
  const { page } = tab;
  await say(page, 'Hello');
  await until(page, ANSWERED);
  await page.evaluate(() => /** @type {HTMLElement | null} */ (document.activeElement)?.blur());
  await page.keyboard.type('now make it shorter');
  assert.equal(
    await page.$eval('#input', (field) => /** @type {HTMLTextAreaElement} */ (field).value),
    'now make it shorter',
  );
  assert.equal((await page.$$('.from-model')).length, 1);
  await shortcut(page, 'n');
  await until(page, '.empty');
  await shortcut(page, 'k');
  await until(page, '#shortcuts[open]');
  await tab.close();
});

// Only Chromium emulates a touch screen.
test(
  'with a touch keyboard Enter begins a line, and the list of conversations does not open the keyboard',
  async ({ browser, server, address }) => {
    const tab = await openTab(browser, server.url, { width: 390, height: 700, before: catchCopies });
    const { page } = tab;
    await page.setViewport({ width: 390, height: 700, hasTouch: true, isMobile: true });
    await loadAddress(page, address);
    await page.focus('#input');
    await page.keyboard.type('one');
    await page.keyboard.press('Enter');
    await page.keyboard.type('two');
    assert.equal(await page.$eval('#input', (field) => /** @type {HTMLTextAreaElement} */ (field).value), 'one\ntwo');
    await page.click('#library-toggle');
    await until(page, '#library:not([hidden])');
    assert.notEqual(await page.evaluate(() => document.activeElement?.id), 'library-search');
    await tab.close();
  },
  ['chromium'],
);

test('text has the size that is set in the browser', async ({ browser, server }) => {
  const tab = await openTab(browser, server.url);
  const { page } = tab;
  const size = () => page.evaluate(() => getComputedStyle(document.body).fontSize);
  assert.equal(await size(), '16px');
  await page.evaluate(() => {
    document.documentElement.style.fontSize = '24px';
  });
  assert.equal(await size(), '24px');
  await tab.close();
});

testInOne('Retry replaces the last answer', async ({ browser, server, address }) => {
  const tab = await openWithModel(browser, server.url, address, { before: catchCopies });
  /** @type {string[]} */
  const answers = [];
  for (const seed of [1, 2, 1]) {
    await setOptions(tab.page, { seed, temperature: 1, maxTokens: 30 });
    if (answers.length) await tab.page.click('.retry');
    else await say(tab.page, 'Hello');
    await until(tab.page, ANSWERED);
    answers.push(await answerText(tab.page));
  }
  assert.notEqual(answers[1], answers[0]);
  assert.equal(answers[2], answers[0]);
  assert.equal((await tab.page.$$('.from-model')).length, 1);
  await tab.close();
});

test('after stopping with the button or with Escape, the model still answers', async ({ browser, server }) => {
  const tab = await openWithModel(browser, server.url, await modelAddress('medium'), { before: catchCopies });
  const stop = [() => tab.page.click('#stop'), () => tab.page.keyboard.press('Escape')];
  for (const act of stop) {
    await setOptions(tab.page, { temperature: 1, seed: 1, maxTokens: 4000 });
    await say(tab.page, 'Tell me everything');
    await until(tab.page, '.from-model:last-child .md');
    await act();
    await until(tab.page, ANSWERED);
    assert.match(await textOf(tab.page, '.from-model:last-child .stats'), /stopped/);
  }
  await tab.page.click('#new-chat');
  await until(tab.page, '.empty');
  const options = { temperature: 0, maxTokens: 12 };
  await setOptions(tab.page, options);
  await say(tab.page, 'Hello there');
  await until(tab.page, ANSWERED);
  const [expected] = await inNode('medium', ['Hello there'], options);
  assert.equal(await answerText(tab.page), expected);
  await tab.close();
});

testInOne('text typed as soon as a new chat appears stays', async ({ browser, server }) => {
  const tab = await openWithModel(browser, server.url, await modelAddress('tiny'));
  await setOptions(tab.page, { maxTokens: 4 });
  await ask(tab.page, 'Hello');
  await tab.page.evaluate(
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
  await tab.page.waitForFunction(
    () => location.hash === '' && document.querySelector('#input') === document.activeElement,
  );
  await tab.page.keyboard.type('o');
  assert.equal(await tab.page.$eval('#input', (field) => /** @type {HTMLTextAreaElement} */ (field).value), 'Hello');
  await tab.close();
});

test('the newest text stays in view until the reader scrolls up, and a button leads back', async ({
  browser,
  server,
}) => {
  const tab = await openWithModel(browser, server.url, await modelAddress('medium'), { height: 420 });
  await setOptions(tab.page, { temperature: 1, seed: 1, maxTokens: 4000 });
  await say(tab.page, 'Tell me everything');
  const end = () => tab.page.$eval('#scroller', (s) => s.scrollHeight - s.scrollTop - s.clientHeight);
  const grown = () =>
    tab.page.waitForFunction(
      (before) => {
        return (document.querySelector('.from-model:last-child .md')?.textContent?.length ?? 0) > before + 200;
      },
      {},
      shown,
    );
  let shown = 0;
  await grown();
  assert.ok((await end()) <= 2, `follows: ${await end()}`);
  await tab.page.keyboard.down('Shift');
  for (let i = 0; i < 4; i++) await tab.page.keyboard.press('Enter');
  await tab.page.keyboard.up('Shift');
  shown = await tab.page.$eval('.from-model:last-child .md', (md) => md.textContent?.length ?? 0);
  await grown();
  assert.ok((await end()) <= 2, 'also while the next message is written');
  await tab.page.$eval('#scroller', (s) => {
    s.scrollTop -= 12;
  });
  await until(tab.page, '#latest:not([hidden])');
  const place = await tab.page.$eval('#scroller', (s) => s.scrollTop);
  shown = await tab.page.$eval('.from-model:last-child .md', (md) => md.textContent?.length ?? 0);
  await grown();
  assert.equal(await tab.page.$eval('#scroller', (s) => s.scrollTop), place, 'lets go at the first pixels');
  await tab.page.click('#latest');
  assert.ok((await end()) <= 2, 'and follows again');
  await tab.page.click('#stop');
  await until(tab.page, ANSWERED);
  await tab.close();
});

testInOne(
  'progress shows bytes, rate and time; Cancel returns to the list of models',
  async ({ browser, server, address }) => {
    const tab = await openTab(browser, `${server.url}?model=/slow/model.gguf`);
    assert.equal(await tab.page.$eval('body', (body) => body.dataset.state), 'picking', 'a link alone loads nothing');
    // The load has a timeout of 1 ms: the test does not wait for its end, because the server is slow on purpose.
    await load(tab.page, () => tab.page.click('#web-form button'), 1).catch(() => {});
    await tab.page.waitForFunction(
      () => {
        const shown = /** @type {HTMLElement} */ (document.querySelector('#loading')).innerText;
        const bar = /** @type {HTMLProgressElement} */ (document.querySelector('#loading-bar'));
        return (
          /[\d.]+\s[kM]B of 40\.6\sMB/.test(shown) && /B\/s/.test(shown) && /s left/.test(shown) && bar.value > 0.1
        );
      },
      { timeout: 20000 },
    );
    await tab.page.click('#loading-cancel');
    await until(tab.page, PICKING);
    assert.equal(await tab.page.$(FAILED), null, 'cancelling is no error');
    await loadAddress(tab.page, address);
    await assertReady(tab.page);
    await tab.page.click('#settings-toggle');
    assert.match(await textOf(tab.page, '#info'), /gemma3[\s\S]*Q4_0/);
    await tab.page.click('#unload');
    await until(tab.page, PICKING);
    await tab.close();
  },
);

test('a chosen file and a dropped file load', async ({ browser, server, address }) => {
  const tab = await openTab(browser, server.url);
  const chooser = await tab.page.$('#file');
  const file = await testModel('tiny');
  await load(tab.page, () => /** @type {any} */ (chooser).uploadFile(file));
  await assertReady(tab.page);
  await tab.page.click('#settings-toggle');
  await tab.page.click('#unload');
  await until(tab.page, PICKING);
  const drop = (/** @type {string} */ called) =>
    tab.page.evaluate(
      async (url, as) => {
        const data = new DataTransfer();
        data.items.add(new File([await (await fetch(url)).blob()], as));
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      },
      address,
      called,
    );
  await load(tab.page, () => drop('dropped.gguf'));
  assert.equal(await textOf(tab.page, '#model-name'), 'tiny', 'as the file names it');
  await drop('during-a-chat.gguf');
  await tab.page.waitForFunction(() =>
    /^during-a-chat\.gguf/.test(document.querySelector('#change-model')?.getAttribute('title') ?? ''),
  );
  await assertReady(tab.page);
  await tab.close();
});

testInOne('a link with &load=1 loads the model without a click', async ({ browser, server, address }) => {
  const tab = await openTab(browser, server.url);
  await load(tab.page, () => tab.page.goto(`${server.url}?model=${address}&load=1&context=128`));
  await assertReady(tab.page);
  assert.match(await textOf(tab.page, '#meter-text'), /of 128$/);
  await tab.close();
});

test('keyboard: Enter sends, Shift+Enter breaks the line, HTML in a message stays text', async ({
  browser,
  server,
  address,
}) => {
  const tab = await openWithModel(browser, server.url, address);
  await setOptions(tab.page, { maxTokens: 5 });
  assert.equal(await tab.page.evaluate(() => document.activeElement?.id), 'input', 'the message field has the focus');
  await tab.page.keyboard.type('<b>one</b>');
  await tab.page.keyboard.down('Shift');
  await tab.page.keyboard.press('Enter');
  await tab.page.keyboard.up('Shift');
  await tab.page.keyboard.type('two');
  await tab.page.keyboard.press('Enter');
  await until(tab.page, ANSWERED);
  assert.equal(await tab.page.$eval('.from-user', (message) => message.textContent), '<b>one</b>\ntwo');
  assert.equal(await tab.page.$('.from-user b'), null);
  assert.equal(await tab.page.evaluate(() => document.activeElement?.id), 'input', 'and keeps it');
  await tab.close();
});

test('Tab reaches every control; nothing is wider than 360 pixels', async ({ browser, server }) => {
  const tab = await openTab(browser, server.url, { width: 360, height: 700 });
  await tab.page.evaluate(() => {
    for (const fold of document.querySelectorAll('details')) fold.open = true;
  });
  const wanted = await tab.page.evaluate(
    () =>
      [...document.querySelectorAll('#picker :is(button:enabled, summary, input, a)')].filter((one) =>
        one.checkVisibility(),
      ).length,
  );
  const seen = new Set();
  let last = '';
  for (let i = 0; i < wanted + 8; i++) {
    await tab.page.keyboard.press('Tab');
    const where = await tab.page.evaluate(() => {
      const one = document.activeElement;
      const all = [...document.querySelectorAll('#picker :is(button:enabled, summary, input, a)')].filter((one) =>
        one.checkVisibility(),
      );
      return one ? all.indexOf(/** @type {Element} */ (one)) : -1;
    });
    if (where >= 0) seen.add(where);
    last = String(where);
  }
  assert.equal(seen.size, wanted, `reached by Tab: ${[...seen]} of ${wanted}; last ${last}`);
  assert.ok(
    await tab.page.evaluate(
      () =>
        document.documentElement.scrollWidth <= innerWidth &&
        [...document.querySelectorAll('#picker *')].every((one) => one.getBoundingClientRect().right <= innerWidth + 1),
    ),
  );
  await tab.close();
});
