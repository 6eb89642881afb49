/* The package on another origin, as from a CDN: the README's page of one file, word for word; and on hosts that set no
 * headers, isolated by gemma-wasm/isolate. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { serve } from '../../tools/serve.js';
import { BROWSERS, openTab, root, sharedBrowser } from './helpers.js';

const CDN = /https:\/\/cdn\.jsdelivr\.net\/npm\/gemma-wasm@[\d.]+/g;
const OPEN = {
  'Access-Control-Allow-Origin': '*',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Content-Security-Policy': '',
};
const STORYTELLER = join(root, 'models', 'storyteller', 'storyteller.gguf');

/** A folder with one page. @param {import('node:test').TestContext} t @param {string} html */
function pageOf(t, html) {
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-elsewhere-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'index.html'), html);
  writeFileSync(join(folder, 'favicon.ico'), '');
  return folder;
}

for (const name of BROWSERS) {
  test(`${name}: the README's one file tells its story, with the package from another origin`, async (t) => {
    const [text] = /<!doctype html>[^]*?(?=\n```)/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? [''];
    assert.ok(text.split('\n').length <= 12 && CDN.test(text), text);
    const cdn = await serve({
      root: join(root, 'dist'),
      isolation: false,
      headers: OPEN,
      mounts: { '/dist/': join(root, 'dist'), '/models/': join(root, 'models') },
    });
    t.after(() => cdn.close());
    const folder = pageOf(t, text.replace(CDN, cdn.url.slice(0, -1)));
    for (const isolation of [false, true]) {
      const site = await serve({ root: folder, isolation, headers: { 'Content-Security-Policy': '' } });
      t.after(() => site.close());
      const tab = await openTab(await sharedBrowser(name), site.url);
      await tab.page.waitForFunction(() => (document.querySelector('#story')?.textContent ?? '').length > 60);
      assert.match(await tab.page.$eval('#story', (story) => story.textContent ?? ''), /^Once upon a time[ ,]/);
      await tab.close();
    }
  });

  test(`${name}: a package that is not where it should be is named in the error`, async (t) => {
    const site = await serve({
      root: pageOf(t, '<!doctype html><title></title>'),
      mounts: { '/dist/': join(root, 'dist') },
    });
    t.after(() => site.close());
    const tab = await openTab(await sharedBrowser(name), site.url, { expected: /404|load|script/i });
    const said = await tab.page.evaluate(async () => {
      const path = '/dist/index.js',
        { loadModel: load } = await import(path);
      return load('/x.gguf', { assets: '/nowhere' }).catch(
        (/** @type {any} */ error) => `${error.code} ${error.message}`,
      );
    });
    assert.match(said, /^worker-failed .*\/nowhere\/worker\.js: status 404.*`assets`/s);
    await tab.close();
  });
}

test('chromium: a host without headers gives threads once the service worker is there', async (t) => {
  const folder = pageOf(
    t,
    `<!doctype html><title></title><script type="module">
    import { isolate } from './isolate.js';
    import { loadModel } from './dist/index.js';
    const isolated = await isolate();
    const model = await loadModel('/models/storyteller/storyteller.gguf', { cache: false });
    const { text } = await model.generate('Once', { maxTokens: 8, seed: 1 });
    document.title = JSON.stringify({ isolated, threads: model.info.threads > 1, text });
  </script>`,
  );
  writeFileSync(join(folder, 'isolate.js'), readFileSync(join(root, 'dist', 'isolate.js')));
  const mounts = { '/dist/': join(root, 'dist'), '/models/': join(root, 'models') };
  const site = await serve({ root: folder, isolation: false, mounts, headers: { 'Content-Security-Policy': '' } });
  t.after(() => site.close());
  const tab = await openTab(await sharedBrowser('chromium'), site.url);
  await tab.page.waitForFunction(() => document.title);
  const model = await loadModel(STORYTELLER, { threads: 1 });
  const { text } = await model.generate('Once', { maxTokens: 8, seed: 1 });
  await model.dispose();
  assert.deepEqual(JSON.parse(await tab.page.title()), { isolated: true, threads: true, text });
  await tab.close();
});
