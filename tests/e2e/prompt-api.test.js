/* Tests gemma-wasm/prompt-api of the published package in pages: install() keeps or replaces the browser's
 * LanguageModel, the first create() downloads, and answers equal Node's. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { createLanguageModel } from '../../js/prompt-api.node.js';
import { serve } from '../../tools/serve.js';
import { BROWSERS, openTab, root, sharedBrowser } from './helpers.js';
import { WebKit, noWebKit } from './webkit.js';

const STORYTELLER = path.join(root, 'models', 'storyteller', 'storyteller.gguf');
const ASKED = 'Tell me a story about a dog.';
const MAX = 30;
const LOAD = { contextLength: 256, variant: /** @type {const} */ ('simd128'), threads: 1 };
const OPTIONS = { ...LOAD, maxTokens: MAX, userActivation: false };

/** @type {string} */ let expected;
before(async () => {
  assert.ok(
    existsSync(path.join(root, 'dist', 'prompt-api.js')),
    'dist/ is missing. Run node tools/build/setup.js package.',
  );
  const model = await loadModel(STORYTELLER, LOAD);
  const Local = createLanguageModel(model, { maxTokens: MAX });
  expected = await (await Local.create({ samplingMode: 'most-predictable' })).prompt(ASKED);
  await model.dispose();
});

/** @param {string} module @param {string} url @param {object} options @param {string} asked */
async function ask(module, url, options, asked) {
  const scope = /** @type {any} */ (window);
  const { install } = await import(module);
  const native = scope.LanguageModel ?? 'none';
  const kept = install(url, options);
  const replaced = install(url, { ...options, replace: true });
  /** @type {number[]} */ const progress = [];
  const before = await replaced.availability();
  const session = await replaced.create({
    samplingMode: 'most-predictable',
    monitor: (/** @type {EventTarget} */ monitor) =>
      monitor.addEventListener('downloadprogress', (event) =>
        progress.push(/** @type {ProgressEvent} */ (event).loaded),
      ),
  });
  let answer = '';
  const reader = session.promptStreaming(asked).getReader();
  for (let piece; !(piece = await reader.read()).done; ) answer += piece.value;
  const tooLong = await session.prompt('word '.repeat(500)).catch((/** @type {any} */ error) => error);
  const wasKept = native === 'none' ? kept !== replaced : kept === native;
  const { name, requested, quota } = tooLong;
  session.destroy();
  return {
    answer,
    before,
    wasKept,
    isGlobal: scope.LanguageModel === replaced,
    progress: [progress[0], progress.at(-1)],
    error: [name, tooLong instanceof DOMException, requested > quota],
  };
}

/** Checks the results of a page. @param {any} got @param {string} availability before the first create() */
function judge(got, availability) {
  assert.deepEqual(got, {
    answer: expected,
    before: availability,
    wasKept: true,
    isGlobal: true,
    progress: [0, 1],
    error: ['QuotaExceededError', true, true],
  });
}

const servePackage = () =>
  serve({
    root,
    mounts: { '/models/': path.dirname(STORYTELLER) },
    intercept: (request, response) => {
      if (request.url !== '/') return false;
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end('<!doctype html><html lang="en"><title>Prompt API</title><body></body></html>');
      return true;
    },
  });

for (const name of BROWSERS) {
  describe(`${name}, the Prompt API`, () => {
    test('downloads, and answers as in Node', async (t) => {
      const server = await servePackage();
      t.after(() => server.close());
      const tab = await openTab(await sharedBrowser(name), server.url, {
        expected: /./,
      });
      const module = `${server.url}dist/prompt-api.js`;
      const url = `${server.url}models/storyteller.gguf`;
      judge(await tab.page.evaluate(ask, module, url, OPTIONS, ASKED), 'downloadable');
      await tab.close();
    });
  });
}

test('WebKit, the Prompt API answers as in Node', { skip: noWebKit() || false }, async (t) => {
  const server = await servePackage();
  const browser = await WebKit.open();
  t.after(async () => {
    await browser.close();
    await server.close();
  });
  await browser.goto(server.url);
  const [module, url] = [`${server.url}dist/prompt-api.js`, `${server.url}models/storyteller.gguf`];
  judge(await browser.run(ask, module, url, OPTIONS, ASKED), 'downloadable');
});
