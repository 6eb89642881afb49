/* Tests the model cache: no bytes are fetched twice, even after the process was killed during a download; cached models
 * load without a network; partial, corrupt, outdated and oversized cached files do no harm. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isCached } from '../../js/cached.js';
import { environment } from '../../js/platform/env.js';
import { inspectModel, loadModel, modelCache, openCache } from '../../js/index.node.js';
import { TUNING, bytes, expected, expectedOther, load, other, sha256Of, tune } from './downloads.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, refuses, wrong } from './helpers.js';
import { memoryStore } from './memory-store.js';

/** Tuning for downloads in long ranges, each of which is requested while the previous one arrives. */
const LONG = { ...TUNING, alone: 0, least: 1 << 16, most: 1 << 16, spare: 0 };

/** @param {TestContext} t */
function emptyCache(t) {
  const folder = newFolder(t);
  return { folder, cache: openCache(folder) };
}

test('the second load only checks for a newer file; the third works offline', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const first = await load(server.url, { cache });
  assert.deepEqual([first.kept, first.last.fromCache, server.sent], ['stored', 0, bytes.length]);
  server.forget();
  const second = await load(server.url, { cache });
  assert.deepEqual([second.kept, second.last.fromCache, second.events[0].phase], ['cached', bytes.length, 'load']);
  assert.deepEqual(
    server.seen.map(({ range }) => range),
    ['bytes=0-0'],
  );
  await server.close();
  const third = await load(server.url, { cache });
  assert.deepEqual([third.kept, third.codes], ['cached', ['offline']]);
  for (const { logits } of [first, second, third]) assert.deepEqual(logits, expected);
  assert.equal((await inspectModel(server.url, { cache })).info.cache, 'cached');
  // A cached file consists of the model's file, followed by a journal.
  const [name] = await readdir(folder);
  assert.equal(Buffer.compare((await readFile(join(folder, name))).subarray(0, bytes.length), bytes), 0);
});

test('the cache is used by default, lists its entries and deletes them', async (t) => {
  const server = await faultyServer(t, bytes);
  await load(`${server.url}?download=true`, { cache: false });
  assert.deepEqual(await modelCache.list(), []);
  await load(`${server.url}?download=true`);
  await load(server.url);
  const list = await modelCache.list();
  assert.deepEqual([await modelCache.get(list[0].key), await modelCache.get('x')], [list[0], undefined]);
  assert.deepEqual(
    list.map(({ url }) => url),
    [server.url, `${server.url}?download=true`],
  );
  const [{ key, lastUsed, ...facts }] = list;
  assert.deepEqual(facts, {
    url: server.url,
    file: 'model.gguf',
    total: bytes.length,
    stored: bytes.length,
    complete: true,
  });
  assert.ok(Math.abs(Number(lastUsed) - Date.now()) < 60_000);
  const { usage, quota, persisted } = await modelCache.estimate();
  assert.ok(Number(usage) >= 2 * bytes.length && Number(quota) > Number(usage) && persisted);
  assert.equal(await modelCache.persist(), true);
  await modelCache.delete(key);
  assert.equal((await modelCache.list()).length, 1);
  await modelCache.clear();
  assert.deepEqual(await modelCache.list(), []);
  await refuses(modelCache.delete(key), 'cache-failed');
  assert.equal((await refuses(modelCache.delete('x'), 'bad-option')).got, '"x"');
  for (const [where, got] of [
    [5, '5'],
    [null, 'null'],
    [{}, '{}'],
    [{ list() {} }, '{ list }'],
    ['', '""'],
  ]) {
    assert.equal((await refuses(() => openCache(wrong(where)), 'bad-option')).got, got);
  }
});

test('isCached() looks for every file that has a URL', async (t) => {
  const { cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const [one, other] = [`${server.url}?${'a=1&'.repeat(300)}`, `${server.url}?b`];
  await load(one, { cache });
  const cached = (/** @type {ModelSource} */ source) => isCached(source, { cache });
  assert.deepEqual(await Promise.all([one, bytes, new Blob([bytes])].map(cached)), [true, true, true]);
  assert.deepEqual(await Promise.all([other, [other, new Blob([bytes])]].map(cached)), [false, false]);
});

test('a load resumes where an aborted one stopped', async (t) => {
  const { cache } = emptyCache(t);
  const server = await faultyServer(t, bytes, () => ({ slow: 4 }));
  const controller = new AbortController();
  const onProgress = (/** @type {Progress} */ { loaded }) => {
    if (loaded > bytes.length / 2) controller.abort();
  };
  await refuses(loadModel(server.url, { threads: 1, cache, signal: controller.signal, onProgress }), 'aborted');
  const [entry] = await cache.list();
  assert.ok(!entry.complete && entry.stored > bytes.length / 3, JSON.stringify(entry));
  server.forget();
  const { logits, last, kept } = await load(server.url, { cache });
  assert.deepEqual(logits, expected);
  assert.equal(kept, 'stored');
  assert.ok(last.fromCache >= entry.stored && server.sent === bytes.length - last.fromCache);
});

for (const [how, tuning] of Object.entries({ 'in pieces': TUNING, 'in long ranges': LONG })) {
  test(`after a kill in the middle of a download, ${how}, the next load fetches only the rest`, (t) =>
    killed(t, tuning));
}

async function killed(/** @type {TestContext} */ t, /** @type {Partial<Tuning>} */ tuning) {
  tune(t, tuning);
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes, () => ({ slow: 2 }));
  const script = `
    import { environment } from ${JSON.stringify(new URL('../../js/platform/env.js', import.meta.url))};
    import { loadModel, openCache } from ${JSON.stringify(new URL('../../js/index.node.js', import.meta.url))};
    environment.tuning = ${JSON.stringify(tuning)};
    await loadModel(${JSON.stringify(server.url)}, { threads: 1, cache: openCache(${JSON.stringify(folder)}),
      onProgress: ({ loaded }) => { if (loaded > ${bytes.length} / 2) process.kill(process.pid, 'SIGKILL'); } });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' });
  const [, signal] = await once(child, 'exit');
  assert.equal(signal, 'SIGKILL');
  const [{ stored, complete }] = await cache.list();
  assert.ok(!complete && stored > bytes.length / 3, `${stored} bytes stored`);
  server.state.faults = () => ({});
  server.forget();
  assert.deepEqual((await load(server.url, { cache })).logits, expected);
  assert.ok(server.sent <= bytes.length - stored, `${server.sent} bytes sent, ${stored} were stored`);
}

/** @param {any} t */
async function begun(t) {
  const store = memoryStore();
  const server = await faultyServer(t, bytes, (n) => (n < 5 ? {} : { killAt: 0 }));
  await refuses(loadModel(server.url, { threads: 1, cache: openCache(store) }), ['truncated', 'network-error']);
  server.forget();
  return { store, server };
}

test('a resumed load does not measure network speed by bytes that arrived while the cache was read', async (t) => {
  for (const slow of [10, 0]) {
    const { store, server } = await begun(t);
    server.state.faults = () => ({ slow });
    const { read } = store;
    let wait = 400;
    store.read = async (name, at, into) => {
      if (at < bytes.length)
        await new Promise((resolve) => {
          setTimeout(resolve, wait);
          wait = 0;
        });
      return read(name, at, into);
    };
    tune(t, { ...TUNING, alone: slow ? 10_000 : 0 });
    assert.deepEqual((await load(server.url, { cache: openCache(store) })).logits, expected);
    environment.tuning = TUNING;
    const lengths = server.seen.map(({ range }) => {
      const [first, last] = range.split(/\D+/).slice(1).map(Number);
      return last - first + 1;
    });
    assert.equal(Math.max(...lengths) > TUNING.segment, !slow, `ranges of ${lengths} bytes, ${slow} ms for each chunk`);
  }
});

test('a resumed load that does not know the size still writes its journal', async (t) => {
  const { store, server } = await begun(t);
  server.state.faults = () => ({ gzip: true });
  const { write } = store;
  let journals = 0;
  store.write = (name, at, part) => {
    if (at >= bytes.length) journals++;
    return write(name, at, part);
  };
  assert.deepEqual((await load(server.url, { cache: openCache(store) })).logits, expected);
  assert.ok(journals >= 5, `${journals} times`);
});

test('a corrupt journal entry falls back to the one before; if both are corrupt, everything is fetched again', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes, (n) => (n < 5 ? {} : { killAt: 0 }));
  await refuses(loadModel(server.url, { threads: 1, cache }), ['truncated', 'network-error']);
  const name = join(folder, (await readdir(folder))[0]);
  server.state.faults = () => ({});
  const tear = async (/** @type {number} */ slot) => {
    const file = await open(name, 'r+');
    const { size } = await file.stat();
    for (const half of [0, 4096]) await file.write('#', size - 16384 + slot * 8192 + half + 100);
    await file.close();
  };
  const [{ stored }] = await cache.list();
  await tear(0);
  const [{ stored: left }] = await cache.list();
  await tear(1);
  const [{ stored: none }] = await cache.list();
  assert.ok(stored > 0 && left > 0 && left <= stored && none === 0, `${stored}, ${left}, ${none}`);
  assert.deepEqual((await load(server.url, { cache })).logits, expected);
  assert.equal((await readdir(folder)).length, 1);
});

test('a changed file on the server replaces the cached copy, whether complete or partial', async (t) => {
  for (const whole of [true, false]) {
    const { folder, cache } = emptyCache(t);
    const server = await faultyServer(t, bytes, (n) => (whole || n < 5 ? {} : { killAt: 0 }));
    const first = loadModel(server.url, { threads: 1, cache });
    if (whole) await (await first).dispose();
    else await refuses(first, ['truncated', 'network-error']);
    Object.assign(server.state, { bytes: other, etag: '"two"', faults: () => ({}) });
    const { logits, codes, kept } = await load(server.url, { cache });
    assert.deepEqual(logits, expectedOther);
    assert.deepEqual([codes, kept], [['changed'], 'stored']);
    assert.equal((await readdir(folder)).length, 1);
  }
});

test('a file that changes during its download leaves nothing in the cache', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes, (n) => (n < 4 ? {} : { bytes: other, etag: '"two"' }));
  await refuses(loadModel(server.url, { threads: 1, cache }), 'source-changed');
  assert.deepEqual(await readdir(folder), []);
});

test('a wrong digest is reported and deletes the new download; a right digest is computed only once', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const digest = sha256Of(bytes);
  const error = await refuses(loadModel(server.url, { threads: 1, cache, sha256: '0'.repeat(64) }), 'sha256-mismatch');
  assert.deepEqual([error.expected, error.got], ['0'.repeat(64), digest]);
  assert.deepEqual(await readdir(folder), []);
  assert.equal((await load(server.url, { cache, sha256: digest })).kept, 'stored');
  assert.equal((await load(server.url, { cache, sha256: digest })).kept, 'cached');
  // If a cached file was stored without a digest, the first load with a digest checks the file.
  await cache.clear();
  await load(server.url, { cache });
  for (const phase of ['load', 'load'])
    assert.equal((await load(server.url, { cache, sha256: digest })).events[0].phase, phase);
  assert.ok((await readFile(join(folder, (await readdir(folder))[0]))).subarray(bytes.length).includes(digest));
  // A load with a wrong digest does not delete a complete cached file.
  await refuses(loadModel(server.url, { threads: 1, cache, sha256: '0'.repeat(64) }), 'sha256-mismatch');
  assert.equal((await readdir(folder)).length, 1);
});

test('a file that is not a model is not cached', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, Buffer.from('<!doctype html><title>Sorry</title>'.repeat(99)));
  await refuses(loadModel(server.url, { threads: 1, cache }), 'bad-magic');
  assert.deepEqual(await readdir(folder), []);
});

test('without enough room for the cache, the model runs and no partial copy remains', async (t) => {
  const server = await faultyServer(t, bytes);
  const poor = memoryStore({ estimate: async () => ({ usage: bytes.length / 2, quota: bytes.length }) });
  const early = await load(server.url, { cache: openCache(poor) });
  const full = memoryStore();
  const { write } = full;
  full.write = async (name, at, part) => {
    if (at < bytes.length && at > bytes.length / 2) throw new DOMException('no', 'QuotaExceededError');
    await write(name, at, part);
  };
  const late = await load(server.url, { cache: openCache(full) });
  for (const { logits, kept, codes } of [early, late]) {
    assert.deepEqual(logits, expected);
    assert.deepEqual([kept, codes], ['none', ['not-cached']]);
  }
  assert.match(early.info.notices[0].message, /3039360 bytes.*1519680/);
  assert.deepEqual([poor.files.size, full.files.size], [0, 0]);
});

test('a custom store works, and one that fails does not prevent loading', async (t) => {
  const server = await faultyServer(t, bytes);
  const store = memoryStore();
  const cache = openCache(store);
  assert.equal((await load(server.url, { cache })).kept, 'stored');
  server.forget();
  const { logits, kept } = await load(server.url, { cache });
  assert.deepEqual([kept, server.sent], ['cached', 1]);
  assert.deepEqual(logits, expected);
  assert.equal((await cache.list())[0].complete, true);
  await cache.clear();
  assert.equal(store.files.size, 0);
  const fails = async () => {
    throw new Error('out of order');
  };
  for (const broken of [
    { list: fails },
    { size: fails, list: async () => ['x'] },
    { write: fails },
    { estimate: fails },
  ]) {
    const got = await load(server.url, { cache: openCache(memoryStore(broken)) });
    assert.deepEqual(got.logits, expected);
  }
  const unreadable = memoryStore();
  await load(server.url, { cache: openCache(unreadable) });
  const { read } = unreadable;
  unreadable.read = async (name, at, into) => (at < bytes.length ? fails() : read(name, at, into));
  assert.deepEqual((await load(server.url, { cache: openCache(unreadable) })).logits, expected);
});

test('a model loads if the folder of the cache is not writable', async (t) => {
  const { folder } = emptyCache(t);
  const file = join(folder, 'a-file');
  await writeFile(file, 'x');
  const server = await faultyServer(t, bytes);
  const { logits, codes } = await load(server.url, { cache: openCache(join(file, 'sub')) });
  assert.deepEqual(logits, expected);
  assert.deepEqual(codes, ['not-cached']);
});

test('tokens and signatures of URLs are never stored; a URL with a new signature finds the old copy', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const signed = (/** @type {number} */ n) => `${server.url}?v=1&X-Amz-Signature=SECRET${n}&token=SECRET`;
  const first = await load(signed(1), { cache, token: 'SECRET-token', headers: { 'X-Key': 'SECRET-key' } });
  const second = await load(signed(2), { cache });
  assert.deepEqual([first.kept, second.kept], ['stored', 'cached']);
  assert.equal((await load(`${server.url}?v=2`, { cache })).kept, 'stored');
  for (const name of await readdir(folder)) {
    assert.ok(!(await readFile(join(folder, name))).subarray(bytes.length).includes('SECRET'));
  }
  const told = JSON.stringify([await cache.list(), first.info, second.info, first.events]);
  assert.doesNotMatch(told, /SECRET/);
});

test('an entry of the list loads its own copy, even if not all of its URL is stored', async (t) => {
  const { cache } = emptyCache(t);
  const long = 'file=gemma-of-a-long-name.gguf';
  const server = await faultyServer(t, bytes, (_, { url }) =>
    url?.includes(long) ? {} : { bytes: other, etag: '"two"' },
  );
  for (const query of [long, 'v=1']) await load(`${server.url}?${query}`, { cache });
  const [whole, short] = await cache.list();
  assert.deepEqual([whole.url, short.url], [`${server.url}?v=1`, server.url]);
  server.forget();
  const got = await load(short, { cache });
  assert.deepEqual([got.kept, got.codes, got.logits, server.seen], ['cached', ['offline'], expected, []]);
  const asked = await load(whole, { cache });
  assert.deepEqual([asked.kept, asked.codes, asked.logits], ['cached', [], expectedOther]);
  await refuses(loadModel(short, { threads: 1, cache: false }), 'unsupported-source');
  await cache.delete(short.key);
  const error = await refuses(loadModel(short, { threads: 1, cache }), 'unsupported-source');
  assert.deepEqual([error.expected, error.got], ['its whole URL', server.url]);
});

test('inspectModel() does not change the cache', async (t) => {
  const { folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  await inspectModel(server.url, { cache });
  assert.deepEqual(await readdir(folder), []);
  await load(server.url, { cache });
  const { mtimeMs } = await stat(join(folder, (await readdir(folder))[0]));
  assert.equal((await inspectModel(server.url, { cache })).info.fileBytes, bytes.length);
  assert.equal((await stat(join(folder, (await readdir(folder))[0]))).mtimeMs, mtimeMs);
});

test('the command line caches downloads, except with --no-cache', async (t) => {
  const { folder } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const cli = fileURLToPath(new URL('../../js/cli.js', import.meta.url));
  const env = { ...process.env, XDG_CACHE_HOME: folder, HF_TOKEN: 'SECRET' };
  const usual = '--prompt x --max-tokens 2 --temperature 0 --threads 1'.split(' ');
  const run = async (/** @type {string[]} */ ...flags) => {
    const args = [cli, 'generate', server.url, ...usual, ...flags];
    return (await promisify(execFile)(process.execPath, args, { env })).stdout;
  };
  const first = await run('--no-cache');
  assert.deepEqual(await readdir(folder), []);
  assert.equal(await run(), first);
  server.forget();
  assert.equal(await run(), first);
  assert.equal(server.sent, 1);
  assert.ok(server.seen.every(({ headers }) => !headers.authorization));
});
