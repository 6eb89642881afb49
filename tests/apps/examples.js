/* examples: the folders of examples/ as apps (apps.js), copied with a test model and operated by the keyboard. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { at } from '../../tools/support/proc.js';
/** @import { Page } from 'puppeteer-core' */

/** An app, into which run.js inserts the model's URL. `folder`: name of its folder, if several apps share it; `create`:
 * a command that creates the project; `files`: texts, or functions that change a template's file; `newer`: needs a
 * newer Node than 20; `page`: the built folder, or an extension's page; `dev`: a command that starts a server on PORT;
 * `use`: operates the page, which otherwise shows the answer in its title; `judge`: checks the output, which otherwise
 * must be the answer; `check`: only the exit status counts; `extension`: the folder is a browser extension; `recipe`:
 * what a user must do besides sending headers.
 * @typedef {{ name: string, packages: Record<string, string>, title: string, folder?: string, create?: string[],
 *   files: Record<string, string | ((text: string) => string)>, manifest?: object, newer?: boolean,
 *   use?: (page: import('puppeteer-core').Page, expected: string) => Promise<void>, judge?: (text: string) => void,
 *   build?: string[], page?: string, dev?: string[], run?: string[], base?: 'cdn' | 'cdn-coep', recipe?: string,
 *   env?: Record<string, string>, quick?: boolean, path?: string, check?: boolean, extension?: boolean }} App */

/** Presses the button "Ask", if there is one, and waits for the answer, which must grow in steps.
 * @param {Page} page @param {string} expected */
export async function streams(page, expected) {
  await page.evaluate(() => {
    const states = new Set();
    const body = document.body;
    new MutationObserver(() => states.add(body.textContent)).observe(body, {
      subtree: true,
      childList: true,
      characterData: true,
    });
    Object.assign(window, { states });
    [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Ask')?.click();
  });
  await page.waitForFunction((text) => document.body.textContent.includes(text), {}, expected);
  const states = await page.evaluate(() => /** @type {any} */ (window).states.size);
  assert.ok(states > 1, `the answer appears at once instead of being streamed: ${states} states`);
}

/** @param {Page} page */
async function accessible(page) {
  await page.evaluate(readFileSync(at('node_modules', 'axe-core', 'axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate(() => /** @type {any} */ (window).axe.run());
  assert.equal(violations.length, 0, JSON.stringify(violations, null, 1));
}

/** @param {Page} page @param {string} status */
const says = (page, status) =>
  page.waitForFunction((text) => document.querySelector('[role=status]')?.textContent === text, {}, status);

/** Returns a function that presses Escape when an answer begins to appear, asks again, and waits for the whole answer.
 * @param {string} answer selector of the answer's element @param {(page: Page) => Promise<void>} send */
function answers(answer, send) {
  return async (/** @type {Page} */ page) => {
    await accessible(page);
    await page.evaluate((place) => {
      const seen = new Set();
      const observer = new MutationObserver(() => {
        const text = [...document.querySelectorAll(place)].at(-1)?.textContent;
        if (text && !seen.size) {
          document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        }
        if (text) seen.add(text);
      });
      observer.observe(document.body, { subtree: true, childList: true, characterData: true });
      Object.assign(window, { seen });
    }, answer);
    await send(page);
    await says(page, 'Stopped.');
    await send(page);
    await says(page, 'Ready.');
    const seen = await page.evaluate(() => /** @type {any} */ (window).seen.size);
    assert.ok(seen > 2, `the answer appears at once instead of being streamed: ${seen} states`);
    await accessible(page);
  };
}

const chats = answers('[role=log] p:nth-child(even)', async (page) => {
  await page.type('textarea', 'Hello');
  await page.keyboard.press('Enter');
});

const summarises = answers('#summary', async (page) => {
  await page.$eval('textarea', (area) => {
    area.value = 'A short text.';
    area.focus();
  });
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
});

/** @param {Page} page */
async function searches(page) {
  await page.type('input', 'Why does dough grow?');
  await page.waitForSelector('li:nth-child(5)');
  await says(page, '5 passages');
  await accessible(page);
}

/** @param {string} text */
function isPerson(text) {
  const { name, age, city, ...rest } = JSON.parse(text.slice(text.indexOf('{')));
  assert.deepEqual([typeof name, Number.isInteger(age), typeof city, rest], ['string', true, 'string', {}]);
}

/** @param {string} text */
const isPersonLast = (text) => isPerson(text.trim().split('\n').at(-1) ?? '');

/** Returns a folder of examples/ as an app with the name `as`. run.js replaces the constant MODEL; `texts` has other
 * replacements.
 * @param {string} folder @param {Omit<App, 'name' | 'packages' | 'files'> & { as?: string }} app
 * @param {Record<string, string>} [texts] @returns {App} */
function example(folder, { as = folder, ...app }, texts = {}) {
  const root = at('examples', folder);
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => {
    return !/^(node_modules|\.|README)/.test(name) && statSync(join(root, name)).isFile();
  });
  const files = Object.fromEntries(
    names.map((name) => {
      const text = readFileSync(join(root, name), 'utf8').replace(/const MODEL = [^;]+;/, '');
      return [name, Object.entries(texts).reduce((all, [from, to]) => all.replaceAll(from, to), text)];
    }),
  );
  const { dependencies = {}, devDependencies } = JSON.parse(files['package.json'] ?? '{}');
  const { 'gemma-wasm': _, ...packages } = { ...dependencies, ...devDependencies };
  delete files['package.json'];
  return { folder: `example-${folder}`, name: `example-${as}`, packages, files, ...app };
}

const CDN = { 'https://cdn.jsdelivr.net/npm/gemma-wasm@0.1.0': 'CDN' };
/** A page that uses the package from a CDN. */
const PAGE = /** @type {const} */ ({ use: chats, page: '.', base: 'cdn', quick: true });
const PORT = ['--port', 'PORT', '--strictPort', '--host', 'localhost'];
const EMBEDDING = { MODEL: 'EMBEDDING_MODEL' };
const CALLING = { MODEL: 'TOOLS_MODEL', "'auto';": "'required';", 'maxTokens: 300': 'maxTokens: 300, seed: 1' };

const CLIENT = 'https://cdn.jsdelivr.net/npm/openai@7.57.0/+esm';

/** Returns OpenAI's client in one script, as a CDN serves it. */
function openaiClient() {
  const stdin = { contents: "export { default } from 'openai';", resolveDir: at() };
  const { outputFiles } = buildSync({ stdin, bundle: true, format: 'esm', platform: 'browser', write: false });
  return outputFiles[0].text;
}

const chatsWithClient = example(
  'openai-html',
  { title: 'examples/openai-html', ...PAGE },
  { ...CDN, [CLIENT]: './openai.js' },
);
chatsWithClient.files['openai.js'] = openaiClient();

/** @type {App[]} */
export const EXAMPLES = [
  chatsWithClient,
  example('html', { title: 'examples/html', ...PAGE }, CDN),
  example('html', { as: 'html-coep', title: 'examples/html, isolated', ...PAGE, base: 'cdn-coep' }, CDN),
  example('prompt-api', { title: 'examples/prompt-api', ...PAGE }, CDN),
  ...['react-chat', 'ai-sdk-chat'].flatMap((name) => [
    example(name, {
      title: `examples/${name}, build`,
      use: chats,
      newer: true,
      build: ['vite', 'build'],
      dev: ['vite', 'preview', ...PORT],
      quick: true,
    }),
    example(name, {
      as: `${name}-dev`,
      title: `examples/${name}, dev`,
      use: chats,
      newer: true,
      dev: ['vite', ...PORT],
    }),
  ]),
  example(
    'next-search',
    {
      title: 'examples/next-search, build',
      use: searches,
      build: ['next', 'build'],
      dev: ['next', 'start', '-p', 'PORT'],
    },
    EMBEDDING,
  ),
  example(
    'next-search',
    { as: 'next-search-dev', title: 'examples/next-search, dev', use: searches, dev: ['next', 'dev', '-p', 'PORT'] },
    EMBEDDING,
  ),
  example(
    'langchain',
    { title: 'examples/langchain', run: ['node', 'extract.js'], judge: isPersonLast, quick: true },
    { 'maxTokens: 100': 'maxTokens: 400' },
  ),
  example('node-json', { title: 'examples/node-json', run: ['node', 'extract.js'], judge: isPerson, quick: true }),
  example(
    'tools',
    {
      title: 'examples/tools',
      run: ['node', 'ask.js'],
      judge: (text) => assert.match(text, /^(add|subtract|multiply|divide)\(.+, .+\) = /m),
      quick: true,
    },
    CALLING,
  ),
  example(
    'mcp',
    {
      title: 'examples/mcp',
      run: ['node', 'ask.js'],
      judge: (text) => assert.match(text, /^stock\(\{"product":"(kettle|teapot|cup)"\}\) = \{"pieces":\d+\}$/m),
      quick: true,
    },
    CALLING,
  ),
  example('extension', {
    title: 'examples/extension, in Chromium',
    use: summarises,
    build: ['node', 'copy.js'],
    page: 'popup.html',
    extension: true,
    quick: true,
  }),
];
