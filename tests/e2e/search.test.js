/* Tests examples/search with the published package: it indexes files, finds the same nearest passages as Node, and its
 * index in the origin private file system survives a reload. Also two objects that change one index at once. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { before } from 'node:test';
import { passagesOf } from '../../examples/search/passages.js';
import { loadModel } from '../../js/index.node.js';
import { openIndex } from '../../js/search.node.js';
import { serve } from '../../tools/serve.js';
import { testModel } from '../js/models.js';
import { chooseFiles, fill, openTab, pageFolder, root, sharedBrowser, suite } from './helpers.js';

const DIMENSIONS = 256;
const SHOWN = 5;
const TEXT = `# Gardens\n\n${[
  'Roses want sun, and water in the morning.',
  'Slugs come at night and eat lettuce.',
  'A hedge is cut when the birds have flown.',
]
  .map((text) => `${text} `.repeat(12))
  .join('\n\n')}

# Boats\n\n${[
  'A keel keeps a boat upright in the wind.',
  'Ropes are coiled with the sun.',
  'The tide turns twice a day, and a quarter of an hour later each time.',
]
  .map((text) => `${text} `.repeat(12))
  .join('\n\n')}\n`;
const QUESTION = 'when does the tide turn?';

/** @type {string} */ let model;
/** @type {string[]} */ let expected;

before(async () => {
  assert.ok(
    existsSync(path.join(root, 'dist', 'search.js')),
    'dist/ is missing. Run node tools/build/setup.js package.',
  );
  model = await testModel('embed-q8_0');
  const engine = await loadModel(model, { threads: 1 });
  const index = await openIndex({ dimensions: DIMENSIONS });
  const passages = passagesOf(TEXT, 'notes.md');
  const vectors = await engine.embed(
    passages.map(({ text }) => text),
    {
      task: 'document',
      title: passages.map(({ title }) => title),
      dimensions: DIMENSIONS,
    },
  );
  await index.add(passages.map((data, i) => ({ id: `notes.md#${i}`, vector: vectors[i], data })));
  const vector = await engine.embed(QUESTION, { task: 'query', dimensions: DIMENSIONS });
  expected = index.query(vector, { count: SHOWN }).map(({ data }) => data.text);
  assert.equal(expected.length, Math.min(SHOWN, passages.length));
  await engine.dispose();
});

/** @param {import('puppeteer-core').Page} page @param {string} text */
const says = (page, text) =>
  page.waitForFunction((part) => document.querySelector('main')?.textContent.includes(part), {}, text);

/** @param {import('puppeteer-core').Page} page */
async function ask(page) {
  await fill(page, '#query', QUESTION);
  await page.waitForFunction(() => document.querySelectorAll('#hits li').length);
  return page.$$eval('#hits p', (all) => all.map((one) => one.textContent));
}

const test = suite('the search example', async (name) => {
  const [browser, server] = [await sharedBrowser(name), await serve({ root })];
  const open = async () => {
    return (await openTab(browser, `${server.url}examples/search/`, { expected: /favicon|404/ })).page;
  };
  return { server, open, close: () => server.close() };
});

test('files become passages, the nearest ones are the same as in Node, and a reload keeps them', async ({
  open,
}, t) => {
  const notes = path.join(pageFolder(t), 'notes.md');
  writeFileSync(notes, TEXT);
  const page = await open();
  await says(page, 'The index is empty.');
  await chooseFiles(page, '#model', model);
  await says(page, 'is ready.');
  await chooseFiles(page, '#files', notes);
  await says(page, `notes.md: ${passagesOf(TEXT, 'notes.md').length} passages.`);
  assert.deepEqual(await ask(page), expected);
  await page.reload();
  await says(page, `${passagesOf(TEXT, 'notes.md').length} passages in the index.`);
  await chooseFiles(page, '#model', model);
  await says(page, 'is ready.');
  assert.deepEqual(await ask(page), expected);
  await page.click('#tell');
  await page.waitForFunction(() => (document.querySelector('#story')?.textContent.length ?? 0) > 20);
  await page.waitForFunction(() => !(/** @type {HTMLButtonElement} */ (document.querySelector('#tell')).disabled));
  await page.click('#clear');
  await says(page, 'The index is empty.');
  assert.ok(await page.$eval('#tell', (button) => /** @type {HTMLButtonElement} */ (button).disabled));
});

test('two objects that write the same index lose no items', async ({ server, open }) => {
  const page = await open();
  const found = await page.evaluate(async (script) => {
    const { openIndex } = await import(script);
    const open = () => openIndex({ dimensions: 2, name: 'two' });
    const [a, b] = [await open(), await open()];
    const vector = [1, 0];
    await b.add([
      { id: 'b', vector },
      { id: 'gone', vector },
    ]);
    const c = await open();
    await c.delete('gone');
    /** @type {string[]} */ const opened = [];
    const busy = async (/** @type {import('../../js/search.js').SearchIndex} */ index, /** @type {string} */ id) => {
      for (let i = 0; i < 40; i++) await index.add({ id, vector });
    };
    const look = async () => {
      for (let i = 0; i < 5; i++) opened.push((await open()).get('b')?.id);
    };
    await Promise.all([busy(a, 'a'), busy(b, 'also'), look()]);
    const ids = (await open())
      .list()
      .map((/** @type {{ id: string }} */ { id }) => id)
      .sort();
    for (const index of [a, b, c, await open()]) await index.clear();
    return { ids, opened, left: (await open()).size };
  }, `${server.url}dist/search.js`);
  assert.deepEqual(found, { ids: ['a', 'also', 'b'], opened: Array(5).fill('b'), left: 0 });
});
