/* Runs the quick apps of apps.js with the packed package in Chromium: a bundler that resolves `new URL()`, one that
 * does not, a page without a tool, examples, and linters of packages. To run all apps: node tests/apps/run.js. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launch } from '../e2e/helpers.js';
import { APPS } from './apps.js';
import { surrounded, tryApp } from './run.js';

test('apps of other tools answer as Node does', async (t) => {
  const browser = await launch('chromium');
  t.after(() => browser.close());
  await surrounded(async (given) => {
    for (const app of APPS.filter(({ quick }) => quick)) {
      await t.test(app.title, async () => {
        const threads = app.base === 'cdn' ? 1 : undefined;
        const { ok, error, ...got } = await tryApp(app, given, browser);
        assert.ok(ok, error);
        if (app.check || app.judge) return;
        if (threads) assert.equal(got.threads, threads);
        else assert.ok(Number(got.threads) > 1, 'with threads');
      });
    }
  });
});
