/**
 * Tests the page's search: results equal those of the package in Node with the same model (both run the simd128 build).
 * The code is fetched only when the search panel is opened. Documents are stored until they are deleted, and indexed
 * again for another embedding model. A message shows the passages that it asks about. With “Don’t save conversations”
 * nothing is stored.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before } from 'node:test';
import { Texts, vectorsBy } from '../../examples/search/texts.js';
import { loadModel } from '../../js/index.node.js';
import { openIndex } from '../../js/search.node.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  PICKING,
  chooseFiles,
  fill,
  loadAddress,
  modelAddress,
  onlyIn,
  pageIn,
  plainBuild,
  press,
  setOptions,
  suite,
  textOf,
  until,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

const WORDS = [
  'Roses want sun, and water in the morning.',
  'Slugs come at night and eat lettuce.',
  'The tide turns twice a day.',
];
const NOTES = WORDS.map((text, i) => `# Part ${i}\n\n${text}\n`).join('\n');
const BOATS = 'A keel keeps a boat upright.';
const QUESTION = 'when does the tide turn?';
const FIELD = '#search input[type="search"]';
const HITS = '#search .hits p';
const TEXTS = '#search .texts .name';
const FILES = '#search input[multiple]';
const MODEL_FILE = '#search input[accept]';

/** @type {string} */ let folder;
before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-page-search-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** @param {string} name @param {string} text */
function file(name, text) {
  writeFileSync(path.join(folder, name), text);
  return path.join(folder, name);
}

/** Returns the passages that the package finds in Node for the page's query, nearest first. @param {string} name of the
 * embedding model */
async function inNode(name) {
  const model = await loadModel(await testModel(name), { variant: 'simd128', threads: 1 });
  const by = vectorsBy(model);
  const texts = new Texts(await openIndex({ dimensions: by.dimensions }));
  texts.by = by;
  for (const [title, text] of [
    ['notes.md', NOTES],
    ['boats.txt', BOATS],
  ])
    await texts.add(title, text);
  const found = await texts.nearest(QUESTION);
  await model.dispose();
  return found.map(({ text }) => text);
}

/** @param {Page} page */
async function open(page) {
  await page.click('#search-toggle');
  await page.waitForSelector('#search .add');
}

/** Waits until the elements that match the selector have these texts. @param {Page} page @param {string} selector
 * @param {string[]} texts */
const untilTexts = (page, selector, texts) =>
  page.waitForFunction(
    (where, wanted) => JSON.stringify([...document.querySelectorAll(where)].map((one) => one.textContent)) === wanted,
    {},
    selector,
    JSON.stringify(texts),
  );

/** @param {Page} page */
async function ask(page) {
  await page.waitForSelector(`${FIELD}:enabled`);
  await fill(page, FIELD, QUESTION);
}

const test = suite(
  'document search',
  async (name) => {
    const { server, openWith } = await pageIn(name);

    /** Opens the page and the panel anew. @param {Page} page */
    async function reopen(page) {
      await page.goto(`${server.url}?pick`);
      await until(page, PICKING);
      await loadAddress(page, await modelAddress('tiny'));
      await open(page);
    }
    return { opened: () => openWith('tiny', { before: plainBuild }), reopen };
  },
  onlyIn('firefox'),
);

test('the chat model finds passages; a message contains the chosen ones; documents survive a reload', async ({
  opened,
  reopen,
}) => {
  const page = await opened();
  /** @type {string[]} */
  const fetched = [];
  page.on('request', (request) => fetched.push(request.url()));
  assert.ok(!(await page.$eval('#search', (one) => one.childElementCount)), 'the panel is empty before it is opened');
  await open(page);
  assert.ok(
    fetched.some((url) => /\/search-\w+\.js/.test(url)),
    `${fetched}`,
  );
  await until(page, '#search .link');
  assert.match(await textOf(page, '#search'), /wasn’t made for search/);
  await chooseFiles(page, FILES, file('notes.md', NOTES), file('boats.txt', BOATS), file('photo.jpg', '\0'));
  await untilTexts(page, TEXTS, ['notes.md', 'boats.txt']);
  await untilText(page, '#search .error', /photo\.jpg isn’t a text file/);
  const wanted = await inNode('tiny');
  await ask(page);
  await untilTexts(page, HITS, wanted);
  await page.click('#search .hits li:nth-child(2) input');
  await page.click('#search .ask button');
  assert.equal(await valueOf(page, '#input'), QUESTION);
  assert.equal((await page.$$('.chips li')).length, 2);
  await setOptions(page, { temperature: 0, maxTokens: 4 });
  await page.keyboard.press('Enter');
  await until(page, ANSWERED);
  const said = await page.$$eval('.from-user pre', (all) => all.map((one) => one.textContent));
  assert.deepEqual(said, [wanted[0], wanted[2]], 'the message has the chosen passages');
  await press(page, '#search .texts button', 'Delete');
  await untilTexts(page, TEXTS, ['boats.txt']);
  await reopen(page);
  await untilTexts(page, TEXTS, ['boats.txt']);
  await ask(page);
  await page.waitForSelector(HITS);
});

test('documents of an older version are reported as unreadable, and can be deleted and added again', async ({
  opened,
  reopen,
}) => {
  const page = await opened();
  await page.evaluate(async () => {
    localStorage.setItem('gemma-wasm.search', JSON.stringify({ name: 'old', label: 'Old', dimensions: 8 }));
    let folder = await navigator.storage.getDirectory();
    for (const part of ['gemma-wasm-search', 'old']) folder = await folder.getDirectoryHandle(part, { create: true });
    const stream = await (await folder.getFileHandle('00000001-aaaaaaaa.vectors', { create: true })).createWritable();
    await stream.write('GWV1{}  ');
    await stream.close();
  });
  await open(page);
  await untilText(page, '#failures', /could not be read/);
  const details = await page.$eval('#failures pre', (one) => one.textContent ?? '');
  assert.match(details, /^\S+\.vectors is corrupt.* \(index-failed\)$/m);
  await untilText(page, '#search', /Deleted when you close this tab/);
  await press(page, '#failures button', 'Delete them');
  await until(page, '#failures:empty');
  await untilText(page, '#search', /Saved for your next visit/);
  const left = await page.evaluate(async () => {
    const all = await (await navigator.storage.getDirectory()).getDirectoryHandle('gemma-wasm-search');
    const names = [];
    for await (const name of /** @type {any} */ (await all.getDirectoryHandle('old')).keys()) names.push(name);
    return names;
  });
  assert.deepEqual(left, []);
  await chooseFiles(page, FILES, file('notes.md', NOTES));
  await untilTexts(page, TEXTS, ['notes.md']);
  await reopen(page);
  await untilTexts(page, TEXTS, ['notes.md']);
  await chooseFiles(page, MODEL_FILE, await testModel('embed-q8_0'));
  await until(page, '#search .notice button');
  const shown = await page.evaluate(async () => {
    /** @type {(string | null)[]} */ const values = [];
    const bar = /** @type {Element} */ (document.querySelector('#search progress'));
    new MutationObserver(() => values.push(bar.getAttribute('value'))).observe(bar, { attributeFilter: ['value'] });
    const again = /** @type {HTMLElement} */ (document.querySelector('#search .notice button'));
    for (let i = 0; i < 2; i++) again.click();
    while (again.isConnected) await new Promise((done) => setTimeout(done, 30));
    return values;
  });
  assert.deepEqual(shown, ['0'], 'a second click does not index again');
});

test('an embedding model indexes documents again; long work can be cancelled; without saving, nothing is stored', async ({
  opened,
}) => {
  const page = await opened();
  await page.click('#library-toggle');
  await page.click('#library-keep');
  await open(page);
  await chooseFiles(page, FILES, file('notes.md', NOTES));
  await untilTexts(page, TEXTS, ['notes.md']);
  await page.evaluate((text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], 'boats.txt'));
    document
      .querySelector('#search .add')
      ?.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  }, BOATS);
  await untilTexts(page, TEXTS, ['notes.md', 'boats.txt']);
  assert.equal((await page.$$('.chips li')).length, 0, 'the file is not attached to the message');
  await chooseFiles(page, FILES, file('book.txt', WORDS.join(' ').repeat(8000)));
  await page.waitForSelector('#search .work:not([hidden]) progress[value]');
  await press(page, '#search .work button', 'Cancel');
  await page.waitForSelector('#search .work[hidden]');
  await untilTexts(page, TEXTS, ['notes.md', 'boats.txt']);
  await chooseFiles(page, MODEL_FILE, await testModel('embed-q8_0'));
  await untilText(page, '#search', /aren’t compatible/);
  assert.ok(await page.$(`${FIELD}:disabled`));
  await page.click('#search .notice button');
  await ask(page);
  await untilTexts(page, HITS, await inNode('embed-q8_0'));
  const kept = await page.evaluate(async () => {
    const all = await (await navigator.storage.getDirectory())
      .getDirectoryHandle('gemma-wasm-search')
      .catch(() => null);
    return all !== null || localStorage.getItem('gemma-wasm.search') !== null;
  });
  assert.equal(kept, false);
});
