/** Tabs that are killed while they download a model, or save conversations: a part of what kills.js tries. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { randoms } from '../support/random.js';
import { BROWSERS, sharedBrowser } from './helpers.js';
import { Profile, serveModel, trial } from '../lab/kills-browser.js';

/** What can be on its way in buffers of three connections, of the system's and the browser's. */
const ON_ITS_WAY = 1 << 20;

/** @type {import('../lab/kills-browser.js').Served} */ let server;
before(async () => {
  server = await serveModel();
});
after(() => server.close());

for (const name of BROWSERS) {
  describe(`${name}, killed tabs`, () => {
    test('the next tab has the right model, and goes on where the copy ended', async (t) => {
      const browser = await sharedBrowser(name);
      const context = await browser.createBrowserContext();
      t.after(() => context.close());
      const profile = new Profile(browser, context, server);
      const random = randoms(Date.now());
      for (const what of /** @type {import('../lab/kills-browser.js').What[]} */ (['download', 'save'])) {
        const twice = await trial(profile, server, what, false, random());
        assert.ok((twice ?? 0) <= ON_ITS_WAY, `${what}: ${twice} bytes came twice`);
      }
    });
  });
}
