/* Tests WebKit: the package in a page, with threads and without, and the page of this project. The cache and
 * relaxed SIMD are not tested, because WebKitGTK lacks the origin private file system and relaxed SIMD. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { serve } from '../../tools/serve.js';
import { testModel } from '../js/models.js';
import { ANSWERED, READY, modelAddress, root, servePage, wideFormula } from './helpers.js';
import { WebKitPage } from './webkit-page.js';
import { WebKit, noWebKit } from './webkit.js';

const skip = noWebKit() || false;
const STORYTELLER = join(root, 'models', 'storyteller', 'storyteller.gguf');
const PROMPT = 'Once upon a time';

/** @type {WebKit} */
let browser;
/** @type {import('../../tools/serve.js').Running} */
let server;
/** @type {string} */
let folder;
/** @type {string} */
let expected;

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-webkit-'));
  writeFileSync(
    join(folder, 'index.html'),
    '<!doctype html><title>x</title><input type="file">' + '<script type="module" src="app.js"></script>',
  );
  writeFileSync(join(folder, 'app.js'), "import * as gemma from './dist/index.js';\nwindow.gemma = gemma;\n");
  copyFileSync(STORYTELLER, join(folder, 'storyteller.gguf'));
  const models = dirname(await testModel('tiny'));
  server = await serve({ root: folder, mounts: { '/dist/': join(root, 'dist'), '/models/': models } });
  const model = await loadModel(STORYTELLER, { threads: 1, variant: 'simd128' });
  expected = (await model.generate(PROMPT, { maxTokens: 30, seed: 5 }).result()).text;
  await model.dispose();
  browser = await WebKit.open();
  await browser.goto(server.url);
  await browser.until(() => 'gemma' in window);
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** @param {string} url @param {any} options @param {string} prompt */
async function tell(url, options, prompt) {
  const model = await /** @type {any} */ (window).gemma.loadModel(url, { cache: false, ...options });
  const { text } = await model.generate(prompt, { maxTokens: 30, seed: 5 }).result();
  const { threads, variant } = model.info;
  await model.dispose();
  return { text, threads, variant };
}

test('with 1, 2 and 4 threads the story equals that of the simd128 build in Node', { skip }, async () => {
  for (const threads of [1, 2, 4]) {
    const variant = threads > 1 ? 'simd128+threads' : 'simd128';
    assert.deepEqual(await browser.run(tell, '/storyteller.gguf', { threads }, PROMPT), {
      text: expected,
      threads,
      variant,
    });
  }
});

test('a File is read in place, and an abort ends an answer and a load', { skip }, async () => {
  const got = await browser.run(async (prompt) => {
    const { loadModel } = /** @type {any} */ (window).gemma;
    const file = new File([await (await fetch('/storyteller.gguf')).blob()], 'storyteller.gguf');
    const model = await loadModel(file);
    const { text } = await model.generate(prompt, { maxTokens: 30, seed: 5 }).result();
    const stop = new AbortController();
    const pieces = [];
    const long = model.generate(prompt, { maxTokens: 400, signal: stop.signal, logitBias: { 1: -Infinity } });
    for await (const piece of long) {
      pieces.push(piece);
      stop.abort();
    }
    const { finishReason } = await long.result();
    const again = (await model.generate(prompt, { maxTokens: 30, seed: 5 }).result()).text;
    await model.dispose();
    const ended = new AbortController();
    const load = loadModel('/storyteller.gguf', { cache: false, signal: ended.signal });
    setTimeout(() => ended.abort());
    const name = await load.then(
      () => 'loaded',
      (/** @type {Error} */ error) => error.name,
    );
    return { text, again, finishReason, name };
  }, PROMPT);
  assert.deepEqual(got, { text: expected, again: expected, finishReason: 'aborted', name: 'AbortError' });
});

test('without isolation the model runs on one thread and says why; the cache names the missing feature', {
  skip,
}, async () => {
  const plain = await serve({ root: folder, mounts: { '/dist/': join(root, 'dist') }, isolation: false });
  try {
    await browser.goto(plain.url);
    await browser.until(() => 'gemma' in window);
    const { text, threads } = await browser.run(tell, '/storyteller.gguf', {}, PROMPT);
    assert.deepEqual({ text, threads }, { text: expected, threads: 1 });
    const said = await browser.run(() => {
      const { modelCache, probe } = /** @type {any} */ (window).gemma;
      return modelCache.list().then(
        () => '',
        (/** @type {Error} */ error) => `${error.message} ${probe().reason}`,
      );
    });
    assert.match(said, /no private file system.*isolated/s);
  } finally {
    await plain.close();
    await browser.goto(server.url);
  }
});

for (const chosen of [false, true]) {
  test(`720 MB, ${chosen ? 'a chosen file' : 'fetched'}: a load takes little more memory than planned`, {
    skip,
  }, async () => {
    const path = await testModel('oneb-q4_0');
    const { info } = await inspectModel(path);
    const fresh = await WebKit.open();
    try {
      await fresh.goto(server.url);
      await fresh.until(() => 'gemma' in window);
      if (chosen) await fresh.type('input', path);
      const tokens = await fresh.run(
        async (url) => {
          const source = url || document.querySelector('input')?.files?.[0];
          const model = await /** @type {any} */ (window).gemma.loadModel(source, { cache: false });
          return (await model.generate('Hello', { maxTokens: 4 }).result()).tokens;
        },
        chosen ? '' : `/models/${basename(path)}`,
      );
      const { total } = info.memory;
      const most = 1.2 * total + 250e6;
      const { peak } = fresh;
      console.log(`WebKit: planned ${Math.round(total / 1e6)} MB; peak of the process ${Math.round(peak / 1e6)} MB`);
      assert.equal(tokens.length, 4);
      assert.ok(peak <= most, `the peak is ${peak} bytes, limit ${most}`);
    } finally {
      await fresh.close();
    }
  });
}

test('the page of this project loads a model and answers', { skip }, async () => {
  const page = await servePage({ storyteller: await modelAddress('tiny') });
  try {
    await browser.goto(page.url);
    await browser.until((ready) => document.querySelector(ready) !== null, READY);
    await browser.type('#input', 'Hello\uE007');
    await browser.until((answered) => document.querySelector(answered) !== null, ANSWERED);
    assert.match(
      await browser.run(() => document.querySelector('#threads-hint')?.textContent ?? ''),
      /up to \d+ on this device/,
    );
    const { long, ...others } = await wideFormula(/** @type {any} */ (new WebKitPage(browser)), 'The sum');
    assert.ok(long > 500, `${long} pixels`);
    assert.deepEqual(others, { page: 0, log: 0, line: 0, short: 0, below: 0 });
  } finally {
    await page.close();
  }
});
