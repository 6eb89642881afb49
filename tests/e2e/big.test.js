/**
 * Loads a file of Gemma 3 1B's size and shape (720 MB, random weights) and generates, each time in a new browser: from
 * a server and from the cache with a context of 4096 tokens, and from a file input with 32768. Compares the peak memory
 * of the engine's process with the memory plan. The peak is the proportional set size (PSS), which divides the
 * browser's program file among the processes that map it. The window is not private, because cached files of Chromium's
 * private windows take memory. Puppeteer's network events are off, because they would keep up to 200 MB of responses.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { inspectModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  assertReady,
  launch,
  load,
  loadAddress,
  modelAddress,
  onlyIn,
  openTab,
  pagePeak,
  say,
  servePage,
  setOptions,
  textOf,
  until,
} from './helpers.js';

const MB = (/** @type {number} */ bytes) => `${Math.round(bytes / 1e6)} MB`;

/** @param {import('./helpers.js').BrowserName} name @param {string} profile @param {string} url of the page
 * @param {number} context @param {(page: import('puppeteer-core').Page) => Promise<void>} start */
async function loadAndAnswer(name, profile, url, context, start) {
  const { info } = await inspectModel(await testModel('oneb-q4_0'), { contextLength: context });
  const { total, kv } = info.memory;
  assert.ok(kv < 200e6, `KV cache of ${context} tokens: ${MB(kv)}`);
  const browser = await launch(name, { userDataDir: profile, networkEnabled: false });
  try {
    // Without ?pick in the address, the page would open the last model by itself, which would count towards the peak.
    const tab = await openTab(browser, `${url}?pick&context=${context}`, { usual: true });
    await start(tab.page);
    await assertReady(tab.page);
    await setOptions(tab.page, { temperature: 0, maxTokens: 8 });
    await say(tab.page, 'Hello there');
    await until(tab.page, ANSWERED, 100000);
    const stats = await textOf(tab.page, '.from-model:last-child .stats');
    assert.match(stats, /^8\stokens/);
    const { resident, proportional } = pagePeak(browser);
    const share = (/** @type {number} */ bytes) => `${MB(bytes)} = ${(bytes / total).toFixed(3)} x`;
    console.log(
      `${name}: ${stats}\n${name}: context ${context}, planned ${MB(total)}; peak of the process ${share(proportional)} ` +
        `(${share(resident)} with all of the browser's program that it maps)`,
    );
    assert.ok(proportional < 1.15 * total, `the peak is ${MB(proportional)}, limit ${MB(1.15 * total)}`);
    await tab.close();
  } finally {
    await browser.close();
  }
}

for (const name of onlyIn('chromium')) {
  describe(`1B in ${name}`, { skip: process.platform !== 'linux' && 'reads /proc' }, () => {
    const profile = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-profile-'));
    /** @type {import('../../tools/serve.js').Running} */ let server;
    /** @type {(string | undefined)[]} */ let asked = [];
    before(async () => {
      server = await servePage({
        intercept: async ({ url, headers }) => {
          if (url?.startsWith('/models/')) asked.push(headers.range);
          return false;
        },
      });
    });
    after(async () => {
      await server?.close();
      rmSync(profile, { recursive: true, force: true });
    });
    const fetched = async (/** @type {import('puppeteer-core').Page} */ page) => {
      asked = [];
      await loadAddress(page, await modelAddress('oneb-q4_0'), 200000);
    };

    test('a fetched model', { timeout: 300000 }, async () => {
      await loadAndAnswer(name, profile, server.url, 4096, fetched);
    });

    test('a stored copy of a model', { timeout: 300000 }, async () => {
      await loadAndAnswer(name, profile, server.url, 4096, fetched);
      assert.deepEqual([...new Set(asked)], ['bytes=0-0']);
    });

    test('a chosen file, 32768 tokens of context', { timeout: 300000 }, async () => {
      await loadAndAnswer(name, profile, server.url, 32768, async (page) => {
        const file = await testModel('oneb-q4_0');
        const chooser = await page.$('#file');
        await load(page, () => /** @type {any} */ (chooser).uploadFile(file), 200000);
      });
    });
  });
}
