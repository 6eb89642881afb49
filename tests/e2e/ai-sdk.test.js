/* Makes the calls of tests/support/ai-sdk-calls.js in Chromium, with the published package. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { CALLS } from '../support/ai-sdk-calls.js';
import { testModel } from '../js/models.js';
import { openTab, pageFolder, root, serveFor, sharedBrowser } from './helpers.js';

test('the calls of the AI SDK work with local models in Chromium', async (t) => {
  const folder = pageFolder(t);
  const { build } = await import('esbuild');
  await build({
    entryPoints: [path.join(root, 'tests/support/ai-sdk-calls.js')],
    outfile: path.join(folder, 'calls.js'),
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022'],
  });
  const models = await Promise.all(['generic-tools', 'embed-q8_0'].map(testModel));
  const mounts = { '/calls/': folder, '/models/': path.dirname(models[0]) };
  const server = await serveFor(t, { root, mounts });
  // Expected console errors: one call loads a missing file, and zod (a schema library) tries to compile its checks,
  // which the page's content security policy forbids.
  const expected = /favicon|404|policy: script-src eval/;
  const tab = await openTab(await sharedBrowser('chromium'), `${server.url}calls/index.html`, { expected });
  const [source, embedder] = models.map((file) => `${server.url}models/${path.basename(file)}`);
  await tab.page.evaluate(
    async (given) => {
      const [entry, { loadModel }, { CALLS }] = await Promise.all(
        ['dist/ai-sdk.js', 'dist/index.js', 'calls/calls.js'].map((name) => import(given.url + name)),
      );
      const [engine, embedEngine] = await Promise.all(
        [given.source, given.embedder].map((url) => loadModel(url, { threads: 1, cache: false })),
      );
      const model = entry.gemmaWasm(engine);
      const all = { entry, engine, embedEngine, model, source: given.source };
      const embedder = entry.gemmaWasm.embeddingModel(embedEngine);
      Object.assign(window, {
        AI_SDK_LOG_WARNINGS: false,
        run: (/** @type {string} */ name) => CALLS[name]({ ...all, embedder }).then(() => 'ok', String),
      });
    },
    { url: server.url, source, embedder },
  );
  for (const name of Object.keys(CALLS)) {
    await t.test(name, async () => {
      assert.equal(await tab.page.evaluate((one) => /** @type {any} */ (window).run(one), name), 'ok');
    });
  }
  await tab.close();
});
