/* The rooms of a download, each alone: which file it is, the shelf that never throws, the window over ranges. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Entry } from '../../js/download/entries.js';
import { Identity, compare, keyOf } from '../../js/download/identity.js';
import { Lanes } from '../../js/download/lanes.js';
import { Shelf } from '../../js/download/shelf.js';
import { randoms } from './faulty-server.js';
import { sleep } from './helpers.js';

const VERSION = { etag: '"1"', modified: 'Sat', total: 10 };

test('two versions are the same, others, or nobody can tell', () => {
  const verdicts = [
    [{}, 'same'], [{ etag: '"2"' }, 'changed'], [{ etag: '"2"', modified: 'Sun' }, 'changed'], [{ modified: 'Sun' }, 'same'],
    [{ etag: '' }, 'same'], [{ etag: '', modified: 'Sun' }, 'changed'], [{ etag: '', modified: '' }, 'unknown'],
    [{ total: 11 }, 'changed'], [{ total: undefined }, 'same'], [{ etag: '', modified: '', total: 11 }, 'changed'],
  ];
  for (const [change, verdict] of verdicts) assert.equal(compare(VERSION, { ...VERSION, ...change }), verdict, JSON.stringify(change));
});

test('the first version counts, and the first size', () => {
  const identity = new Identity();
  assert.equal(identity.named, false);
  assert.equal(identity.pin({ ...VERSION, total: undefined }), 'same');
  assert.deepEqual([identity.named, identity.total], [true, undefined]);
  assert.equal(identity.pin(VERSION), 'same');
  assert.equal(identity.total, 10);
  assert.equal(identity.pin({ ...VERSION, etag: '"2"' }), 'changed');
  identity.unpin();
  assert.equal(identity.pin({ etag: '', modified: '', total: 12 }), 'same');
  assert.deepEqual([identity.named, identity.total], [false, 10]);
});

test('what a URL names: its address and its query without what signs it', () => {
  const named = keyOf('https://x.org/a.gguf', (text) => `${text}-`.repeat(9));
  assert.equal(named.length, 24);
  const whole = (/** @type {string} */ query) => {
    let text = '';
    keyOf(`https://x.org/a.gguf${query}`, (given) => text = given);
    return text;
  };
  assert.equal(whole('?v=1&X-Amz-Signature=2'), whole('?v=1'));
  assert.notEqual(whole('?v=1'), whole('?v=2'));
  assert.notEqual(whole('?v=1&token=3'), whole('?v=1&token=4'));
  assert.equal(whole('#there'), whole(''));
});

/** A window over `total` bytes, each its place's number. @param {number} total
 * @param {(range: import('../../js/download/lanes.js').Range) => Promise<unknown>} [pause] @param {number} [size] */
function lanesOf(total, pause = async () => {}, size = 100) {
  const seen = { now: 0, most: 0, starts: /** @type {number[]} */ ([]) };
  const lanes = new Lanes(size, async (range, before) => {
    seen.starts.push(range.start);
    seen.most = Math.max(seen.most, ++seen.now);
    while (range.at < Math.min(range.end, total)) {
      await pause(range);
      const room = range.room(Math.min(7, total - range.at));
      room.forEach((_, i) => { room[i] = range.at + i; });
      range.came(room.length);
    }
    await before;
    seen.now--;
  });
  return { lanes, seen };
}

test('ranges are filled side by side and given in order, however long each takes', async () => {
  const random = randoms(3);
  const { lanes, seen } = lanesOf(950, () => sleep(random() * 2));
  let many = 1, at = 0;
  for (let piece; (piece = await lanes.next(() => ({ lanes: many, end: 950 }))); at += piece.length) {
    assert.ok([...piece].every((value, i) => value === (at + i) % 256), `at ${at}`);
    if (at === 0) assert.equal(seen.most, 1);
    if (at > 300) many = 3;
  }
  assert.equal(at, 950);
  assert.equal(seen.most, 3);
  assert.deepEqual(seen.starts, Array.from({ length: 10 }, (_, i) => i * 100));
});

test('a range that fails is told when its turn comes, after the bytes that came', async () => {
  const { lanes } = lanesOf(300, async ({ start, filled }) => {
    if (start === 100 && filled > 50) throw new Error('gone');
  });
  let given = 0;
  const read = async () => {
    for (let piece; (piece = await lanes.next(() => ({ lanes: 3, end: 300 }))); ) given += piece.length;
  };
  await assert.rejects(read(), /gone/);
  assert.equal(given, 156);
});

/** An entry of 10 bytes, of which there are 4. @param {object} broken */
function shelfWith(broken) {
  /** @type {string[]} */
  const told = [], removed = [];
  const store = /** @type {any} */ ({
    list: async () => [], size: async () => 0, read: async (_, __, into) => into.length, write: async () => {},
    remove: async (name) => { removed.push(name); }, ...broken,
  });
  const shelf = new Shelf({ store, readOnly: false, notice: (code) => told.push(code) });
  const journal = { url: '', ...VERSION, have: [[0, 4]], need: 0, sha256: '', used: 0, turn: 0 };
  return { shelf, told, removed, entry: new Entry(store, 'a', /** @type {any} */ (journal)) };
}

test('a shelf tells what it holds, and whether it was kept', async () => {
  const { shelf, told, entry } = shelfWith({});
  assert.deepEqual([shelf.held(2), shelf.gap(5), shelf.total], [2, Infinity, undefined]);
  await shelf.use(entry);
  assert.deepEqual([shelf.held(2), shelf.held(4), shelf.gap(5), shelf.total], [4, 4, Infinity, 10]);
  assert.equal(await shelf.read(0, new Uint8Array(4)), 4);
  await shelf.put(6, new Uint8Array(4), 100);
  assert.deepEqual([shelf.gap(4), shelf.held(6)], [6, 10]);
  await shelf.put(4, new Uint8Array(2), 100);
  await shelf.finish('f'.repeat(64));
  assert.deepEqual([shelf.kept, told, entry.journal.sha256], ['stored', [], 'f'.repeat(64)]);
});

for (const method of ['read', 'write', 'list', 'remove']) {
  test(`a shelf never throws: ${method} fails`, async () => {
    const { shelf, told, entry } = shelfWith({ [method]: async () => { throw new Error('out of order'); } });
    if (method === 'list') assert.deepEqual(await shelf.find('a'), []);
    await shelf.use(entry);
    assert.equal(await shelf.read(0, new Uint8Array(4)), method === 'read' || method === 'write' ? 0 : 4);
    await shelf.put(4, new Uint8Array(6), 1);
    if (method === 'read' || method === 'write') assert.deepEqual([shelf.held(0), shelf.total], [0, undefined]);
    // What proves to be no model is removed.
    await shelf.finish('', /** @type {any} */ (method === 'remove' ? { code: 'bad-magic' } : undefined));
    assert.deepEqual(told, ['not-cached']);
  });
}
