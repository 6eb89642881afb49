/**
 * Tests constrained answers on the page: it shows the answer's value, names the keyword and path of an unsupported
 * schema, and fetches the feature's code only when it is opened.
 */
import assert from 'node:assert/strict';
import { fill, onlyIn, pageIn, setOptions, suite, textOf, until, untilText, valueOf } from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */

const FLAGS = {
  type: 'array',
  minItems: 2,
  maxItems: 2,
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['country', 'stripes'],
    properties: { country: { enum: ['Chad', 'Mali'] }, stripes: { const: 3 } },
  },
};

/** @param {Page} page @param {object | string} schema */
async function ask(page, schema) {
  await fill(page, '#shape-schema', typeof schema === 'string' ? schema : JSON.stringify(schema));
  await page.click('#shape-ask');
}

/** @param {Page} page @param {string} selector */
const texts = (page, selector) => page.$$eval(selector, (all) => all.map((one) => one.textContent));

const test = suite('structured answers', (name) => pageIn(name), onlyIn('firefox'));

test('a list becomes a table; errors of a schema name the keyword and its path', async ({ openWith }) => {
  /** @type {string[]} */
  const fetched = [];
  const page = await openWith('tiny');
  page.on('request', (request) => fetched.push(request.url()));
  await setOptions(page, { temperature: 0, maxTokens: 200 });
  await page.click('#settings-toggle');
  assert.deepEqual(
    fetched.filter((url) => /shape/.test(url)),
    [],
  );
  await page.click('#shape-open');
  await until(page, '#shape[open]');
  assert.match(await valueOf(page, '#shape-schema'), /"street"/);

  await ask(page, FLAGS);
  await untilText(page, '#shape-said', /tokens/);
  assert.deepEqual(await texts(page, '#shape-value thead th'), ['country', 'stripes']);
  const cells = await texts(page, '#shape-value tbody td');
  assert.deepEqual(
    cells.filter((_, i) => i % 2),
    ['3', '3'],
  );
  assert.ok(
    cells.filter((_, i) => i % 2 === 0).every((one) => /^(Chad|Mali)$/.test(one ?? '')),
    cells.join(),
  );
  assert.match(await textOf(page, '#shape-said'), /^\d+\stokens, [1-9]\d* filled in by the schema$/);
  assert.equal(await textOf(page, '#shape .said'), 'Answer ready.', 'screen readers ignore the page behind a dialog');

  await ask(page, { type: 'object', properties: { tags: { type: 'array', uniqueItems: true } } });
  await untilText(page, '#shape-wrong', /uniqueItems/);
  assert.match(
    await textOf(page, '#shape-wrong'),
    /This schema can’t be used\. .*uniqueItems is not supported.* \(at #\/properties\/tags/,
  );
  await ask(page, '{ "type": ');
  await untilText(page, '#shape-wrong', /^The schema is not valid JSON: ./);
  assert.equal(await textOf(page, '#shape-value'), '');
  await fill(page, '#shape-question', 'word '.repeat(9000));
  await ask(page, FLAGS);
  await untilText(page, '#shape-wrong', /too long/);
  await page.click('#shape-wrong summary');
  assert.match(await textOf(page, '#shape-wrong pre'), / \(context-exceeded\)$/);

  await page.evaluate(() =>
    [...document.querySelectorAll('#shape .moods button')].at(-1)?.dispatchEvent(new Event('click')),
  );
  await page.focus('#shape-ask');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#shape:not([open])');
});

test('an answer is shown while it streams, and can be stopped', async ({ openWith }) => {
  const page = await openWith('tiny');
  await setOptions(page, { temperature: 1, maxTokens: 900, seed: 3 });
  await page.click('#settings-toggle');
  await page.click('#shape-open');
  await until(page, '#shape[open]');
  await ask(page, {
    type: 'array',
    minItems: 200,
    items: {
      type: 'object',
      required: ['n'],
      additionalProperties: false,
      properties: { n: { type: 'integer', minimum: 100, maximum: 999 } },
    },
  });
  await page.waitForFunction(() => {
    // Checks for table rows and clicks in one task: between two tasks, the answer could end and make the page scroll.
    const drawn = document.querySelectorAll('#shape-value tbody tr').length > 1;
    if (drawn) /** @type {HTMLElement | null} */ (document.querySelector('#shape-ask'))?.click();
    return drawn;
  });
  await untilText(page, '#shape-said', /tokens/);
  assert.match(await textOf(page, '#shape-said'), / · (stopped|the context is full)$/);
  assert.equal(await textOf(page, '#shape-ask'), 'Answer');
});
