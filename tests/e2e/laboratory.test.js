/* laboratory: a few runs of the laboratory of faults (tests/lab/) in browsers, and that what it breaks is broken. The
 * whole of it is `node tests/lab/run.js --side chromium`. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { KINDS } from '../lab/faults.js';
import { Laboratory, planOf } from '../lab/laboratory.js';
import { browserPlace } from '../lab/place-browser.js';
import { testModel } from '../js/models.js';
import { BROWSERS, sharedBrowser } from './helpers.js';

/** @type {Record<string, 'empty' | 'part' | 'whole'>} */
const RUNS = {
  'server: ends the connection in the middle': 'part',
  'store: write has no room': 'empty',
  'store: read gives other bytes': 'whole',
  'at rest: a bit was flipped': 'whole',
  'client: aborts and loads again at once': 'empty',
};

for (const name of BROWSERS) {
  test(`${name}: faults of the server, the store, copies at rest and the caller`, async () => {
    const place = browserPlace(name, await sharedBrowser(name));
    const laboratory = new Laboratory(await readFile(await testModel('parity-q4_0')), place);
    try {
      await laboratory.open();
      for (const [what, from] of Object.entries(RUNS)) {
        const kind = /** @type {typeof KINDS[number]} */ (KINDS.find((one) => one.name === what));
        // A server that is broken once is asked again.
        const plan = { ...planOf(0, 7), kind, from, moment: 2, lasting: !kind.server, digest: false };
        assert.equal(await laboratory.run(plan), 'right', what);
      }
      // A store that fails is one: nothing is kept.
      await place.begin('empty');
      const full = { method: 'write', way: 'has no room', moment: 0, lasting: true };
      assert.deepEqual(await place.load({ engine: true, fault: full }), { is: 0 });
      assert.deepEqual((await place.there()).list, []);
      assert.deepEqual(await place.load({ engine: true }), { is: 0 });
      assert.deepEqual(
        (await place.there()).list.map(({ complete }) => complete),
        [true],
      );
    } finally {
      await laboratory.close();
    }
  });
}
