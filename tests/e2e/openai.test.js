/* Tests gemma-wasm/openai in a page: OpenAI's client makes the same calls as in Node. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';
import { testModel } from '../js/models.js';
import { onlyIn, openTab, pageFolder, root, serveFor, sharedBrowser } from './helpers.js';

/** @param {import('node:test').TestContext} t */
async function pageOf(t) {
  const folder = pageFolder(t);
  copyFileSync(await testModel('qwen3-tools'), path.join(folder, 'chat.gguf'));
  copyFileSync(await testModel('embed-q8_0'), path.join(folder, 'embed.gguf'));
  copyFileSync(path.join(root, 'models', 'storyteller', 'storyteller.gguf'), path.join(folder, 'story.gguf'));
  const contents = `export { default as OpenAI } from 'openai';
    export { CALLS, runCalls } from './openai-calls.js'; export { failedCalls } from './responses-calls.js';`;
  const stdin = { contents, resolveDir: path.join(root, 'tests', 'support') };
  await build({ stdin, bundle: true, format: 'esm', platform: 'browser', outfile: path.join(folder, 'calls.js') });
  return folder;
}

for (const name of onlyIn('chromium')) {
  test(`${name}: the calls of OpenAI's client library work in a page`, async (t) => {
    const server = await serveFor(t, { root: await pageOf(t), mounts: { '/dist/': path.join(root, 'dist') } });
    // Expected console errors: zod (a schema library) tries to compile its checks, which the page's content security
    // policy forbids.
    const tab = await openTab(await sharedBrowser(name), server.url, { expected: /script-src eval/ });
    const found = await tab.page.evaluate(async (base) => {
      const [{ loadModel }, { createHandler }, { CALLS, OpenAI, failedCalls, runCalls }] = await Promise.all(
        ['dist/index.js', 'dist/openai.js', 'calls.js'].map((script) => import(base + script)),
      );
      const names = { chat: 'chat', story: 'story', embed: 'embed' };
      const load = (/** @type {string} */ name) => () => loadModel(`${base}${name}.gguf`, { threads: 1, cache: false });
      const fetch = createHandler(Object.fromEntries(Object.keys(names).map((name) => [name, load(name)])));
      const client = new OpenAI({ apiKey: 'x', baseURL: `${base}v1`, fetch, dangerouslyAllowBrowser: true });
      const failed = await runCalls({ client, ...names });
      return { count: CALLS.length, failed: [...failed, ...(await failedCalls({ client, model: 'chat' }))] };
    }, server.url);
    assert.deepEqual(found.failed, []);
    assert.ok(found.count >= 80, `${found.count} calls`);
    await tab.close();
  });
}
