/* Runs a part of the fault-injection case `faults` (tests/lab) in a browser, and checks that faults take effect. The
 * faults are injected in JavaScript; download.test.js tests the storage of each browser. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Faults, planOf } from '../lab/faults.js';
import { KINDS } from '../lab/inject.js';
import { testModel } from '../js/models.js';
import { onlyIn, sharedBrowser } from './helpers.js';

/** Faults that a test injects, by name, each with the state of the cached file before the load.
 * @type {Record<string, 'empty' | 'part' | 'whole'>} */
const RUNS = {
  'server: ends the connection in the middle': 'part',
  'store: write has no room': 'empty',
  'store: read returns wrong bytes': 'whole',
  'at rest: a bit was flipped': 'whole',
  'client: aborts and loads again at once': 'empty',
};

for (const side of onlyIn('chromium')) {
  test(`${side}: faults of the server, the store, copies at rest and the caller`, async () => {
    const bytes = await readFile(await testModel('parity-q4_0'));
    const faults = new Faults(bytes, { side, shared: await sharedBrowser(side) });
    try {
      await faults.open();
      for (const [what, from] of Object.entries(RUNS)) {
        const kind = /** @type {typeof KINDS[number]} */ (KINDS.find(({ name }) => name === what));
        // A fault of the server happens only once (`lasting` is false), so the repeated request succeeds.
        const plan = { ...planOf(0, 7), kind, from, moment: 2, lasting: !kind.server, digest: false };
        assert.equal(await faults.run(plan), 'right', what);
      }
      // A cache whose writes fail stores nothing, and the next load stores the file.
      const { call } = faults;
      await call('begin', 'empty');
      const full = { method: 'write', way: 'has no room', moment: 0, lasting: true };
      assert.deepEqual(await call('load', { fault: full }), { is: 0 });
      assert.deepEqual((await call('there')).list, []);
      assert.deepEqual(await call('load'), { is: 0 });
      assert.deepEqual(
        (await call('there')).list.map((/** @type {any} */ { complete }) => complete),
        [true],
      );
    } finally {
      await faults.close();
    }
  });
}
