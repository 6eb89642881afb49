/* copies: two or four tabs of a browser, or Node processes, inspect, load, abort, list and delete one file at the same
 * time. Each load gives the right model, the file is downloaded once, only a deletion removes the cached file, the list
 * can always be read, and a call fails only with codes that are allowed for it. */
import { readFile } from 'node:fs/promises';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { TUNING as USUAL, openLab, openPlace } from './place.js';
import { inTime, isWhole } from './rules.js';

/** @import { Lab, Member, Side } from './place.js' */

/** @typedef {import('./member.js').Step} Step */
/** @typedef {'load' | 'abort' | 'inspect' | 'list' | 'delete'} What */

/** A range size so small that an abort wastes few bytes compared with the file. */
const SEGMENT = 1 << 17;
const TUNING = { ...USUAL, segment: SEGMENT, journal: 1 << 16, backoffMs: 20, longestMs: 2000, stallMs: 20_000 };
/** Number of concurrent range requests (js/download/lanes.js), all of which an abort can waste. */
const LANES = 4;
const HANGS_MS = 60_000;
/** Maximum bytes that a request for the ETag receives before it is cancelled. */
const GLANCE = 65_536;
/** Error codes with which each kind of call may fail in this test. @type {Record<What, string[]>} */
const ALLOWED = { load: [], abort: ['aborted'], inspect: [], list: [], delete: ['cache-failed'] };

/** @param {(n?: number) => number} random @param {number} count of tabs or processes */
function drawn(random, count) {
  const kinds = /** @type {What[]} */ ([
    'load',
    'load',
    'inspect',
    'abort',
    'list',
    random() < 0.3 ? 'delete' : 'inspect',
  ]);
  return Array.from({ length: count }, (_, i) => ({
    what: i ? kinds[random(kinds.length)] : kinds[0],
    wait: random(150),
    after: random(200),
  }));
}

/** Lets tabs or processes inspect, load, abort and delete one file at the same time. Returns how often each call was
 * made, and the broken rules.
 * @param {Member[]} members @param {Lab} lab @param {number} runs
 * @param {number} seed */
async function runAll(members, { source, size }, runs, seed) {
  const random = randoms(seed);
  /** @type {string[]} */
  const broken = [];
  const counts = {
    runs,
    load: 0,
    abort: 0,
    inspect: 0,
    list: 0,
    delete: 0,
    copiesLost: 0,
    downloadedTwice: 0,
    mostSent: 0,
  };
  /** @param {What} what */
  const alone = async (what) => {
    source.forget();
    return members[0].call('work', { what });
  };
  await alone('delete');
  await alone('inspect');
  const header = source.sent;
  const { logits: expected } = await alone('load');
  for (let run = 0; run < runs; run++) {
    const fresh = random() < 0.6;
    const steps = drawn(random, members.length);
    if (fresh) await alone('delete');
    source.forget();
    const outcomes = await inTime(Promise.all(steps.map((step, i) => members[i].call('work', step))), HANGS_MS);
    if (outcomes === 'late') throw new Error(`run ${run} of seed ${seed} hangs: ${JSON.stringify(steps)}`);
    const { sent } = source;
    const of = (/** @type {What} */ what) => steps.filter((step) => step.what === what).length;
    const fail = (/** @type {string} */ why) =>
      broken.push(`run ${run} of seed ${seed}: ${why}: ${JSON.stringify({ fresh, sent, steps })}`.slice(0, 900));
    steps.forEach(({ what }, i) => {
      const { code, message, logits } = outcomes[i];
      counts[what]++;
      if (code && !ALLOWED[what].includes(code)) fail(`${what} fails: ${message}`);
      if (logits && logits !== expected) fail(`${what}: wrong logits`);
    });
    if (of('delete')) {
      await alone('load'); // The next run may need a cached file.
      continue;
    }
    // Each call may request the file's version, an inspection may read the header, and an abort wastes the ranges in
    // transit.
    const allowed =
      (fresh ? size : 0) + members.length * GLANCE + of('inspect') * header + of('abort') * LANES * SEGMENT;
    counts.mostSent = Math.max(counts.mostSent, sent);
    if (sent > allowed) counts.downloadedTwice++, fail(`${sent} bytes were sent, ${allowed} allowed`);
    const next = await alone('load');
    if (next.logits !== expected || !isWhole(next, source.sent, GLANCE))
      counts.copiesLost++, fail(`the complete cached file is lost: ${next.kept}`);
  }
  return { counts: { ...counts, bytes: size, header }, broken };
}

/** Tests Node or one browser: half of the runs with two tabs or processes, half with four.
 * @param {Side} side @param {number} runs @param {number} seed @param {import('puppeteer-core').Browser} [shared] */
export async function tryCopies(side, runs, seed, shared) {
  const lab = await openLab(await readFile(await testModel('parity-q4_0')), { tuning: TUNING, usual: { slow: 1 } });
  const results = [];
  try {
    for (const count of [2, 4]) {
      const place = await openPlace(side, lab, { shared });
      try {
        const members = await Promise.all(Array.from({ length: count }, () => place.member()));
        const found = await runAll(members, lab, Math.ceil(runs / 2), seed + count);
        results.push({ name: place.name, members: count, ...found });
      } finally {
        await place.close();
      }
    }
  } finally {
    await lab.close();
  }
  return results;
}

/** Makes `count` runs, half of them with two tabs or processes and half with four.
 * @param {import('./cases.js').Run} run */
export async function run({ side, count, seed }) {
  const results = await tryCopies(side, count, seed);
  return {
    counts: Object.fromEntries(results.map(({ members, counts }) => [`members${members}`, counts])),
    broken: results.flatMap(({ broken }) => broken),
    rows: results.map(({ name, members, counts }) => {
      const { runs, load, abort, inspect, list, delete: deleted, copiesLost, downloadedTwice } = counts;
      return [name, members, runs, load, abort, inspect, list, deleted, copiesLost, downloadedTwice];
    }),
  };
}
