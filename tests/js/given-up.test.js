/* Tests late results of operations that timed out: a store that responds after its timeout, a response of a closed
 * connection. They must not disturb the load. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { checksum } from '../../js/download/checksum.js';
import { Download, TRANSITIONS } from '../../js/download/download.js';
import { emptyJournal } from '../../js/download/entries.js';
import { Entry } from '../../js/download/entry.js';
import { Remote, TUNING } from '../../js/download/http.js';
import { CachedFile } from '../../js/download/cached-file.js';
import { ModelError } from '../../js/errors.js';
import { faultyServer } from './faulty-server.js';
import { randoms } from '../support/random.js';
import { follow } from '../support/states.js';
import { memoryStore } from './memory-store.js';

const LANE = 1 << 16;
const TOTAL = 1 << 20;
const random = randoms(7);
const FILE = Uint8Array.from({ length: TOTAL }, (_, i) => (i < 4 ? 'GGUF'.charCodeAt(i) : random() * 256));
const hash = (/** @type {string} */ text) => createHash('sha256').update(text).digest('hex');

function gate() {
  let open = () => {};
  return {
    closed: new Promise((resolve) => {
      open = () => resolve(null);
    }),
    open: () => open(),
  };
}

/** @param {any} store @param {string[]} notices */
const around = (store, notices) =>
  /** @type {any} */ ({
    store,
    readOnly: false,
    hash,
    sum: checksum,
    room: () => undefined,
    counted() {},
    watched() {},
    hasher: () => ({ update() {}, hex: () => '' }),
    notice: (/** @type {string} */ code) => notices.push(code),
  });

/** Starts a download. Closes it when the test ends, because an open download keeps the process alive.
 * @param {import('node:test').TestContext} t @param {{ url: string }} server @param {any} store
 * @param {number} [stallMs] time limit of the server and the store, long enough for a busy machine */
async function begun(t, server, store, stallMs = 1000) {
  const notices = /** @type {string[]} */ ([]);
  // Records each received part in the journal, however small, because responses arrive in small parts on a busy
  // machine.
  const tuning = { ...TUNING, segment: LANE, alone: Infinity, journal: 1, backoffMs: 1, stallMs };
  const download = new Download(/** @type {any} */ ({ url: server.url, tuning }), around(store, notices));
  follow(download, TRANSITIONS);
  t.after(async () => {
    if (TRANSITIONS[download.state]) await download.close(new ModelError('aborted', 'the test has ended'));
  });
  await download.open();
  download.planned(TOTAL);
  return { download, notices };
}

test('a write that ends after its timeout writes the right bytes, and no wrong bytes are stored with matching checksums', async (t) => {
  const memory = memoryStore();
  const late = gate();
  const done = gate();
  let held = false;
  let written = false;
  const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
    const mine = !held && at > 3 * LANE && at < TOTAL;
    held ||= mine;
    if (mine) await late.closed;
    await memory.write(name, at, bytes);
    written ||= mine;
    if (written && at > TOTAL && bytes.length >= 4096) done.open(); // Bytes beyond the model are the journal.
  };
  const { download, notices } = await begun(t, await faultyServer(t, FILE), { ...memory, write });
  let at = 0;
  for (let piece; (piece = await download.next()); at += piece.length) {
    assert.deepEqual(piece, FILE.subarray(at, at + piece.length));
  }
  // On a busy machine requests may also time out, and are then retried.
  assert.deepEqual([at, notices.filter((code) => code !== 'retry'), held], [TOTAL, ['not-cached'], true]);
  late.open(); // By now, every connection has reused the buffer of the delayed write for other bytes.
  await done.closed;
  await download.close();
  for (const name of await memory.list()) {
    const [entry] = await Entry.find(memory, name, { sum: checksum, readOnly: true });
    for (const [from, to] of entry?.journal.have ?? []) {
      const into = new Uint8Array(to - from);
      const count = await entry.read(from, into);
      assert.deepEqual(into.subarray(0, count), FILE.subarray(from, from + count));
    }
  }
});

test('a read that ends after its timeout does not change a buffer that is in use again', async (t) => {
  const memory = memoryStore();
  const late = gate();
  const done = gate();
  const server = await faultyServer(t, FILE);
  const first = await begun(t, server, memory, 5000);
  while (await first.download.next());
  await first.download.close();
  let reads = 0;
  const read = async (
    /** @type {string} */ name,
    /** @type {number} */ at,
    /** @type {Uint8Array} */ into,
    wanted = () => true,
  ) => {
    if (into.length === LANE && ++reads === 3) {
      await late.closed;
      done.open();
      if (!wanted()) return 0;
    }
    return memory.read(name, at, into);
  };
  const { download, notices } = await begun(t, server, { ...memory, read });
  const window = new Uint8Array(LANE);
  let givenUp = false;
  for (let at = 0; at < TOTAL; at += LANE) {
    for (let used = 0; used < LANE; ) {
      // Reads the download in small parts, as the engine does.
      let count = await download.read(window.subarray(used));
      if (!count) {
        const piece = /** @type {Uint8Array} */ (await download.next());
        window.set(piece, used);
        count = piece.length;
      }
      used += count;
    }
    if (givenUp) {
      assert.ok(reads >= 3, 'the store timed out in the previous range, during the delayed read');
      late.open();
      await done.closed;
    }
    givenUp = notices.includes('not-cached');
    assert.deepEqual(window, FILE.subarray(at, at + LANE));
  }
  assert.ok(notices.includes('not-cached'), `${notices}`);
  await download.close();
});

const means = { sum: checksum, readOnly: false };
const how = { journalEvery: Infinity, same: true };
const piece = 1 << 14;
const lane = (/** @type {number} */ i, n = 1) => ({ start: i * piece, bytes: FILE.slice(i * piece, (i + n) * piece) });

/** Returns a store with 4 of a file's 12 pieces, the first of them damaged. */
async function damagedStore() {
  const memory = memoryStore();
  const journal = { ...emptyJournal(12 * piece, piece), url: 'x', etag: '"v"' };
  const entry = new Entry(memory, 'a.gguf', journal, means);
  await entry.put(lane(0, 4), 0, 4 * piece, how);
  await entry.close();
  await memory.write('a.gguf', 5, Uint8Array.of(FILE[5] ^ 1));
  return memory;
}

test('after freeze(), a copy is not changed, and new bytes of a damaged piece must match its checksum', async () => {
  const memory = await damagedStore();
  const [entry] = await Entry.find(memory, 'a', means);
  assert.equal(await entry.read(0, new Uint8Array(piece)), 0);
  await entry.freeze();
  assert.equal(await entry.put(lane(0), 0, piece, { ...how, same: false }), true);
  assert.equal(await entry.put({ ...lane(1), start: 0 }, 0, piece, { ...how, same: false }), false);
  assert.equal(await entry.put(lane(4), 4 * piece, 5 * piece, how), true);
  await entry.rest();
  assert.deepEqual([entry.heldTo(0), entry.heldTo(4 * piece)], [0, 4 * piece]);
  const stored = new Uint8Array(6);
  await memory.read('a.gguf', 0, stored);
  assert.equal(stored[5], FILE[5] ^ 1);
});

test('pieces that arrive while another connection repairs a damaged piece are written', async () => {
  const memory = await damagedStore();
  const slow = gate();
  let writes = 0;
  const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
    if (++writes === 1) await slow.closed;
    await memory.write(name, at, bytes);
  };
  const [damaged] = await Entry.find({ ...memory, write }, 'a', means);
  await damaged.read(0, new Uint8Array(piece));
  const others = damaged.put(lane(5, 4), 5 * piece, 9 * piece, how);
  await new Promise(setImmediate); // Lets the write of the first piece begin.
  await damaged.put(lane(0), 0, piece, how);
  slow.open();
  await others;
  await damaged.close();
  const [again] = await Entry.find(memory, 'a', means);
  assert.equal(await again.read(5 * piece, new Uint8Array(4 * piece)), 4 * piece);
});

for (const [what, length] of /** @type {const} */ ([
  ['that has arrived', FILE.length],
  ['that stalled', 1 << 10],
])) {
  test(`a pending read of a response ${what} ends when the response is closed, and a later read ends immediately`, async (t) => {
    const server = await faultyServer(t, FILE);
    server.state.faults = () => ({ stallAt: length });
    const answer = await new Remote({ url: server.url }, TUNING).ask();
    while (answer.at < length) await answer.read(FILE.length);
    const end = () => assert.rejects(answer.read(1), { code: 'truncated' });
    const ends = [end(), end()];
    answer.close();
    await Promise.all([...ends, end()]);
  });
}

test('a lock that is granted after its timeout is released', async () => {
  const late = gate();
  const freed = gate();
  const lock = async () => {
    await late.closed;
    return { lost: false, free: freed.open };
  };
  const file = new CachedFile(around({ ...memoryStore(), lock }, []), 20);
  assert.equal(await file.lock('k', () => {}), false);
  await file.finish('', undefined);
  late.open();
  await freed.closed;
});

test('an engine fault does not discard the cached copy', async (t) => {
  const memory = memoryStore();
  const server = await faultyServer(t, FILE);
  const first = await begun(t, server, memory, 5000);
  while (await first.download.next());
  await first.download.close(new ModelError('engine-fault', 'a kernel'));
  const before = await memory.list();
  assert.equal(before.length, 1);
  const { download } = await begun(t, server, memory, 5000);
  assert.equal(download.network, false, 'the cached file is used');
  await download.close();
});

test('a copy that another tab completes before this load has the lock is not downloaded again', async (t) => {
  const server = await faultyServer(t, FILE);
  const memory = memoryStore();
  let locked = 0;
  const lock = async () => {
    if (locked++) return { lost: false, free() {} };
    const { download: other } = await begun(t, server, memory);
    while (await other.next());
    await other.close();
    server.forget();
    return { lost: false, free() {} };
  };
  const { download } = await begun(t, server, { ...memory, lock });
  assert.deepEqual([download.state, locked], ['reading', 1]);
  const bytes = new Uint8Array(TOTAL);
  for (let at = 0, count; (count = await download.read(bytes.subarray(at))); ) at += count;
  assert.deepEqual(bytes, FILE);
  assert.ok(server.sent <= 1, `${server.sent} bytes were sent`);
  await download.close();
});
