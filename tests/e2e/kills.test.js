/* Runs a part of the fault-injection case `kills` (tests/lab): tabs, and Node processes, are killed while they download
 * a model or save conversations. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Profile, openKills } from '../lab/kills.js';
import { openPlace } from '../lab/place.js';
import { randoms } from '../support/random.js';
import { BROWSERS, sharedBrowser } from './helpers.js';

/** Maximum number of bytes that a download may repeat after a kill: what the buffers of the system and the browser hold
 * for three connections. */
const ON_ITS_WAY = 1 << 20;

/** @type {Awaited<ReturnType<typeof openKills>>} */ let known;
before(async () => {
  known = await openKills();
});
after(() => known.lab.close());

for (const side of /** @type {const} */ (['node', ...BROWSERS])) {
  test(`${side}: after a kill, the next load resumes the stored copy and has the right model`, async (t) => {
    const shared = side === 'node' ? undefined : await sharedBrowser(side);
    const place = await openPlace(side, known.lab, { shared });
    t.after(() => place.close());
    const profile = new Profile(place, known);
    const seed = Date.now();
    t.diagnostic(`seed ${seed}`);
    const random = randoms(seed);
    for (const what of /** @type {const} */ (['download', 'save'])) {
      const twice = await profile.trial(what, false, random());
      assert.ok((twice ?? 0) <= ON_ITS_WAY, `${what}: ${twice} bytes were fetched twice`);
    }
  });
}
