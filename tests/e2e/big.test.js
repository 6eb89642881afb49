/**
 * A file of Gemma 3 1B's size and shape (720 MB, random weights), with the whole context of 32768
 * tokens: loads and generates in both browsers. Prints the peak memory of the process that runs
 * the engine, and holds what the load has added to it against the plan.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspectModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED, BROWSERS, assertReady, launch, loadAddress, modelAddress, openTab, peaksBelow, say, servePage, setOptions, textOf, until,
} from './helpers.js';

const CONTEXT = 32768;
const MB = (/** @type {number} */ bytes) => `${Math.round(bytes / 1e6)} MB`;

/** Peaks of the processes that run pages, by process. @param {import('puppeteer-core').Browser} browser */
function pagePeaks(browser) {
  const all = peaksBelow(Number(browser.process()?.pid));
  return new Map(all.filter(({ command }) => /--type=renderer|-contentproc/.test(command)).map(({ pid, peak }) => [pid, peak]));
}

describe('1B, 32768 tokens of context', { skip: process.platform !== 'linux' && 'reads /proc' }, () => {
  for (const name of BROWSERS) {
    test(name, { timeout: 300000 }, async () => {
      const { info } = await inspectModel(await testModel('oneb-q4_0'), { contextLength: CONTEXT });
      const { total, kv } = info.memory;
      assert.ok(kv < 200e6, `KV cache of ${CONTEXT} tokens: ${MB(kv)}`);
      const server = await servePage();
      const browser = await launch(name);
      try {
        const address = await modelAddress('oneb-q4_0');
        const tab = await openTab(browser, `${server.url}?context=${CONTEXT}`);
        const before = pagePeaks(browser);
        await loadAddress(tab.page, address, 200000);
        await assertReady(tab.page);
        await setOptions(tab.page, { temperature: 0, maxTokens: 8 });
        await say(tab.page, 'Hello there');
        await until(tab.page, ANSWERED, 100000);
        const stats = await textOf(tab.page, '.from-model:last-child .stats');
        assert.match(stats, /^8\stokens/);
        const [pid, peak] = [...pagePeaks(browser)].sort((a, b) => b[1] - a[1])[0];
        const added = peak - (before.get(pid) ?? 0);
        console.log(`${name}: ${stats}\n${name}: planned ${MB(total)}, peak of the process ${MB(peak)}, `
          + `of which the load added ${MB(added)}: ${(added / total).toFixed(3)} of the plan`);
        assert.ok(added < 1.15 * total, `added ${MB(added)}, expected at most ${MB(1.15 * total)}`);
        await tab.close();
      } finally {
        await browser.close();
        await server.close();
      }
    });
  }
});
