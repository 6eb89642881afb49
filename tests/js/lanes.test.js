/* Tests the parts of a download, each alone: the file's identity; the cached file, whose methods never throw; the
 * concurrent ranges. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checksum } from '../../js/download/checksum.js';
import { Entry, TRANSITIONS } from '../../js/download/entry.js';
import { TransientError } from '../../js/download/errors.js';
import { StallBudget, TUNING, withRetry } from '../../js/download/http.js';
import { Identity, compare, keyOf } from '../../js/download/identity.js';
import { Lanes } from '../../js/download/lanes.js';
import { CachedFile } from '../../js/download/cached-file.js';
import { randoms } from '../support/random.js';
import { follow } from '../support/states.js';
import { sleep } from './helpers.js';
import { memoryStore } from './memory-store.js';

const VERSION = { etag: '"1"', modified: 'Sat', total: 10 };

test('compare() tells whether two versions are the same, different or unknown', () => {
  /** @type {[object, string][]} */
  const verdicts = [
    [{}, 'same'],
    [{ etag: '"2"' }, 'changed'],
    [{ etag: '"2"', modified: 'Sun' }, 'changed'],
    [{ modified: 'Sun' }, 'same'],
    [{ etag: '' }, 'same'],
    [{ etag: '', modified: 'Sun' }, 'changed'],
    [{ etag: '', modified: '' }, 'unknown'],
    [{ total: 11 }, 'changed'],
    [{ total: undefined }, 'same'],
    [{ etag: '', modified: '', total: 11 }, 'changed'],
  ];
  for (const [change, verdict] of verdicts)
    assert.equal(compare(VERSION, { ...VERSION, ...change }), verdict, JSON.stringify(change));
});

test('the identity of a file is its first version and first size', () => {
  const identity = new Identity();
  assert.equal(identity.named, false);
  assert.equal(identity.pin({ ...VERSION, total: undefined }), 'same');
  assert.deepEqual([identity.named, identity.total], [true, undefined]);
  assert.equal(identity.pin(VERSION), 'same');
  assert.equal(identity.total, 10);
  assert.equal(identity.pin({ ...VERSION, etag: '"2"' }), 'changed');
  identity.version = undefined;
  assert.equal(identity.pin({ etag: '', modified: '', total: 12 }), 'same');
  assert.deepEqual([identity.named, identity.total], [false, 10]);
});

test('the cache key depends on the address and the query of a URL, without signatures', () => {
  const named = keyOf('https://x.org/a.gguf', (text) => `${text}-`.repeat(9));
  assert.equal(named.length, 24);
  const whole = (/** @type {string} */ query) => {
    let text = '';
    keyOf(`https://x.org/a.gguf${query}`, (given) => (text = given));
    return text;
  };
  assert.equal(whole('?v=1&X-Amz-Signature=2'), whole('?v=1'));
  assert.notEqual(whole('?v=1'), whole('?v=2'));
  assert.notEqual(whole('?v=1&token=3'), whole('?v=1&token=4'));
  assert.equal(whole('#there'), whole(''));
});

/** Returns the concurrent ranges (Lanes) of a simulated download. Each byte has the value of its offset.
 * @param {number} total @param {(range: import('../../js/download/lanes.js').Lane) => Promise<unknown>} [pause] */
function lanesOf(total, pause = async () => {}) {
  const seen = { now: 0, most: 0, rooms: 0, starts: /** @type {number[]} */ ([]) };
  const room = () => {
    seen.rooms++;
    return new Uint8Array(100);
  };
  const lanes = new Lanes(room, async (range, before) => {
    seen.starts.push(range.start);
    seen.most = Math.max(seen.most, ++seen.now);
    while (range.at < Math.min(range.end, total)) {
      await pause(range);
      const room = range.room(Math.min(7, total - range.at));
      room.forEach((_, i) => {
        room[i] = range.at + i;
      });
      range.came(room.length);
    }
    await before;
    seen.now--;
  });
  return { lanes, seen };
}

test('ranges are filled concurrently and delivered in order, however long each takes', async () => {
  const random = randoms(3);
  const { lanes, seen } = lanesOf(950, () => sleep(random() * 2));
  let many = 1;
  let at = 0;
  for (let piece; (piece = await lanes.next(0, () => ({ lanes: many, end: 950 }))); at += piece.length) {
    assert.ok(
      [...piece].every((value, i) => value === (at + i) % 256),
      `at ${at}`,
    );
    if (at === 0) assert.equal(seen.most, 1);
    if (at > 300) many = 3;
  }
  assert.equal(at, 950);
  assert.equal(seen.most, 3);
  assert.deepEqual(
    seen.starts,
    Array.from({ length: 10 }, (_, i) => i * 100),
  );
  // Buffers of delivered ranges are reused, so three buffers suffice for all ranges.
  assert.equal(seen.rooms, 3);
});

test('ranges begin after the bytes that came from elsewhere', async () => {
  const { lanes, seen } = lanesOf(300);
  const got = [];
  for (let piece; (piece = await lanes.next(130, () => ({ lanes: 2, end: 300 }))); ) got.push(...piece);
  assert.deepEqual(
    got,
    Array.from({ length: 170 }, (_, i) => (130 + i) % 256),
  );
  assert.deepEqual(seen.starts, [130, 230]);
});

test('a failed range is reported after the bytes that arrived before the failure', async () => {
  const { lanes } = lanesOf(300, async ({ start, filled }) => {
    if (start === 100 && filled > 50) throw new Error('gone');
  });
  let given = 0;
  const read = async () => {
    for (let piece; (piece = await lanes.next(0, () => ({ lanes: 3, end: 300 }))); ) given += piece.length;
  };
  await assert.rejects(read(), /gone/);
  assert.equal(given, 156);
});

/** Returns a new, empty cached file, and a store entry of 10 bytes, of which the first four are stored. `broken`
 * replaces methods of the store. @param {object} broken */
async function fileWith(broken) {
  /** @type {string[]} */
  const told = [];
  /** @type {string[]} */ const removed = [];
  const memory = memoryStore();
  const remove = async (/** @type {string} */ name) => {
    removed.push(name);
    await memory.remove(name);
  };
  const store = { ...memory, remove };
  const means = { sum: checksum, readOnly: false };
  const file = new CachedFile({ ...means, store, notice: (code) => told.push(code) }, 1000);
  const journal = { url: '', ...VERSION, have: [], need: 0, sha256: '', used: 0, turn: 0, piece: 2 };
  const entry = new Entry(store, 'a', /** @type {any} */ (journal), means);
  await entry.put(LANE, 0, 4, HOW);
  await entry.save();
  Object.assign(store, broken);
  follow(entry, TRANSITIONS);
  return { file, told, removed, memory, entry };
}

const LANE = /** @type {any} */ ({ start: 0, bytes: Uint8Array.from({ length: 10 }, (_, i) => i) });
const HOW = { journalEvery: 100, same: true };

test('a cached file reports the ranges that it holds, and whether it was stored', async () => {
  const { file, told, memory, entry } = await fileWith({});
  assert.deepEqual([file.held(2), file.gap(5), file.total], [2, Infinity, undefined]);
  await file.continue(entry);
  assert.deepEqual([file.held(2), file.held(4), file.gap(5), file.total], [4, 4, Infinity, 10]);
  const first = new Uint8Array(4);
  assert.equal(await file.read(0, first), 4);
  assert.deepEqual([...first], [0, 1, 2, 3]);
  assert.equal(await file.put(LANE, 6, 10, HOW), true);
  assert.deepEqual([file.gap(4), file.held(6)], [6, 10]);
  assert.equal(await file.put(LANE, 4, 6, HOW), true);
  await file.finish('f'.repeat(64));
  assert.deepEqual([file.kept, told, entry.journal.sha256], ['stored', [], 'f'.repeat(64)]);
  const stored = new Uint8Array(10);
  await memory.read('a', 0, stored);
  assert.deepEqual(stored, LANE.bytes);
});

for (const method of ['read', 'write', 'list', 'remove']) {
  test(`a cached file does not throw if ${method}() of the store fails`, async () => {
    const { file, told, removed, entry } = await fileWith({
      [method]: async () => {
        throw new Error('out of order');
      },
    });
    if (method === 'list') assert.deepEqual(await file.find('a'), []);
    await file.continue(entry);
    assert.equal(await file.read(0, new Uint8Array(4)), method === 'read' || method === 'write' ? 0 : 4);
    await file.put(LANE, 4, 10, { ...HOW, journalEvery: 1 });
    if (method === 'read' || method === 'write') assert.deepEqual([file.held(0), file.total], [0, undefined]);
    // A load that finds that the file is not a model removes the cached file.
    await file.finish('', /** @type {any} */ (method === 'remove' ? { code: 'bad-magic' } : undefined));
    assert.deepEqual([told, removed], [['not-cached'], []]);
  });
}

test('parallel writes that fail send one notice', async () => {
  let isFull = false;
  const { file, told, memory, entry } = await fileWith({
    async write(/** @type {[string, number, Uint8Array]} */ ...args) {
      if (isFull) throw new Error('full');
      await memory.write(...args);
    },
  });
  await file.continue(entry);
  isFull = true;
  await Promise.all([4, 6].map((at) => file.put(LANE, at, at + 2, HOW)));
  assert.deepEqual(told, ['not-cached']);
});

test('a connection that stalls again and again regains its attempts only after a quarter of a range', async (t) => {
  const timer = setInterval(() => {}, 1000); // keeps the process alive, which the pauses between attempts do not
  t.after(() => clearInterval(timer));
  const tuning = { ...TUNING, segment: 4000, backoffMs: 0, longestMs: 1 };
  for (const [stalled, gained, calls] of /** @type {[boolean, number, number][]} */ ([
    [true, 999, 3],
    [true, 1000, 9],
    [false, 1, 9],
    [false, 0, 3],
  ])) {
    let at = 0;
    let asked = 0;
    const receive = async () => {
      at += gained;
      if (++asked < 9) throw Object.assign(new TransientError('truncated', 'it ended'), { stalled: Number(stalled) });
    };
    const around = { onRetry() {}, stallBudget: new StallBudget(tuning) };
    await withRetry(tuning, 3, receive, around, () => at).catch(() => {});
    assert.equal(asked, calls, `${stalled} ${gained}`);
  }
});

/** Simulates `lanes` connections that stall after every `bytes` bytes, until the stall budget is exceeded or the file
 * is complete. Returns the total length of the stalls, and whether the file is complete.
 * @param {{ attempts: number, stallMs: number, segment: number }} tuning @param {number} bytes
 * @param {{ lanes: number, total: number }} file */
function endured(tuning, bytes, { lanes, total }) {
  const stallBudget = new StallBudget(tuning);
  for (let came = 0, now = 0; ; now += tuning.stallMs) {
    for (let lane = 0; lane < lanes; lane++) {
      stallBudget.came(bytes);
      came += bytes;
      if (came >= total || stallBudget.over(now + lane / lanes))
        return { ms: now + tuning.stallMs, whole: came >= total };
    }
  }
}

test('with the tuning of the fault-injection tests, a server that stalls again and again is given up within six seconds', () => {
  const tuning = { attempts: TUNING.attempts, stallMs: 400, segment: 1 << 18 };
  for (const lanes of [1, 3]) {
    for (let bytes = 0; bytes < 1 << 20; bytes += 9973) {
      const { ms } = endured(tuning, bytes, { lanes, total: 3e6 });
      assert.ok(ms <= 6000, `${bytes} bytes through ${lanes} connections: ${ms} ms`);
    }
  }
});

test('the stall budget is the number of attempts, plus one for each four ranges; simultaneous stalls count once', () => {
  const file = { lanes: 1, total: 720e6 };
  const { segment, stallMs, attempts } = TUNING;
  assert.deepEqual(endured(TUNING, 0, file), { ms: attempts * stallMs, whole: false });
  assert.deepEqual(endured(TUNING, segment, file), { ms: (attempts + 3) * stallMs, whole: false });
  assert.ok(endured(TUNING, 4 * segment, file).whole);
  assert.equal(endured(TUNING, 0, { lanes: 3, total: 720e6 }).ms, attempts * stallMs);
});
