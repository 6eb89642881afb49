/* Runs a part of the fault-injection case `copies` (tests/lab): tabs, or Node processes, use one file at the same
 * time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tryCopies } from '../lab/copies.js';
import { sharedBrowser } from './helpers.js';

for (const side of /** @type {const} */ (['node', 'chromium'])) {
  test(`${side}: tabs or processes that inspect, load, abort and delete one file download it once and lose no copy`, async () => {
    const browser = side === 'node' ? undefined : await sharedBrowser(side);
    for (const { counts, broken } of await tryCopies(side, 8, 3, browser)) {
      assert.deepEqual(broken, []);
      assert.ok(counts.load >= 4, JSON.stringify(counts));
    }
  });
}
