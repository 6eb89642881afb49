/** Workers and threads that die in browsers, and tabs that slept: a part of what deaths.js tries. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { moment, open, serveDoomed } from '../lab/deaths.js';
import { BROWSERS, sharedBrowser } from './helpers.js';

/** That calls end; in five seconds they do on a machine that is not busy with other tests, as deaths.js shows. */
const WITHIN_MS = 20_000;
/** Longer than a worker may be silent. */
const SLEEP_MS = 4600;

/** @type {Awaited<ReturnType<typeof serveDoomed>>} */ let server;
before(async () => {
  server = await serveDoomed();
});
after(() => server.close());

for (const name of BROWSERS) {
  describe(`${name}, deaths`, () => {
    /** @type {import('puppeteer-core').BrowserContext} */ let context;
    before(async () => {
      context = await (await sharedBrowser(name)).createBrowserContext();
    });
    after(() => context.close());

    /** @param {object} [options] @returns {Promise<import('../lab/deaths.js').Run>} */
    const page = async (options) => {
      const opened = await context.newPage();
      await opened.goto(server.url);
      await opened.waitForFunction('window.gemma', { polling: 20 });
      const run = /** @type {import('../lab/deaths.js').Run} */ ((f, ...args) => opened.evaluate(f, ...args));
      await open(run, server, options);
      return run;
    };

    // Side by side, for most of it is waiting.
    test('in the middle of calls and while nobody waits: told, and the next answer is right', async () => {
      await Promise.all(
        [
          ['freeze', false],
          ['thread', false],
          ['exit', true],
        ].map(async ([how, idle]) => {
          await moment(await page(), server, String(how), Boolean(idle), WITHIN_MS);
        }),
      );
      // Calls that had given nothing are repeated: how many are lost is chance. The model of `trap` has none, and tells.
      const run = await page();
      for (const how of ['trap', 'throw']) await moment(run, server, how, how === 'trap', WITHIN_MS);
    });

    test('without restart all calls fail with the same error, and restart() brings it back', async () => {
      const run = await page({});
      const { codes, again } = await run(
        async (prompt, options) => {
          const { lab } = /** @type {any} */ (window);
          const { model } = lab;
          const calls = [model.generate('y', { ...options, maxTokens: 400 }).result(), model.logits([2, 300])];
          lab.harm('throw');
          const errors = await Promise.all(calls.map((call) => call.catch((/** @type {any} */ error) => error)));
          errors.push(await model.lost, await model.tokenize('x').catch((/** @type {any} */ error) => error));
          await model.restart();
          return { codes: errors.map(({ code }) => code), again: await lab.answer(prompt, options) };
        },
        'a prompt of some length',
        { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } },
      );
      assert.deepEqual([...new Set(codes)], ['worker-failed']);
      assert.deepEqual(again, server.expected);
    });

    test('a tab that slept for an hour wakes up working, whether it waited or not', async () => {
      const run = await page({});
      const waking = await run(
        async (ms, prompt, options) => {
          const { lab } = /** @type {any} */ (window);
          const call = lab.answer(prompt, options);
          lab.sleep(ms);
          const first = await call;
          lab.sleep(ms / 100);
          await new Promise((resolve) => {
            setTimeout(resolve, 1000);
          });
          return [first, await lab.answer(prompt, options)];
        },
        SLEEP_MS,
        'a prompt of some length',
        { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } },
      );
      assert.deepEqual(waking, [server.expected, server.expected]);
    });
  });
}
