/**
 * Tests saved conversations: saved continuously, restored with their drafts after a reload or after the tab was killed
 * during an answer; found, renamed, pinned, deleted and undeleted; versions of messages and answers; Back and Forward;
 * a failing model loses nothing.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { sleep } from '../lab/inject.js';
import {
  ANSWERED,
  FAILED,
  READY,
  answerText,
  ask,
  assertReady,
  catchCopies,
  fill,
  focused,
  importConversations,
  importFile,
  load,
  loadAddress,
  modelAddress,
  onlyIn,
  openModels,
  pageIn,
  press,
  reload,
  say,
  setOptions,
  shortcut,
  shown,
  suite,
  textOf,
  until,
  untilCount,
  untilReady,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

/** @param {Page} page */
const listed = (page) => page.$$eval('.talk-title', (all) => all.map((one) => one.textContent));

/** Waits until the list shows these conversations. It is updated after the conversation is.
 * @param {Page} page @param {string[]} titles */
const untilListed = (page, ...titles) =>
  page.waitForFunction(
    (expected) => [...document.querySelectorAll('.talk-title')].map((one) => one.textContent).join('\n') === expected,
    {},
    titles.join('\n'),
  );

/** @param {Page} page */
const kept = (page) =>
  page.evaluate(async () => {
    const database = await new Promise((resolve) => {
      const request = indexedDB.open('gemma-wasm');
      request.onsuccess = () => resolve(request.result);
    });
    const all = await new Promise((resolve) => {
      const request = /** @type {IDBDatabase} */ (database).transaction('bodies').objectStore('bodies').getAll();
      request.onsuccess = () => resolve(request.result);
    });
    /** @type {IDBDatabase} */ (database).close();
    return /** @type {any[]} */ (all).map(({ kept: { said } }) => said.map((/** @type {any} */ one) => one.text));
  });

/** Adds a question and an answer to the conversation in the page's database, as another tab would.
 * @param {Page} page */
const saidElsewhere = (page) =>
  page.evaluate(async () => {
    /** @type {IDBDatabase} */
    const database = await new Promise((resolve) => {
      const request = indexedDB.open('gemma-wasm');
      request.onsuccess = () => resolve(request.result);
    });
    await new Promise((resolve) => {
      const transaction = database.transaction('bodies', 'readwrite');
      const bodies = transaction.objectStore('bodies');
      transaction.oncomplete = resolve;
      const request = bodies.getAll();
      request.onsuccess = () => {
        const [{ id, kept }] = request.result;
        const state = 'whole';
        const said = [
          { id: 'q', parent: kept.leaf, role: 'user', text: 'Said elsewhere', state },
          { id: 'a', parent: 'q', role: 'assistant', text: 'Heard', state },
        ];
        bodies.put({ id, kept: { said: [...kept.said, ...said], leaf: 'a' } });
      };
    });
    database.close();
  });

const test = suite('conversations', async (name) => {
  const { open, openWith } = await pageIn(name, { storyteller: await modelAddress('tiny') });

  /** @param {import('./helpers.js').TabOptions} [options] */
  async function opened(options) {
    const page = await open('', options);
    await untilReady(page);
    await setOptions(page, { temperature: 0, maxTokens: 6 });
    return page;
  }
  return { openWith, opened };
});
/** Tests only the page's own code, in one browser. The other tests show that each browser stores conversations.
 * @type {typeof test} */
const testInOne = (name, run) => test(name, run, onlyIn('chromium'));

test('a reload keeps the conversation, its settings and the draft, and does not change the next answer', async ({
  opened,
}) => {
  const page = await opened({ before: catchCopies });
  await ask(page, 'Hello there');
  await ask(page, 'And then?');
  const before = await shown(page);
  await ask(page, 'Tell me more');
  const third = await answerText(page);
  await page.click('.question-foot:nth-last-child(2) button'); // Presses “Edit” at the last question.
  await page.click('#editing-cancel');
  await page.type('#input', 'half a sentence');
  await until(page, '#draft-tokens:not(:empty)');
  await sleep(400);
  await reload(page);
  assert.deepEqual((await shown(page)).slice(0, 4), before);
  assert.equal(await valueOf(page, '#input'), 'half a sentence');
  assert.equal(await valueOf(page, '#opt-maxTokens'), '6');
  await fill(page, '#input', '');
  await page.click(ANSWERED);
  await untilText(page, '.from-model:last-child .versions', /2\/2/);
  await until(page, ANSWERED);
  assert.equal(await answerText(page), third, 'with greedy decoding, the new answer is the same');
});

testInOne('a draft saved when the page was hidden does not come back after it was sent', async ({ opened }) => {
  const page = await opened();
  await ask(page, 'One');
  await page.type('#input', 'Two');
  await page.evaluate(() => dispatchEvent(new Event('pagehide'))); // Browsers send this event when they suspend a tab.
  await page.waitForFunction(() => /Two/.test(sessionStorage.getItem('gemma-wasm.left') ?? ''));
  await page.keyboard.press('Enter');
  await until(page, '.from-user:nth-last-child(3)');
  await until(page, ANSWERED);
  assert.equal(await page.evaluate(() => sessionStorage.getItem('gemma-wasm.left')), null);
  await reload(page);
  assert.equal((await shown(page)).length, 4);
  assert.equal(await valueOf(page, '#input'), '');
});

test('if the tab crashes during an answer, the text that was saved every second is shown', async ({ opened }) => {
  const doomed = await opened();
  await setOptions(doomed, { temperature: 1, seed: 1, maxTokens: 400 });
  await say(doomed, 'Tell me everything');
  let saved = '';
  while (saved.length < 40) {
    await sleep(50);
    saved = (await kept(doomed))[0]?.[1] ?? '';
  }
  const page = await doomed.browserContext().newPage();
  const address = doomed.url();
  await doomed.close();
  await page.goto(address);
  await until(page, `${READY}, ${FAILED}`);
  await until(page, ANSWERED);
  assert.equal((await kept(page))[0][1].slice(0, saved.length), saved);
  assert.ok((await textOf(page, '.from-model .md')).length > 20);
  assert.match(await textOf(page, '.from-model .stats'), /interrupted|tokens/);
});

testInOne('a tab does not overwrite a newer copy of a conversation, or its pin', async ({ opened }) => {
  const page = await opened();
  await ask(page, 'One');
  const other = await page.browserContext().newPage();
  await other.goto(page.url());
  await until(other, READY);
  await setOptions(other, { temperature: 0, maxTokens: 6 });
  await ask(other, 'Two');
  await untilCount(other, '.from-user', 2);
  await until(other, ANSWERED);
  const now = await shown(other);
  // The first tab shows the answer as soon as the other one has saved it.
  while (!isDeepStrictEqual(await shown(page), now)) await sleep(20);
  await other.close();
  await reload(page);
  assert.deepEqual(await shown(page), now);
  await page.click('#library-toggle');
  await press(page, '.talk-line .icon', '⋯'); // unlike click(), works while the list is being updated
  await press(page, '.talk-menu:not([hidden]) button', 'Pin');
  const pinned = () => untilText(page, '.talk[aria-current]', /pinned/);
  await pinned();
  await ask(page, 'Three');
  await reload(page);
  await pinned();
});

testInOne(
  "two tabs continue one conversation: each shows the other's messages, and all are kept",
  async ({ opened }) => {
    const page = await opened();
    await ask(page, 'One');
    const other = await page.browserContext().newPage();
    await other.goto(page.url());
    await until(other, READY);
    await ask(other, 'Two');
    await page.bringToFront(); // Browsers do not draw background tabs.
    await untilCount(page, '.from-user', 2);
    assert.deepEqual(await shown(page), await shown(other));
    // If two tabs add a message at the same time, the messages become two versions of one message.
    await saidElsewhere(page);
    await ask(page, 'Said here');
    const both = () => untilText(page, '#log', /[12]\/2/);
    await both();
    assert.equal((await shown(page))[4], 'Said here');
    await other.bringToFront();
    await untilCount(other, '.from-user', 3);
    await setOptions(other, { maxTokens: 12 });
    await other.click('.from-model:last-child .continue-answer');
    await until(other, ANSWERED);
    const longer = await shown(other);
    await page.bringToFront();
    await page.waitForFunction(
      (text) => document.querySelector('.from-model:last-child .md')?.textContent?.trim() === text,
      {},
      longer[5],
    );
    await other.close();
    await reload(page);
    await both();
  },
);

testInOne(
  'a failed Retry keeps the previous answer; Back and Forward during an answer lose none of its text',
  async ({ opened }) => {
    const page = await opened();
    await ask(page, 'Elsewhere');
    await page.click('#new-chat');
    await untilCount(page, '.from-user', 0);
    await ask(page, 'One');
    await ask(page, 'Two');
    const said = await shown(page);
    const address = page.url();
    await page.goto(address.replace('#', '?context=32#')); // The conversation does not fit into 32 tokens.
    await until(page, READY);
    await page.click('.from-model:last-child .retry');
    await until(page, '.from-model .error');
    assert.deepEqual((await shown(page)).slice(0, 4), said);
    await page.goto(address);
    await until(page, READY);
    assert.deepEqual(await shown(page), said);
    await setOptions(page, { temperature: 1, seed: 3, maxTokens: 1200 });
    await say(page, 'Three');
    // Waits for the answer's first words: if the conversation were closed earlier, the question would stay without an
    // answer.
    await page.waitForFunction(
      () =>
        document.querySelectorAll('.from-user').length === 3 &&
        document.querySelector('#log > .from-model:last-child .md')?.textContent,
    );
    await page.evaluate(async () => {
      const went = (/** @type {'back' | 'forward'} */ where) =>
        new Promise((resolve) => {
          addEventListener('popstate', resolve, { once: true });
          history[where]();
        });
      document.querySelector('#log')?.lastElementChild?.setAttribute('data-old', '');
      history.pushState(null, '', location.href.replace(/#.*/, '#/'));
      await went('back');
      await went('forward');
      await went('back');
    });
    await until(page, '#log > .from-model:last-child:not([data-old])');
    await until(page, ANSWERED);
    const now = await shown(page);
    await reload(page);
    assert.deepEqual(await shown(page), now);
  },
);

testInOne('a conversation deleted during its answer stays deleted', async ({ opened }) => {
  const page = await opened();
  await setOptions(page, { temperature: 1, seed: 1, maxTokens: 1000 });
  await page.evaluate(() => {
    const press = (/** @type {string} */ where) =>
      /** @type {HTMLElement | null} */ (document.querySelector(where))?.click();
    new MutationObserver((_, observer) => {
      // Deletes the conversation during the answer, as soon as its first words appear.
      if (!document.querySelector('.from-model .md')?.textContent || !document.querySelector('.talk-line .icon'))
        return;
      observer.disconnect();
      press('.talk-line .icon');
      press('.talk-menu:not([hidden]) button:last-child');
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await say(page, 'Tell me everything');
  await until(page, '#toast:not([hidden])');
  await untilListed(page);
  await reload(page);
  assert.deepEqual(await listed(page), [], 'the deleted conversation does not reappear');
});

testInOne(
  'versions of answers and messages, each with the messages after it; a separate branch',
  async ({ opened }) => {
    const page = await opened();
    await ask(page, 'One');
    const first = await shown(page);
    await page.click('.question-foot button');
    assert.match(await textOf(page, '#editing'), /Editing an earlier message/);
    assert.equal(await valueOf(page, '#input'), 'One');
    await fill(page, '#input', '');
    await page.keyboard.type('Uno');
    await page.keyboard.press('Enter');
    await untilText(page, '.from-user', /^Uno$/);
    await until(page, ANSWERED);
    assert.match(await textOf(page, '.question-foot .versions'), /2\/2/);
    await ask(page, 'Two');
    const versions = '.from-model:last-child .versions';
    for (const count of [/2\/2/, /3\/3/]) {
      await page.click(ANSWERED);
      await untilText(page, versions, count);
      await until(page, ANSWERED);
    }
    for (let i = 0; i < 2; i++) await page.click(`${versions} button`);
    await page.focus(`${versions} button:last-child`);
    for (let i = 0; i < 2; i++) await page.keyboard.press('Enter');
    assert.match(await textOf(page, versions), /3\/3/, 'the focus stays on the button');
    await page.click('.question-foot .versions button');
    assert.deepEqual(await shown(page), first, 'the first version is shown with its own answer');
    await page.click('.question-foot .versions button:last-child');
    assert.equal((await shown(page)).length, 4, 'the other version is shown with all later messages');
    await press(page, '.from-model .later', 'Branch');
    await untilCount(page, '.from-user', 1);
    assert.equal((await shown(page))[0], 'Uno');
    await untilCount(page, '#library-list .talk-line', 2);
    assert.deepEqual((await listed(page)).sort(), ['One', 'One (branch)']);
  },
);

/** @param {Page} page */
async function askTwice(page) {
  for (const text of ['About dragons', 'About boats']) {
    await page.click('#new-chat');
    await until(page, '.empty');
    await ask(page, text);
  }
}

testInOne('the list: search, rename, pin', async ({ opened }) => {
  const page = await opened();
  await askTwice(page);
  await page.click('#library-toggle');
  assert.equal(await focused(page), 'library-search');
  await untilListed(page, 'About boats', 'About dragons');
  await page.keyboard.type('drag');
  await untilListed(page, 'About dragons');
  assert.match(await textOf(page, '.talk-hit'), /About dragons/);
  assert.equal(await textOf(page, '.talk-hit mark'), 'drag');
  await page.click('.talk-line button');
  await press(page, '.talk-menu button', 'Rename');
  await page.keyboard.type('Fire');
  await page.keyboard.press('Enter');
  const untilFocused = (/** @type {string} */ label) =>
    page.waitForFunction((one) => document.activeElement?.getAttribute('aria-label') === one, {}, label);
  await untilFocused('Options for “Fire”');
  assert.equal(await page.title(), 'About boats · gemma-wasm');
  await fill(page, '#library-search', '');
  await untilCount(page, '.talk', 2);
  const lines = () => page.$$eval('.talk-line', (all) => all.map((one) => one.getBoundingClientRect().top));
  const before = await lines();
  await page.click('.talk-line button');
  await until(page, '.talk-menu:not([hidden])');
  assert.deepEqual(await lines(), before, 'the menu does not move the list');
  const gaps = await page.$$eval('.talk-menu:not([hidden]) button', (all) => {
    const places = all.map((one) => one.getBoundingClientRect());
    return places.slice(1).map(({ top }, i) => top - places[i].bottom);
  });
  assert.ok(gaps[3] > gaps[0], `“Delete” is set apart: ${gaps}`);
  await page.click('.scroller');
  assert.equal(await page.$('.talk-menu:not([hidden])'), null, 'a click elsewhere closes the menu');
  await page.click('.talk-line button');
  await page.keyboard.press('Escape');
  assert.equal(await page.$('.talk-menu:not([hidden])'), null, 'Escape closes it, even from its button');
  await (await page.$$('.talk-line button'))[1].click();
  await page.click('.talk-menu:not([hidden]) button:nth-child(2)'); // Presses “Pin”.
  await untilListed(page, 'Fire', 'About boats');
  await untilFocused('Options for “Fire”');
  await page.click('.talk');
  await untilText(page, '.from-user', /^About dragons$/);
  assert.equal(await page.title(), 'Fire · gemma-wasm');
});

testInOne('the list: Back and Forward, delete, undo, drafts', async ({ opened }) => {
  const page = await opened();
  await askTwice(page);
  await page.click('#library-toggle');
  await untilListed(page, 'About boats', 'About dragons');
  await (await page.$$('.talk'))[1].click();
  await untilText(page, '.from-user', /^About dragons$/);
  await page.goBack();
  await untilText(page, '.from-user', /^About boats$/);
  await page.goForward();
  await untilText(page, '.from-user', /^About dragons$/);
  await openModels(page);
  await page.goBack();
  await until(page, READY);
  assert.equal(
    await page.$eval('.from-user', (one) => one.textContent),
    'About dragons',
    'Back does not leave the page',
  );

  await (await page.$$('.talk-line button'))[1].click();
  await press(page, '.talk-menu:not([hidden]) button', 'Delete');
  await until(page, '#toast:not([hidden])');
  await until(page, '.empty');
  const places = await page.evaluate(() =>
    ['#toast', '#composer'].map((id) => document.querySelector(id)?.getBoundingClientRect().toJSON()),
  );
  assert.ok(places[0].bottom <= places[1].top, 'the toast does not cover the message field');
  await untilListed(page, 'About boats');
  await page.click('#toast button');
  await untilListed(page, 'About boats', 'About dragons');
  await page.waitForFunction(() => /** @type {HTMLElement} */ (document.querySelector('#toast')).hidden);
  assert.equal(await focused(page), 'library-search');

  // A draft stays in its conversation, even if another conversation is opened immediately.
  const draft = (/** @type {string} */ text) =>
    page.waitForFunction(
      (value) => /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value === value,
      {},
      text,
    );
  await page.type('#input', 'half');
  await page.click('.talk');
  await page.waitForSelector('.from-user');
  await draft('');
  await page.click('#new-chat');
  await draft('half');

  // A changed earlier message becomes the draft if another conversation is opened; an unchanged one does not.
  const openFirst = () => page.$eval('.talk', (one) => /** @type {HTMLElement} */ (one).click());
  for (const typed of ['', ' and more']) {
    await openFirst();
    await until(page, '.question-foot button');
    await page.click('.question-foot button');
    await page.type('#input', typed);
    await page.click('#new-chat');
    await draft('half');
    await openFirst();
    await draft(typed && `About boats${typed}`);
  }
});

testInOne('an edited message and the draft beside it survive a switch and a reload', async ({ opened }) => {
  const page = await opened();
  /** @param {string} text @param {boolean} editing */
  const untilField = (text, editing) =>
    page.waitForFunction(
      (value, hidden) =>
        /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value === value &&
        /** @type {HTMLElement} */ (document.querySelector('#editing')).hidden === hidden,
      {},
      text,
      !editing,
    );
  await ask(page, 'About boats');
  await page.type('#input', 'half');
  await page.click('.question-foot button');
  await page.type('#input', ' and more');
  await page.click('#new-chat');
  await untilField('', false);
  await page.goBack();
  await untilField('About boats and more', true);
  await reload(page);
  await untilField('About boats and more', true);
  await page.focus('#input');
  await page.keyboard.press('Enter');
  await untilText(page, '.question-foot .versions', /2\/2/);
  await until(page, ANSWERED);
  await untilField('half', false);
  await press(page, '.question-foot button', 'Edit');
  await fill(page, '#input', '');
  await reload(page);
  await untilField('half', false);
});

testInOne(
  'the list scrolls to all of 150 conversations, in search results too; its field and footer stay visible',
  async ({ opened }) => {
    const page = await opened({ width: 360, height: 640 });
    await page.click('#library-toggle');
    const conversations = Array.from({ length: 150 }, (_, n) => ({
      title: `Talk ${n}`,
      named: true,
      created: 1e12 + n,
      updated: 1e12 + n,
      said: [
        {
          id: `q${n}`,
          parent: null,
          role: 'user',
          state: 'whole',
          text: n % 2 ? 'odd words' : `even words, number ${n}`,
        },
      ],
    }));
    await importConversations(page, conversations);
    const count = (/** @type {number} */ n) => untilCount(page, '.talk', n);
    const more = async () => {
      await page.focus('#library-more');
      await page.keyboard.press('Enter');
    };
    await count(60);
    await more();
    await count(120);
    await page.waitForSelector('.talk:focus');
    assert.equal(
      await textOf(page, '.talk:focus .talk-title'),
      'Talk 89',
      'the focus is on the first new conversation',
    );
    await more();
    await count(150);
    assert.ok(await page.$('#library-more[hidden]'));
    const inSight = await page.evaluate(() =>
      ['#library-search', '#library-export', '#library-keep'].map((id) => {
        const { top, bottom } = /** @type {HTMLElement} */ (document.querySelector(id)).getBoundingClientRect();
        return top >= 0 && bottom <= innerHeight;
      }),
    );
    assert.deepEqual(inSight, [true, true, true]);
    await page.type('#library-search', 'odd');
    await count(60);
    await more();
    await count(75);
  },
);

testInOne('failures are shown until they are dismissed or resolved', async ({ opened }) => {
  const page = await opened();
  const setRoom = (/** @type {boolean} */ hasRoom) =>
    page.evaluate((on) => void Object.assign(window, { hasRoom: on }), hasRoom);
  const failures = () => page.$$eval('#failures .notice span', (all) => all.map((one) => one.textContent));
  await page.evaluate(() => {
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = function (/** @type {[value: any, key?: IDBValidKey]} */ ...args) {
      if (/** @type {any} */ (globalThis).hasRoom) return put.apply(this, args);
      throw new DOMException('no room', 'QuotaExceededError');
    };
  });
  await ask(page, 'Without room');
  await until(page, '#failures .notice');
  assert.match((await failures()).join(), /^Couldn’t save this conversation: browser storage is full/);
  assert.equal(await page.$eval('#failures', (one) => one.getAttribute('role')), 'alert');
  await page.click('#failures button');
  assert.deepEqual(await failures(), []);
  assert.equal(await focused(page), 'input');
  await press(page, '.from-model .later', 'Branch');
  await until(page, '#failures .notice');
  await setRoom(true);
  await ask(page, 'With room');
  await untilCount(page, '#failures .notice', 0);
  await setRoom(false);
  await ask(page, 'Without room again');
  await until(page, '#failures .notice');
  await page.evaluate(() => dispatchEvent(new Event('pagehide')));
  await page.click('#library-toggle');
  await press(page, '.talk-line .icon', '⋯'); // unlike click(), works while the list is being updated
  await press(page, '.talk-menu:not([hidden]) button', 'Pin');
  await untilText(page, '#library-said', /storage is full/);
  const left = await page.evaluate(() => sessionStorage.getItem('gemma-wasm.left'));
  assert.match(left ?? '', /Without room again/, 'messages stay in the tab until they are saved');
  await page.type('#input', 'half');
  await sleep(400);
  const address = page.url();
  await page.click('#new-chat');
  await until(page, '.empty');
  await page.evaluate((url) => location.replace(url), address);
  await page.waitForFunction(
    () => /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value === 'half',
  );
  await fill(page, '#input', '');
  await setRoom(true);
  await ask(page, 'With room again');
  await untilCount(page, '#failures .notice', 0);

  await page.click('#settings-toggle');
  await page.click('#unload');
  await page.waitForFunction(() => document.body.dataset.state !== 'ready');
  await page.evaluate(() => {
    location.hash = /** @type {HTMLAnchorElement} */ (document.querySelector('.talk')).hash;
  });
  await until(page, 'body[data-state="reading"] .retry');
  await page.click('.retry');
  await until(page, '#failures .notice');
  assert.deepEqual(await failures(), ['No model is loaded. Load one to get an answer.']);
  await shortcut(page, 'S');
  assert.equal(await page.$eval('body', (one) => one.dataset.panel), '', 'no panel opens without a model');
});

testInOne(
  'if the browser closes the database, the page says so, and a reload saves the conversation',
  async ({ opened }) => {
    const page = await opened();
    await ask(page, 'Before');
    await page.waitForSelector('.talk');
    await page.evaluate(
      () =>
        new Promise((resolve) => {
          indexedDB.deleteDatabase('gemma-wasm').onsuccess = resolve;
        }),
    );
    await ask(page, 'After');
    await untilText(page, '#failures .notice span', /^Couldn’t save this conversation\. Reload the page/);
    await untilText(page, '#failures details[open] pre', /^InvalidStateError: /);
    const said = await shown(page);
    await reload(page);
    assert.deepEqual(await shown(page), said);
    assert.deepEqual(await kept(page), [said]);
    assert.equal(await page.$('#failures .notice'), null);
  },
);

test('no button covers the suggestions of a new conversation in a small window', async ({ opened }) => {
  const page = await opened({ width: 360, height: 480 });
  await page.evaluate(() => document.querySelector('#scroller')?.scrollTo(0, 1));
  await page.evaluate(() => document.querySelector('#scroller')?.scrollTo(0, 0));
  await sleep(200);
  assert.ok(
    await page.$eval('#scroller', (one) => one.scrollHeight > one.clientHeight),
    'the messages are higher than the window',
  );
  assert.ok(await page.$('#latest[hidden]'));
});

testInOne('with saving turned off, no conversation is stored', async ({ opened }) => {
  const page = await opened();
  const other = await page.browserContext().newPage();
  await other.goto(page.url());
  await until(other, READY);
  await page.bringToFront();
  await page.click('#library-toggle');
  await page.click('#library-keep');
  await page.click('#theme');
  await until(other, 'html[data-theme="light"] #library-keep:checked');
  const color = await other.$eval('#theme-color', (one) => /** @type {HTMLMetaElement} */ (one).content);
  assert.equal(color, '#fbfbf9');
  await other.bringToFront();
  await ask(other, 'Another secret');
  await page.bringToFront();
  await ask(page, 'A secret');
  await untilListed(page, 'A secret');
  assert.deepEqual(await kept(page), []);
  await reload(page);
  assert.deepEqual(await listed(page), []);
  await until(page, '.empty');
  await ask(page, 'No secret');
  await page.click('#library-keep'); // The open conversation is saved at once.
  while ((await kept(page)).length < 1) await sleep(20);
});

testInOne('an invalid file or a failing server leaves the conversation and the model in place', async ({ opened }) => {
  const page = await opened({ expected: /404|Failed to load resource/ });
  await ask(page, 'Stay');
  const before = await shown(page);
  for (const address of ['/models/none.gguf', '/index.html']) {
    await openModels(page);
    await loadAddress(page, address);
    await until(page, FAILED);
    await page.click('#back');
    await until(page, READY);
    assert.deepEqual(await shown(page), before);
  }
  await ask(page, 'Still there?');
  assert.equal((await shown(page)).length, 4);
});

testInOne('a conversation whose model is not on the device can be read, and names the model', async ({ openWith }) => {
  const page = await openWith('tiny');
  await setOptions(page, { maxTokens: 4 });
  await ask(page, 'Remember me');
  await page.evaluate(async () => {
    // Deletes all cached files, as if the browser had evicted them.
    const root = await navigator.storage.getDirectory?.();
    for await (const name of /** @type {any} */ (root).keys()) await root.removeEntry(name, { recursive: true });
  });
  const at = page.url().replace(/\?.*#/, '#');
  await page.goto('about:blank');
  await page.goto(at);
  await until(page, 'body[data-state="reading"] #model-card button');
  assert.equal((await shown(page))[0], 'Remember me');
  assert.match(await textOf(page, '#model-card'), /was with tiny\.[\s\S]*Download tiny/);
  await load(page, () => page.click('#model-card button'));
  await assertReady(page);
  await ask(page, 'Here again');
  assert.equal((await shown(page)).length, 4);
});

testInOne('exports and imports a file; rejects other files', async ({ opened }) => {
  const page = await opened();
  await ask(page, 'Take me along');
  await untilListed(page, 'Take me along');
  await page.click('#library-toggle');
  const exported = await page.evaluate(async () => {
    /** @type {Promise<string>} */
    const caught = new Promise((resolve) => {
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        void (/** @type {Blob} */ (blob).text().then(resolve));
        URL.createObjectURL = make;
        return make(blob);
      };
    });
    addEventListener('click', (event) => event.target instanceof HTMLAnchorElement && event.preventDefault(), {
      capture: true,
    });
    /** @type {HTMLElement} */ (document.querySelector('#library-export')).click();
    return caught;
  });
  assert.match(exported, /"Take me along"/);
  await importFile(page, exported);
  await untilCount(page, '.talk', 2);
  await importFile(page, readFileSync(new URL(import.meta.url), 'utf8'));
  await untilText(page, '#library-said', /Nothing was imported/);
  await page.evaluate(() => {
    const { put } = IDBObjectStore.prototype;
    let left = 5; // Writing the second conversation fails.
    IDBObjectStore.prototype.put = function (/** @type {[value: any, key?: IDBValidKey]} */ ...args) {
      if (left-- > 0) return put.apply(this, args);
      throw new DOMException('no room', 'QuotaExceededError');
    };
  });
  const { conversations } = JSON.parse(exported);
  await importConversations(page, [...conversations, ...conversations]);
  await untilText(page, '#library-said', /storage is full/);
  assert.equal((await kept(page)).length, 2);
  assert.equal(await page.$('#library-said details'), null, 'the page says it all');
  await page.evaluate(() => {
    IDBObjectStore.prototype.put = () => {
      throw new TypeError('never seen');
    };
  });
  await importConversations(page, conversations);
  await untilText(page, '#library-said', /Something unexpected went wrong/);
  await untilText(page, '#library-said details[open] pre', /^TypeError: never seen$/);
});
