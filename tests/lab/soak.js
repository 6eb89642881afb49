/* soak: a model works for hours: conversations, aborted answers, saved chats, and loads from the cache (in browsers,
 * after reloading the page). Every answer must equal a fresh engine's, and memory must not grow: the median resident
 * memory (VmRSS) in the last tenth of the time is compared with that in the second tenth. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadModel } from '../../js/index.node.js';
import { peaksBelow } from '../e2e/helpers.js';
import { testModel } from '../js/models.js';
import { openLab, openPlace } from './place.js';
import { expectations } from './soaking.js';

const RELOAD_EVERY = 25;
/** Limit on memory late in the run, as a multiple of early memory. Measured growth and noise are below the limit. */
const GROWTH = 1.25;

/** Returns the resident bytes of a process and its descendants (Linux). @param {number} pid */
const held = (pid) =>
  peaksBelow(pid).reduce((sum, one) => {
    try {
      return sum + 1024 * Number(/VmRSS:\s*(\d+) kB/.exec(readFileSync(`/proc/${one.pid}/status`, 'utf8'))?.[1] ?? 0);
    } catch {
      return sum; // The process has just ended.
    }
  }, 0);

/** Works until the time is over. Throws at the first wrong answer; growth of memory is reported at the end.
 * @param {import('./cases.js').Run} run `count` is in minutes */
export async function run({ side, count, after }) {
  const file = await testModel('parity-q4_0');
  const lone = await loadModel(file, { threads: 1 });
  const talks = await expectations(lone);
  await lone.dispose();
  const lab = await openLab(readFileSync(file));
  after(lab.close);
  const place = await openPlace(side, lab);
  after(place.close);
  const member = await place.member();
  const span = count * 60_000;
  const memory = /** @type {{ at: number, bytes: number }[]} */ ([]);
  const began = performance.now();
  let rounds = 0;
  for (; performance.now() - began < span; rounds++) {
    if (rounds % RELOAD_EVERY === 0) {
      await member.reload();
      assert.equal(await member.call('open', { threads: 2 }), rounds ? 'cached' : 'stored');
    }
    await member.call('round', talks, rounds);
    memory.push({ at: (performance.now() - began) / span, bytes: held(member.pid) });
    if (rounds % 500 === 0) console.error(place.name, rounds, memory.at(-1));
  }
  const median = (/** @type {number} */ from, /** @type {number} */ to) => {
    const list = memory.flatMap(({ at, bytes }) => (at >= from && at < to ? [bytes] : []));
    return Math.round((list.sort((a, b) => a - b)[list.length >> 1] ?? NaN) / 1e6);
  };
  const [early, late] = [median(0.1, 0.2), median(0.9, Infinity)];
  const loads = Math.floor((rounds - 1) / RELOAD_EVERY);
  return {
    counts: { rounds, loads, early, late },
    broken: late <= GROWTH * early ? [] : [`memory grew from ${early} to ${late} MB`],
    rows: [[place.name, count, rounds, loads, `${early} MB`, `${late} MB`, 0]],
  };
}
