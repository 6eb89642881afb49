/* Tests that concurrent loads of a file share one download: in one process, in two processes, and if the load that
 * downloads is aborted or its process killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadModel, openCache } from '../../js/index.node.js';
import { freeLock, lockFile } from '../../js/platform/lock-node.js';
import { TUNING, bytes, expected, load, tune } from './downloads.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, refuses, until } from './helpers.js';

const CHILD = fileURLToPath(new URL('../lab/member-node.js', import.meta.url));

/** @param {TestContext} t @param {Fault} usual */
async function place(t, usual = { slow: 4 }) {
  const folder = newFolder(t);
  return { folder, cache: openCache(folder), server: await faultyServer(t, bytes, () => ({}), usual) };
}

const locksIn = async (/** @type {import('fs').PathLike} */ folder) =>
  (await readdir(folder)).filter((name) => name.includes('.lock'));

/** @param {string} url @param {string} folder */
function child(url, folder) {
  const process_ = spawn(process.execPath, [CHILD, url, JSON.stringify(TUNING), folder], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  process_.once('message', () => process_.send(['work', { what: 'load' }]));
  const ended = new Promise((resolve) => {
    process_.on('message', (/** @type {any} */ { value, error }) => (value || error) && resolve(value ?? { error }));
    process_.on('exit', resolve);
  });
  void ended.then(() => process_.kill());
  return { process: process_, ended };
}

test('two concurrent loads of one file are one download, and both report its progress', async (t) => {
  // The server is so slow that the waiting load looks at the cached file several times.
  const { folder, cache, server } = await place(t, { slow: 40 });
  const both = await Promise.all([load(server.url, { cache }), load(server.url, { cache })]);
  assert.deepEqual(both.map(({ kept }) => kept).sort(), ['cached', 'stored']);
  for (const { logits, codes } of both) assert.deepEqual([logits, codes], [expected, []]);
  assert.ok(server.sent <= bytes.length + 3, `${server.sent} of ${bytes.length} bytes were sent`);
  const waiting = both.find(({ kept }) => kept === 'cached')?.events.filter(({ phase }) => phase === 'fetch') ?? [];
  assert.ok(new Set(waiting.map(({ loaded }) => loaded)).size >= 3, `saw ${waiting.map(({ loaded }) => loaded)}`);
  // A waiting load reports progress every second, even before the other load has stored any byte.
  const told = waiting.filter(({ loaded, total }) => loaded || total !== undefined);
  assert.ok(
    told.every(({ loaded, total }) => total && loaded <= total && total === bytes.length),
    JSON.stringify(waiting),
  );
  assert.deepEqual(await locksIn(folder), []);
});

test('a load in this process and one in another process are one download', async (t) => {
  const { folder, cache, server } = await place(t);
  const other = child(server.url, folder);
  await until(() => server.seen.length > 2);
  const here = await load(server.url, { cache });
  assert.deepEqual([here.kept, here.logits], ['cached', expected]);
  assert.equal((await other.ended).kept, 'stored');
  assert.ok(server.sent <= bytes.length + 3, `${server.sent} of ${bytes.length} bytes were sent`);
});

for (const how of ['aborted', 'killed with its process']) {
  test(`if the load that downloads is ${how}, the other one continues its download`, async (t) => {
    const { folder, cache, server } = await place(t);
    const control = new AbortController();
    const other = how === 'aborted' ? undefined : child(server.url, folder);
    const first = other
      ? other.ended
      : refuses(loadModel(server.url, { cache, threads: 1, signal: control.signal }), 'aborted');
    await until(() => server.seen.length > 4);
    const second = load(server.url, { cache });
    await until(() => server.seen.length > 7);
    if (other) other.process.kill('SIGKILL');
    else control.abort();
    // The lock is taken over because its owner has ended, not because it is old.
    const later = Date.now() / 1000 + 3600;
    for (const name of await locksIn(folder)) await utimes(join(folder, name), later, later).catch(() => {});
    await first;
    const { logits, kept } = await second;
    assert.deepEqual([logits, kept], [expected, 'stored']);
    // Bytes lost in transit: one piece for each of three requests, and the contents of the sockets' buffers.
    assert.ok(server.sent < bytes.length + 6 * (1 << 18), `${server.sent} of ${bytes.length} bytes were sent`);
    assert.deepEqual(await locksIn(folder), []);
  });
}

test('a load does not wait for a lock owner without progress', async (t) => {
  const { folder, cache, server } = await place(t, {});
  tune(t, { stallMs: 1000 });
  await load(server.url, { cache });
  const [name] = await readdir(folder);
  await rm(join(folder, name));
  const lock = lockFile(join(folder, `${name.slice(0, 24)}.lock`), () => {});
  assert.ok(lock);
  const { logits, kept, codes } = await load(server.url, { cache });
  assert.deepEqual([logits, kept], [expected, 'none']);
  assert.ok(codes.includes('not-cached'), codes.join());
  lock?.free();
  assert.equal((await load(server.url, { cache })).kept, 'stored');
});

test('the next load removes the lock of a killed process, but not the lock of a running one', async (t) => {
  const { folder, cache, server } = await place(t, {});
  await load(server.url, { cache });
  const [name] = await readdir(folder);
  const path = join(folder, `${name.slice(0, 24)}.lock`);
  const gone = spawn(process.execPath, ['-e', '']);
  await once(gone, 'exit');
  for (const [pid, left] of [
    [gone.pid, []],
    [process.pid, [`${name.slice(0, 24)}.lock`]],
  ]) {
    await writeFile(path, JSON.stringify({ pid, host: hostname() }));
    assert.equal((await load(server.url, { cache })).kept, 'cached');
    assert.deepEqual(await locksIn(folder), left);
  }
});

test('a lock has one owner, and is free after free(), after the end of its process, or after a long silence', async (t) => {
  const { folder } = await place(t);
  const path = join(folder, 'x.lock');
  const take = () => lockFile(path, () => {});
  /** @type {{ path: string, owner: string }[]} */ const told = [];
  const first = lockFile(path, (lock) => told.push(lock));
  assert.equal(take(), undefined);
  freeLock({ ...told[0], owner: 'somebody else' });
  assert.equal(take(), undefined);
  first?.free();
  freeLock(told[0]);
  const gone = spawn(process.execPath, ['-e', '']);
  await once(gone, 'exit');
  const owners = { 'of a process that ended': { pid: gone.pid, host: hostname() }, 'without an owner': null };
  for (const [what, owner] of Object.entries(owners)) {
    await writeFile(path, JSON.stringify(owner));
    if (!owner) await utimes(path, 1, 1);
    const lock = take();
    assert.ok(lock, what);
    lock?.free();
  }
  for (const host of [hostname(), 'elsewhere']) {
    await writeFile(path, JSON.stringify({ pid: process.pid, host }));
    assert.equal(take(), undefined);
    await utimes(path, 1, 1);
    const lock = take();
    assert.ok(lock, host);
    // When another load takes over the lock file, the owner of the lock notices.
    await writeFile(path, 'another');
    await until(() => lock.lost);
    lock?.free();
    assert.equal(await readFile(path, 'utf8'), 'another');
    await rm(path);
  }
  assert.deepEqual(await readdir(folder), []);
});

test('a lock that cannot be read for a moment does not count as lost', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { folder } = await place(t);
  const path = join(folder, 'x.lock');
  const aside = join(folder, 'aside');
  const lock = lockFile(path, () => {});
  const owner = await readFile(path, 'utf8');
  await rename(path, aside);
  await mkdir(path); // Makes reading the lock file fail with EISDIR, in place of EMFILE or EBUSY.
  t.mock.timers.tick(1000);
  freeLock({ path, owner });
  await rm(path, { recursive: true });
  await rename(aside, path);
  t.mock.timers.tick(1000);
  assert.equal(lock?.lost, false);
  lock?.free();
  assert.deepEqual(await readdir(folder), []);
});
