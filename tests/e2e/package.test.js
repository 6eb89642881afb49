/* Tests a third-party page with the package installed from `npm pack`'s archive, bundled with esbuild as
 * docs/hosting.md says, served with and without isolation, in both browsers. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { buildSync } from 'esbuild';
import { loadModel } from '../../js/index.node.js';
import { installPackage } from '../js/installed.js';
import { testModel } from '../js/models.js';
import { BROWSERS, openTab, root, serveFor, sharedBrowser } from './helpers.js';

const APP = `
import { loadModel, ModelError } from 'gemma-wasm';
try {
  const model = await loadModel('/model.gguf', { cache: false });
  const answer = model.chat().send('Hello', { maxTokens: 12, seed: 3 });
  // Calls that are served meanwhile must not disturb the answer.
  await Promise.all(Array.from({ length: 60 }, () => model.detokenize([300, 301])));
  const { text } = await answer.result();
  document.title = JSON.stringify({ text, threads: model.info.threads > 1 });
  await model.dispose();
} catch (error) {
  document.title = JSON.stringify({ code: error instanceof ModelError && error.code });
}`;

/** @type {string} */
let folder;
/** @type {string} */
let expected;

before(async () => {
  assert.ok(existsSync(join(root, 'dist', 'index.js')), 'dist/ is missing. Run node tools/build/setup.js package.');
  folder = installPackage();
  writeFileSync(join(folder, 'app.js'), APP);
  const site = join(folder, 'site');
  const dist = join(folder, 'node_modules', 'gemma-wasm', 'dist');
  mkdirSync(site);
  buildSync({
    absWorkingDir: folder,
    outdir: site,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022'],
    entryPoints: { app: 'app.js' },
  });
  for (const name of readdirSync(dist).filter((name) => /^(worker|thread|template)\.js$|\.wasm$/.test(name))) {
    copyFileSync(join(dist, name), join(site, name));
  }
  copyFileSync(await testModel('tiny'), join(site, 'model.gguf'));
  writeFileSync(join(site, 'favicon.ico'), ''); // Browsers request a favicon.ico and log an error if it is missing.
  writeFileSync(join(site, 'index.html'), '<!doctype html><title></title><script type="module" src="app.js"></script>');
  const model = await loadModel(join(site, 'model.gguf'), { threads: 1 });
  expected = (await model.chat().send('Hello', { maxTokens: 12, seed: 3 }).result()).text;
  await model.dispose();
});
after(() => rmSync(folder, { recursive: true }));

for (const name of BROWSERS) {
  test(`${name}: a bundled page generates the same text as Node`, async (t) => {
    const browser = await sharedBrowser(name);
    for (const isolation of [true, false]) {
      const server = await serveFor(t, { root: join(folder, 'site'), isolation });
      const tab = await openTab(browser, server.url);
      await tab.page.waitForFunction(() => document.title);
      assert.deepEqual(JSON.parse(await tab.page.title()), { text: expected, threads: isolation });
      await tab.close();
    }
  });
}
