/* Checks each state of the page once with axe, alternating between light and dark, wide and narrow. `node
 * tests/e2e/axe.js` checks all combinations. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dress, findings, walk } from './axe.js';
import { sharedBrowser } from './helpers.js';

const DRESSES = /** @type {const} */ ([
  ['light', 320],
  ['dark', 1100],
  ['light', 640],
  ['dark', 320],
  ['light', 1100],
]);

test('axe finds no violation in any state of the page, and nothing overflows sideways', async () => {
  await walk(await sharedBrowser('chromium'), async (page, name, n) => {
    const [theme, width] = DRESSES[n % DRESSES.length];
    await dress(page, theme, width);
    assert.deepEqual(await findings(page), [], `${name}, ${theme}, ${width}`);
    await dress(page, 'light', 1100);
  });
});
