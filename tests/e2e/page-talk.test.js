/**
 * Tests that a conversation on the page continues after a reload without re-evaluation, after an answer that was cut
 * off, and when the context is full; with texts attached to a message; and with a model without a chat template.
 */
import assert from 'node:assert/strict';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  answerText,
  ask,
  catchCopies,
  dropFile,
  inNode,
  onlyIn,
  pageIn,
  paste,
  press,
  reload,
  say,
  setOptions,
  suite,
  textOf,
  until,
  untilCount,
  untilKept,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

/** Returns the number of tokens of the last answer's prompt, and how many of them were not cached.
 * @param {Page} page */
async function prompted(page) {
  const title = await page.$eval('.from-model:last-child .stats', (one) => /** @type {HTMLElement} */ (one).title);
  const [, all, fresh] = /^prompt: ([\d,]+)\stokens? \(([\d,]+) not cached\)/.exec(title) ?? [];
  assert.ok(all, title);
  return { all: Number(all), fresh: Number(fresh) };
}

/** Returns the names of the files in the chat cache. @param {Page} page */
const states = (page) =>
  page.evaluate(async () => {
    /** @type {string[]} */
    const found = [];
    const walk = async (/** @type {any} */ folder) => {
      for await (const [name, one] of folder.entries()) {
        if (one.kind === 'directory') await walk(one);
        else if (name.endsWith('.state')) found.push(name);
      }
    };
    await walk(await navigator.storage.getDirectory());
    return found;
  });

const test = suite(
  'continuing a conversation',
  async (name) => {
    const { openWith } = await pageIn(name);

    /** @param {Parameters<typeof openWith>[1]} [options] */
    async function opened(options, model = 'tiny') {
      const page = await openWith(model, { before: catchCopies, ...options });
      await setOptions(page, { temperature: 0, maxTokens: 8 });
      return page;
    }
    return { opened };
  },
  onlyIn('chromium'),
);

test('after a reload only new tokens are evaluated, and the answer is the same; deletion leaves nothing', async ({
  opened,
}) => {
  const words = ['Tell me about the sea and the ships on it', 'And then?', 'Go on', 'Once more'];
  const expected = await inNode('tiny', words, { temperature: 0, maxTokens: 8 });
  const page = await opened();
  for (const text of words.slice(0, 3)) await ask(page, text);
  await untilKept(page);
  assert.equal((await states(page)).length, 1);
  await reload(page);
  await ask(page, words[3]);
  assert.equal(await answerText(page), expected[3]);
  const { all, fresh } = await prompted(page);
  assert.ok(fresh < 30 && fresh < all / 3, `${fresh} of ${all} tokens were evaluated`);
  await untilKept(page);

  await page.click('#library-toggle');
  await page.click('.talk-line button');
  await press(page, '.talk-menu button', 'Delete');
  await page.waitForFunction(async () => {
    const root = /** @type {any} */ (await navigator.storage.getDirectory());
    for await (const folder of root.values()) {
      if (folder.kind !== 'directory') continue;
      for await (const one of folder.keys()) if (one.endsWith('.state')) return false;
    }
    return true;
  });
  await page.click('#library-keep');
  await ask(page, 'A secret');
  await page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden' });
    dispatchEvent(new Event('visibilitychange'));
  });
  await ask(page, 'Another one'); // Gives the page time to save the chat, which it must not do.
  assert.deepEqual(await states(page), [], 'keep nothing');
});

test('a draft survives an edit; “Skip to content” stays in the conversation', async ({ opened }) => {
  const page = await opened();
  const written = () => valueOf(page, '#input');
  await ask(page, 'Hello there');
  await page.type('#input', 'half');
  await page.click('.question-foot button');
  assert.equal(await written(), 'Hello there');
  await page.click('#editing-cancel');
  assert.equal(await written(), 'half');
  await page.click('.question-foot button');
  await page.keyboard.press('Enter');
  await untilText(page, '.question-foot .versions', /2\/2/);
  await until(page, ANSWERED);
  assert.equal(await written(), 'half');
  const before = page.url();
  assert.equal(
    await page.evaluate(() => {
      /** @type {HTMLElement} */ (document.querySelector('.skip')).click();
      return document.activeElement?.id;
    }),
    'main',
  );
  assert.equal(page.url(), before);
});

test('an answer that was cut off continues in place, with the same text as if it had not been', async ({ opened }) => {
  const [expected] = await inNode('tiny', ['Hello there'], { temperature: 0, maxTokens: 16 });
  const page = await opened();
  await ask(page, 'Hello there');
  assert.match(await textOf(page, '.from-model .stats'), /stopped at the token limit/);
  const first = await answerText(page);
  await press(page, '.continue-answer', 'Continue');
  await page.waitForFunction(
    (length) => (document.querySelector('.from-model .md')?.textContent?.length ?? 0) > length,
    {},
    first.length,
  );
  await until(page, ANSWERED);
  assert.equal(await answerText(page), expected);
  assert.equal(await page.$('.versions'), null, 'the answer is continued, not replaced by a new version');
  assert.equal((await prompted(page)).fresh, 1);
});

test('the view follows a quick answer to its end', async ({ opened }) => {
  const page = await opened({ width: 390, height: 500 });
  await setOptions(page, { maxTokens: 60, temperature: 1 });
  for (const text of ['One', 'Two', 'Three']) {
    await ask(page, text);
    assert.ok((await page.$eval('#scroller', (s) => s.scrollHeight - s.scrollTop - s.clientHeight)) <= 2, text);
    assert.ok(await page.$('#latest[hidden]'));
  }
});

test('if the context is full, the oldest messages can be dropped, and the page says which ones', async ({ opened }) => {
  const page = await opened({ query: '?context=128' });
  for (const text of ['One', 'Two', 'Three']) await ask(page, text);
  await say(page, 'word '.repeat(6));
  await until(page, FAILED);
  const buttons = await page.$$eval('.error > button', (all) => all.map((one) => one.textContent));
  assert.deepEqual(buttons, ['Drop the oldest messages and continue', 'Edit the message', 'New chat']);
  await press(page, '.error > button', 'Drop the oldest messages and continue');
  await until(page, ANSWERED);
  assert.match(await textOf(page, '.told-from'), /no longer sees/);
  assert.ok((await page.$$('.excluded')).length > 0);
  assert.ok((await prompted(page)).all < 128);
  await setOptions(page, { maxTokens: 400, temperature: 1 });
  await say(page, 'Tell me everything');
  await until(page, '.from-model:last-child .continue-answer, .error');
  assert.match(await textOf(page, '.from-model:last-child .stats'), /context is full/);
  const text = await answerText(page);
  await setOptions(page, { maxTokens: 3 });
  await press(page, '.continue-answer', 'Drop the oldest messages and continue');
  await page.waitForFunction(
    () =>
      /maximum|^\d/.test(document.querySelector('.from-model:last-child .stats')?.textContent ?? '') &&
      !/full/.test(document.querySelector('.from-model:last-child .stats')?.textContent ?? ''),
  );
  await until(page, `${ANSWERED}, ${FAILED}`);
  assert.ok((await answerText(page)).startsWith(text));
});

test('long pastes and dropped text files become attachments that open; the number of tokens left is shown', async ({
  opened,
}) => {
  const page = await opened();
  await page.type('#input', 'What is this?');
  const words = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
  await paste(page, words);
  await dropFile(page, 'notes.txt', 'short notes');
  await untilCount(page, '.chips li', 2);
  await dropFile(page, 'empty.txt', '');
  await untilText(page, '.chips li:last-child', /empty\.txt 0.characters/);
  await page.click('.chips li:last-child button.icon');
  await dropFile(page, 'paper.pdf', '%PDF-1.7\0');
  await until(page, '#failures .notice');
  assert.match(await textOf(page, '#failures'), /only text files/);
  assert.equal(await page.$('#chooser[open]'), null);
  assert.match(await textOf(page, '.chips'), /Pasted text[\s\S]*notes\.txt/);
  await untilText(page, '#draft-tokens', /^\+ [\d,]+ · [\d,]+ left$/);
  await page.click('.chips button');
  assert.equal(await page.$eval('#attached-text', (one) => one.textContent), words);
  await page.click('#attached-close');
  await page.waitForFunction(
    async () =>
      new Promise((resolve) => {
        const request = indexedDB.open('gemma-wasm');
        request.onsuccess = () => {
          const all = request.result.transaction('drafts').objectStore('drafts').getAll();
          all.onsuccess = () => {
            request.result.close();
            resolve(all.result.some((/** @type {any} */ draft) => draft.files?.length === 2));
          };
        };
      }),
  );
  await reload(page);
  await untilCount(page, '.chips li', 2);
  await page.click('.chips li:last-child button.icon');
  await setOptions(page, { temperature: 0, maxTokens: 8 });
  const [expected] = await inNode(
    'tiny',
    [`What is this?\n\n--- Pasted text ---\n${words}\n--- end of Pasted text ---`],
    { temperature: 0, maxTokens: 8 },
  );
  await page.focus('#input');
  await page.keyboard.press('Enter');
  await until(page, ANSWERED);
  assert.equal(await answerText(page), expected);
  assert.equal(await page.$eval('.from-user details', (one) => /** @type {HTMLDetailsElement} */ (one).open), false);
  assert.equal(await page.$eval('.from-user pre', (one) => one.textContent), words);
  const printed = await page.evaluate(() =>
    ['beforeprint', 'afterprint'].map((moment) => {
      dispatchEvent(new Event(moment));
      return document.querySelector('details.attached')?.hasAttribute('open');
    }),
  );
  assert.deepEqual(printed, [true, false]);
  assert.ok(await page.$('#chips[hidden]'));
  const scheme = await page.evaluate(() => {
    document.documentElement.dataset.theme = 'dark';
    for (const rule of document.styleSheets[0].cssRules)
      if (rule instanceof CSSMediaRule && rule.conditionText === 'print') rule.media.mediaText = 'all';
    return getComputedStyle(document.documentElement).colorScheme;
  });
  assert.equal(scheme, 'light', 'the dark theme is not printed');
});

test('a model without a chat template continues a text', async ({ opened }) => {
  const model = await loadModel(await testModel('gpt2-q4_k_m'), { threads: 1 });
  const options = { temperature: 0, maxTokens: 8 };
  const first = await model.generate('Once upon a time', options).text();
  const second = await model.generate(`Once upon a time${first}\nThe end`, options).text();
  await model.dispose();
  const page = await opened({}, 'gpt2-q4_k_m');
  assert.match(await textOf(page, '.empty'), /isn’t trained to chat/);
  assert.equal(
    await page.$eval('#input', (one) => /** @type {HTMLTextAreaElement} */ (one).placeholder),
    'Start writing…',
  );
  await ask(page, 'Once upon a time');
  assert.equal(await answerText(page), first);
  await ask(page, 'The end');
  assert.equal(await answerText(page), second);
});
