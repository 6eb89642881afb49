/**
 * Tests the page in other languages: chosen by the browser's languages, switched in the settings and remembered;
 * right-to-left in Arabic, without sideways overflow.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import ar from '../../web/words/ar.js';
import de from '../../web/words/de.js';
import es from '../../web/words/es.js';
import {
  PICKING,
  READY,
  ask,
  importConversations,
  loadAddress,
  modelAddress,
  onlyIn,
  openModels,
  pageIn,
  root,
  setOptions,
  submitAddress,
  talk,
  suite,
  textOf,
  until,
  untilCount,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

/** @param {Page} page */
const wide = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('body *')]
      .filter((one) => one.checkVisibility() && !one.closest('.hidden-text, .skip, .strip, .talk-title'))
      .filter((one) => {
        const { left, right } = one.getBoundingClientRect();
        return left < -1 || right > innerWidth + 1;
      })
      .map((one) => one.outerHTML.slice(0, 120)),
  );

/** Returns the document's texts and labels that differ from the texts of the language `words`. @param {Page} page
 * @param {Record<string, any>} words */
const untold = (page, words) =>
  page.evaluate((table) => {
    /** @type {string[]} */
    const found = [];
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-t]'))) {
      const [text] = table[`page.${one.dataset.t}`].split('{link}');
      const changes = /^(loading|pause|meter)$/.test(one.dataset.t ?? '');
      if (!changes && !one.textContent?.startsWith(text)) found.push(`${one.dataset.t}: ${one.textContent}`);
    }
    for (const one of document.querySelectorAll('[data-l]')) {
      const key = `page.${one.getAttribute('data-l')}`;
      if (one.ariaLabel !== table[key] && one.id !== 'input') found.push(`${key}: ${one.ariaLabel}`);
    }
    return found;
  }, words);

const inEach = suite(
  'languages',
  async (name) => pageIn(name, { storyteller: await modelAddress('tiny') }),
  onlyIn('chromium'),
);

inEach('Arabic is laid out from right to left, on a wide screen and on a phone', async ({ open }) => {
  const page = await open('', {
    width: 1280,
    before: () => Object.defineProperty(navigator, 'languages', { get: () => ['xx', 'ar-EG', 'en'] }),
  });
  await until(page, READY);
  const html = await page.$eval('html', ({ lang, dir }) => ({ lang, dir }));
  assert.deepEqual(html, { lang: 'ar', dir: 'rtl' });
  assert.equal(await textOf(page, '.empty strong'), ar['story.title']);
  assert.equal(await page.$eval('.suggestions button', (one) => getComputedStyle(one).direction), 'ltr');
  assert.match(await textOf(page, '#meter-text'), /^السياق \p{Nd} من \p{Nd}{3}$/u);
  await setOptions(page, { temperature: 0 }); // a random answer may contain a formula that is too wide
  await ask(page, 'Hello');
  assert.match(await textOf(page, '.from-model .stats'), /وحد/);
  await page.click('#library-toggle');
  await page.click('#settings-toggle');
  const left = (/** @type {string} */ id) => page.$eval(id, (one) => one.getBoundingClientRect().left);
  assert.ok((await left('#library')) > (await left('#chat')) && (await left('#chat')) > (await left('#settings')));
  assert.deepEqual(await wide(page), []);
  await page.click('#library-close');
  await page.click('#settings-close');
  await page.setViewport({ width: 390, height: 780 });
  assert.deepEqual(await wide(page), []);
  await openModels(page);
  assert.deepEqual(await wide(page), []);
  assert.deepEqual(await untold(page, ar), []);
});

inEach(
  'a language chosen in the settings is remembered, and its texts load only when they are needed',
  async ({ open }) => {
    const page = await open();
    const fetched = () =>
      page.evaluate(
        () => performance.getEntriesByType('resource').filter((one) => /\/(de|ar|es|ja)-\w+\.js/.test(one.name)).length,
      );
    await until(page, READY);
    await setOptions(page, { maxTokens: 8 });
    await ask(page, 'Hello');
    assert.equal(await page.$eval('html', (one) => one.lang), 'en');
    assert.equal(await fetched(), 0);
    await page.click('#settings-toggle');
    await Promise.all([page.waitForNavigation(), page.select('#settings .language', 'de')]);
    await until(page, READY);
    assert.equal(await fetched(), 1);
    assert.deepEqual(await page.$eval('html', ({ lang, dir }) => ({ lang, dir })), { lang: 'de', dir: 'ltr' });
    assert.equal(await textOf(page, '.from-user'), 'Hello', 'the conversation is still open');
    assert.equal(await textOf(page, '.retry'), de.retry);
    assert.deepEqual(await untold(page, de), []);
    await page.click('#look-toggle');
    await page.waitForSelector('#inside .bars li');
    assert.match(await textOf(page, '#inside'), /Unterstrichene Wörter/);
    await submitAddress(page, 'x:y');
    assert.match(await page.$eval('.error', (one) => one.textContent ?? ''), /Nur https/);
  },
);

inEach('the language can be switched on the first page, before a model is loaded', async ({ open }) => {
  const page = await open('?pick');
  await Promise.all([page.waitForNavigation(), page.select('.bar .language', 'es')]);
  await until(page, PICKING);
  assert.equal(await textOf(page, '#picker-title'), es['page.welcome.title']);
  assert.deepEqual(
    await page.$$eval('.language', (all) => all.map((one) => /** @type {HTMLSelectElement} */ (one).value)),
    ['es', 'es'],
  );
  await loadAddress(page, await modelAddress('tiny'));
  assert.ok(await page.$eval('.bar .language', (one) => !one.checkVisibility()));
});

inEach(
  'if conversations are not saved, choosing a language does not reload the page, which would lose the open one',
  async ({ open }) => {
    const withoutDatabase = () => Object.defineProperty(window, 'indexedDB', { value: null });
    for (const before of [withoutDatabase, () => localStorage.setItem('gemma-wasm.keep', 'false')]) {
      const page = await open('', { before });
      await until(page, READY);
      await ask(page, 'Hello');
      await page.click('#settings-toggle');
      await page.select('#settings .language', 'es');
      assert.match(await textOf(page, '#language-said'), /Reload the page/);
      assert.equal(await textOf(page, '.from-user'), 'Hello');
    }
  },
);

/** Sets the language of the page in a new tab. */
const speakGerman = () => Object.defineProperty(navigator, 'languages', { get: () => ['de'] });
const speakArabic = () => Object.defineProperty(navigator, 'languages', { get: () => ['ar'] });

/** Returns the direction of the first element that matches. @param {Page} page @param {string} selector */
const direction = (page, selector) => page.$eval(selector, (one) => getComputedStyle(one).direction);

inEach('names, addresses, code and dates keep their direction beside texts of the other one', async ({ open }) => {
  const page = await open('', { before: speakArabic, width: 390 });
  await until(page, READY);
  for (const field of ['token', 'web-url', 'hub-repo']) assert.equal(await direction(page, `#${field}`), 'ltr', field);
  assert.equal(await direction(page, '#model-name'), 'rtl', 'the name of the storyteller is translated');
  await openModels(page);
  await submitAddress(page, await modelAddress('tiny'));
  await untilText(page, '#model-name', /^tiny$/);
  assert.equal(await direction(page, '#model-name'), 'ltr', 'a name that is too long loses its end');
  await page.click('#library-toggle');
  await importConversations(page, [talk('English', 'مرحبا', 'مرحبا `code()`'), talk('مرحبا', 'Hello')]);
  await untilCount(page, '.talk', 2);
  const dates = await page.$$eval('.talk > .hint', (all) => all.map((one) => getComputedStyle(one).direction));
  assert.deepEqual(dates, ['rtl', 'rtl'], 'a date is written in the direction of its language');
  await page.$$eval('.talk', (all) => {
    /** @type {HTMLElement} */ (all.find((one) => /English/.test(one.textContent ?? ''))).click();
  });
  await until(page, '#log code');
  assert.equal(await direction(page, '#log code'), 'ltr');
});

inEach('long words of a language are not cut on the smallest phone', async ({ open, server }) => {
  const page = await open('?pick', { before: speakGerman, width: 320, height: 568 });
  await until(page, PICKING);
  assert.deepEqual(await wide(page), []);
  assert.ok((await page.$eval('.brand', (one) => one.clientHeight)) < 30, 'the name of the page has one line');
  await page.goto(server.url);
  await until(page, READY);
  const overflow = (/** @type {string} */ selector) =>
    page.$eval(selector, (one) => [one.scrollWidth - one.clientWidth, one.scrollHeight - one.clientHeight]);
  assert.deepEqual(await overflow('#input'), [0, 0], 'the placeholder has one line');
  await openModels(page);
  const tag = await page.$eval('#presets .tag', (one) => one.getBoundingClientRect().toJSON());
  assert.ok(tag.height < 30 && tag.right < 320, 'a tag stays in one piece');
  await page.click('#back');
  await setOptions(page, { maxTokens: 4 });
  await ask(page, 'Hallo');
  await page.click('#look-toggle');
  await page.waitForSelector('#inside .tabs');
  assert.equal((await overflow('#inside .tabs'))[0], 0, 'all tabs are visible');
  await page.click('#look-toggle');
  await page.click('#library-toggle');
  await importConversations(page, [talk('Donaudampfschifffahrtselektrizitätenhauptbetriebswerk', 'Hallo')]);
  await untilCount(page, '.talk', 2);
  await page.$$eval('.talk-line', (all) => {
    const one = all.find((line) => /Donau/.test(line.textContent ?? ''));
    /** @type {HTMLElement | null | undefined} */ (one?.querySelector('button'))?.click();
  });
  await page.click('.talk-menu:not([hidden]) .danger');
  await page.waitForSelector('#toast:not([hidden])');
  assert.deepEqual(await overflow('#toast span'), [0, 0], 'the whole sentence is shown');
});

inEach('the notice of the first visit does not move the page', async ({ open }) => {
  const page = await open();
  const tops = await page.evaluate(() => {
    const [main, notice] = ['main', 'keeping'].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
    document.body.dataset.state = 'opening';
    return [true, false].map((hidden) => {
      notice.hidden = hidden;
      return main.getBoundingClientRect().top;
    });
  });
  assert.equal(tops[0], tops[1]);
});

inEach('too large models are marked as such', async ({ open }) => {
  const page = await open('?pick', {
    before: () => Object.defineProperty(navigator, 'deviceMemory', { get: () => 1 }),
  });
  const marked = await page.$$eval('#presets > li', (all) =>
    all.map((one) => [one.querySelector('.name')?.firstChild?.textContent, /too large/.test(one.textContent ?? '')]),
  );
  assert.deepEqual(marked.slice(1), [
    ['Gemma 3 270M', false],
    ['Gemma 3 1B', true],
    ['Gemma 3 1B QAT (Google)', true],
    ['Gemma 4 E2B (Google)', true],
  ]);
});

inEach('a locked system prompt does not look like a field', async ({ open }) => {
  const page = await open();
  await until(page, READY);
  await page.click('#settings-toggle');
  const look = () =>
    page.$eval('#opt-system', (one) => {
      const { borderStyle, backgroundColor, resize } = getComputedStyle(one);
      return { borderStyle, filled: backgroundColor !== 'rgba(0, 0, 0, 0)', resize };
    });
  assert.deepEqual(await look(), { borderStyle: 'solid', filled: true, resize: 'vertical' });
  await page.type('#opt-system', 'Be brief.');
  await ask(page, 'Hello');
  assert.deepEqual(await look(), { borderStyle: 'dashed', filled: false, resize: 'none' });
  await page.type('#opt-system', ' And kind.');
  const value = () => valueOf(page, '#opt-system');
  assert.equal(await value(), 'Be brief.');
  await page.click('#new-chat');
  await until(page, '.empty');
  await page.click('#settings-toggle');
  assert.deepEqual(await look(), { borderStyle: 'solid', filled: true, resize: 'vertical' });
});

test('the page preloads every chunk of the first load', () => {
  const folder = path.join(root, 'build', 'page');
  const read = (/** @type {string} */ name) => readFileSync(path.join(folder, name), 'utf8');
  /** @type {Set<string>} */
  const loaded = new Set();
  const visit = (/** @type {string} */ name) => {
    for (const [, other] of read(name).matchAll(/\b(?:from|import)\s*"\.\/([^"]+)"/g)) {
      if (!loaded.has(other)) visit((loaded.add(other), other));
    }
  };
  visit('app.js');
  const links = [...read('index.html').matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, name]) => name);
  assert.ok(links.length > 0 && links.every((name) => readdirSync(folder).includes(name)));
  assert.deepEqual(links.sort(), [...loaded].sort());
});
