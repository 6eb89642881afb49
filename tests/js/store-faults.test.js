/* Causes failures of the model cache (js/download/cached-file.js) on purpose: a server that sends something else, a
 * store that fails, a full disk, damaged bytes, a read-only folder. No complete cached file is lost, and no wrong model
 * is loaded. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { readJournal, writeJournal } from '../../js/download/entries.js';
import { openStore } from '../../js/download/store-node.js';
import { bytes, expected, expectedOther, load, other, sha256Of, tune } from './downloads.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, refuses, serveWith, wrong } from './helpers.js';
import { splitModel } from './split.js';

const digest = sha256Of(bytes);
const PORTAL = Buffer.from('<!doctype html><title>Welcome to our hotel</title>'.repeat(40));
const PAGE = { bytes: PORTAL, etag: '"portal"', noRanges: true };
const NO_VERSION = { headers: { ETag: '', 'Last-Modified': '' } };
const BROKEN_OFF = ['truncated', 'network-error'];

/** @typedef {Awaited<ReturnType<typeof stored>>} Place */

/** Loads a model from a server and a cache, and checks its logits. Returns the state of the cache and the codes of the
 * notices. @param {{ server?: { url: string }, cache: ModelCache, url?: string }} from @param {LoadOptions} [options]
 * @returns {Promise<[string, string[]]>} */
async function loads({ server, cache, url = server?.url ?? '' }, options, wanted = expected) {
  const { logits, kept, codes } = await load(url, { cache, ...options });
  assert.deepEqual(logits, wanted);
  return [String(kept), codes];
}

/** @param {Pick<Place, 'server' | 'cache'>} place @param {string | string[]} codes @param {LoadOptions} [options] */
const fails = ({ server, cache }, codes, options) =>
  refuses(loadModel(server.url, { threads: 1, cache, ...options }), codes);

/** @param {ModelCache} cache */
const complete = async (cache) => (await cache.list()).map((copy) => copy.complete);

/** Returns a folder, its model cache, and a custom store of the same folder, which runs on this thread.
 * @param {TestContext} t */
function emptyCache(t) {
  const folder = newFolder(t);
  return { folder, cache: openCache(folder), store: openStore(folder) };
}

/** @param {TestContext} t */
async function stored(t, options = {}) {
  const place = emptyCache(t);
  const server = await faultyServer(t, bytes);
  assert.equal((await load(server.url, { cache: place.cache, ...options })).kept, 'stored');
  const [name] = await readdir(place.folder);
  return { ...place, server, name };
}

/** @param {Pick<Place, 'folder' | 'cache' | 'name'>} place */
async function holds({ folder, cache, name }) {
  const entry = (await cache.list()).find(({ key }) => key === name);
  assert.ok(entry?.complete, JSON.stringify(entry));
  assert.equal(Buffer.compare((await readFile(join(folder, name))).subarray(0, bytes.length), bytes), 0);
}

/** Faulty responses of a server. With `same`, the response shows that the cached file is current. */
/** @type {Record<string, Fault & { same?: boolean }>} */
const ANSWERS = {
  'the page of a portal': { ...PAGE, headers: { 'Last-Modified': '' } },
  'a portal without a version': { ...PAGE, ...NO_VERSION },
  nothing: { bytes: Buffer.alloc(0), etag: '"nothing"', noRanges: true },
  'no such range': { status: 416 },
  'status 403': { status: 403 },
  'status 404': { status: 404 },
  'status 511': { status: 511 },
  'no version': NO_VERSION,
  'another version that ends at once': { etag: '"two"', killAt: 0 },
  'only the date': { headers: { ETag: '' }, same: true },
  'a weak tag': { etag: 'W/"one"', same: true },
  'the tag of a compressed answer': { etag: '"one-gzip"', same: true },
};

for (const [what, { same = false, ...fault }] of Object.entries(ANSWERS)) {
  test(`if the server of a stored model answers with ${what}, the copy is used and kept`, async (t) => {
    const place = await stored(t);
    const { server, cache, folder } = place;
    server.state.faults = () => fault;
    assert.equal((await inspectModel(server.url, { cache })).info.fileBytes, bytes.length);
    await holds(place);
    assert.deepEqual(await loads(place), ['cached', same ? [] : ['offline']]);
    await holds(place);
    assert.equal((await readdir(folder)).length, 1);
  });
}

test('when the model on the server changes, the old copy is removed only once the new one is complete', async (t) => {
  const place = await stored(t);
  const { server, cache, folder } = place;
  Object.assign(server.state, { bytes: other, etag: '"two"' });
  server.forget();
  server.state.faults = (n) => (n < 8 ? {} : { killAt: 0 });
  await inspectModel(server.url, { cache });
  await holds(place);
  server.forget();
  await fails(place, BROKEN_OFF);
  await holds(place);
  // After the download of the new model has broken off, the captive portal answers once more, and then the download
  // resumes.
  server.state.faults = () => PAGE;
  await loads(place);
  const { stored: kept = 0 } = (await cache.list()).find(({ complete }) => !complete) ?? {};
  assert.equal((await readdir(folder)).length, 2);
  server.state.faults = () => ({});
  server.forget();
  assert.deepEqual(await loads(place, {}, expectedOther), ['stored', ['changed']]);
  const starts = server.seen.map(({ range }) => Number(/\d+/.exec(range)));
  // The first four requests only check the version: two before the file is locked, two after.
  assert.ok(kept > 0 && starts.slice(4).every((at) => at >= kept), `${starts}, ${kept} were stored`);
  assert.deepEqual(await complete(cache), [true]);
});

test('a broken file that starts like a model does not replace a stored model', async (t) => {
  const place = await stored(t);
  const { server } = place;
  Object.assign(server.state, { bytes: Buffer.concat([bytes.subarray(0, 4), PORTAL]), etag: '"two"' });
  await fails(place, 'bad-version');
  await holds(place);
  await server.close();
  await loads(place);
});

test('the page of a portal does not remove a partial copy', async (t) => {
  const { cache } = emptyCache(t);
  const server = await faultyServer(t, bytes, (n) => (n < 5 ? {} : { killAt: 0 }));
  await fails({ server, cache }, BROKEN_OFF);
  const [{ stored: had }] = await cache.list();
  server.state.faults = () => PAGE;
  await fails({ server, cache }, 'bad-magic');
  assert.deepEqual(
    (await cache.list()).map(({ stored: has }) => has),
    [had],
  );
});

test('a bad response for one part of a split model removes no part', async (t) => {
  const parts = splitModel(bytes, 3);
  const { cache } = emptyCache(t);
  let portal = false;
  const base = await serveWith(t, (request, response) => {
    const i = Number(request.url?.slice(3, 8)) - 1;
    const body = portal && i === 2 ? PORTAL : parts[i];
    response.writeHead(200, { ETag: `"${i}${body === PORTAL}"`, 'Content-Length': body.length }).end(body);
  });
  const url = `${base}/m-00001-of-00003.gguf`;
  assert.equal((await load(url, { cache })).kept, 'stored');
  portal = true;
  assert.deepEqual(await loads({ url, cache }), ['cached', ['offline']]);
  assert.deepEqual(await complete(cache), [true, true, true]);
});

/** @param {Store} store
 * @param {{ [name in keyof Store]?: (...args: Parameters<NonNullable<Store[name]>>) => unknown }} methods */
function faulty(store, methods) {
  return openCache(Object.assign(Object.create(null), store, methods));
}

test('after a read error at any point, the copy stays, and the model is loaded anyway', async (t) => {
  const place = await stored(t);
  const { server, store } = place;
  for (let failing = 1; failing < 16; failing += 2) {
    let reads = 0;
    const cache = faulty(store, {
      async read(...args) {
        if (++reads === failing) throw new Error('EIO');
        return store.read(...args);
      },
    });
    await inspectModel(server.url, { cache });
    await holds(place);
    reads = 0;
    const [, codes] = await loads({ server, cache });
    if (reads >= failing) assert.deepEqual(codes, ['not-cached'], `read ${failing}`);
    await holds(place);
  }
  await server.close();
  let reads = 0;
  const cache = faulty(store, {
    read: async (...args) => (++reads === 3 ? 0 : store.read(...args)),
  });
  await fails({ server, cache }, 'network-error');
  await holds(place);
});

test('a copy that cannot be read is not reported as one with another digest', async (t) => {
  const { server, store } = await stored(t);
  await server.close();
  const cache = faulty(store, {
    read: async (name, at, into) => (at < bytes.length ? 0 : store.read(name, at, into)),
  });
  await fails({ server, cache }, 'network-error', { sha256: digest });
});

test('inspectModel() never writes or removes a complete or partial copy, whichever read fails', async (t) => {
  const { store } = emptyCache(t);
  const server = await faultyServer(t, bytes, () => ({ slow: 1 }));
  const stop = new AbortController();
  const onProgress = (/** @type {any} */ { loaded }) => loaded > bytes.length / 3 && stop.abort();
  await refuses(
    loadModel(server.url, {
      threads: 1,
      cache: openCache(/** @type {any} */ (store)),
      signal: stop.signal,
      onProgress,
    }),
    'aborted',
  );
  const [name] = await store.list();
  const part = await readJournal(store, name);
  assert.ok(part?.have.length && part.have[0][1] < bytes.length);
  // Imitates another tab that has begun its download and has not stored the file's header yet.
  const begun = { ...part, have: [], turn: part.turn + 1 };
  await writeJournal(store, name, begun);
  const changes = /** @type {string[]} */ ([]);
  const spied = Object.fromEntries(
    ['write', 'remove', 'lock', 'tidy', 'flush'].map((method) => [
      method,
      async () => {
        changes.push(method);
      },
    ]),
  );
  for (let failing = 1; failing < 12; failing++) {
    for (const how of [
      async () => {
        throw new Error('EIO');
      },
      async () => 0,
    ]) {
      let reads = 0;
      const cache = faulty(store, {
        ...spied,
        read: (...args) => (++reads === failing ? how() : store.read(...args)),
      });
      await inspectModel(server.url, { cache });
    }
  }
  assert.deepEqual(changes, []);
  assert.deepEqual(await readJournal(store, name), begun);
});

test('a file that is too short leaves no complete copy', async (t) => {
  const { cache } = emptyCache(t);
  const server = await faultyServer(t, bytes.subarray(0, 4000));
  await fails({ server, cache }, 'truncated');
  assert.ok(!(await complete(cache)).includes(true));
});

test('malformed journals, and a folder with the name of a copy, do not break list()', async (t) => {
  const place = await stored(t);
  const { folder, cache, store, server } = place;
  const [stem] = (await store.list()).map((name) => name.replace('.gguf', ''));
  for (const [i, odd] of [
    { have: 'all' },
    { have: [[0, 'x']] },
    { url: 5 },
    { used: 'now' },
    { have: [[5, 1]] },
    { etag: 5 },
    { modified: {} },
    { sha256: ['x'] },
    { used: 1e300 },
    { version: 2 },
  ].entries()) {
    const journal = {
      url: 'http://x/y.gguf',
      etag: '',
      modified: '',
      total: 100,
      have: [],
      need: 0,
      sha256: '',
      used: 1,
      turn: 1,
      piece: 100,
    };
    const name = `${stem}-${i}a.gguf`; // Loads ignore files with other names.
    await store.write(name, 0, new Uint8Array(100 + 8 + 16384).fill(32));
    await writeJournal(store, name, journal);
    assert.deepEqual(await readJournal(store, name), journal);
    await writeJournal(store, name, /** @type {any} */ ({ ...journal, ...odd }));
    assert.equal(await readJournal(store, name), null);
  }
  await mkdir(join(folder, 'ffff.gguf'));
  const list = await cache.list();
  assert.deepEqual(list.map(({ complete }) => complete).sort(), [...new Array(10).fill(false), true]);
  assert.ok(list.every(({ lastUsed }) => lastUsed.getTime() >= 0));
  assert.deepEqual((await load(server.url, { cache })).kept, 'cached');
  await refuses(cache.delete(/** @type {any} */ (Symbol('x'))), 'bad-option');
  await cache.clear();
  assert.deepEqual(await cache.list(), []);
});

test('short reads are continued', async (t) => {
  const place = await stored(t);
  const { server, store } = place;
  const cache = faulty(store, {
    read: (name, at, into) => store.read(name, at, into.subarray(0, Math.ceil(into.length / 3))),
  });
  server.forget();
  assert.deepEqual(await loads({ server, cache }), ['cached', []]);
  assert.equal(server.sent, 1);
  await holds(place);
});

for (const count of [undefined, NaN, -1, 1e9, 0]) {
  test(`a store whose read() returns ${count} does no harm`, async (t) => {
    const place = await stored(t);
    const { server, store } = place;
    const cache = faulty(store, {
      read: (name, at, into) => (at < bytes.length ? count : store.read(name, at, into)),
    });
    await loads({ server, cache });
    await holds(place);
  });
}

/** Replaces functions of node:fs until the test ends.
 * @param {TestContext} t @param {Record<string, (...args: any) => unknown>} functions */
function broken(t, functions) {
  for (const [name, f] of Object.entries(functions)) t.mock.method(fs, /** @type {any} */ (name), f);
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}

test('short writes are continued', async (t) => {
  const { writeSync } = fs;
  const { store, folder, cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  broken(t, {
    writeSync: (file, from, at, length, to) => writeSync(file, from, at, Math.ceil(length / 2), to),
  });
  assert.equal((await load(server.url, { cache: openCache(store) })).kept, 'stored');
  const [name] = await readdir(folder);
  await holds({ folder, cache, name });
});

/** @type {Record<string, () => number>} */
const FULL = {
  'an error': () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  },
  nothing: () => 0,
};
for (const [how, full] of Object.entries(FULL)) {
  test(`a disk that fills up before the last write, and reports this by ${how}: the copy does not count as complete`, async (t) => {
    const { writeSync } = fs;
    const { store, cache } = emptyCache(t);
    const server = await faultyServer(t, bytes);
    const most = bytes.length - 1000;
    broken(t, {
      writeSync(file, from, at, length, to) {
        if (to >= bytes.length) return writeSync(file, from, at, length, to); // there is always room for the journal
        return to >= most ? full() : writeSync(file, from, at, Math.min(length, most - to), to);
      },
    });
    assert.deepEqual(await loads({ server, cache: openCache(store) }, { sha256: digest }), ['none', ['not-cached']]);
    assert.ok(!(await complete(cache)).includes(true));
    await loads({ server, cache });
  });
}

test('copies in a read-only folder are used and listed', async (t) => {
  const place = await stored(t);
  const { server, folder } = place;
  const { openSync } = fs;
  const no = () => {
    throw Object.assign(new Error('read-only file system'), { code: 'EROFS' });
  };
  broken(t, {
    openSync: (path, flags, mode) =>
      String(path).startsWith(folder) && flags !== 'r' ? no() : openSync(path, flags, mode),
  });
  const cache = openCache(openStore(folder));
  assert.deepEqual(await complete(cache), [true]);
  assert.deepEqual(await complete(openCache(folder)), [true]);
  server.forget();
  assert.deepEqual(await loads({ server, cache }), ['cached', []]);
  assert.equal(server.sent, 1);
  await holds(place);
});

test('names that leave the folder, or are not names of the package, are rejected', async (t) => {
  const { folder, store } = emptyCache(t);
  const inner = join(folder, 'cache');
  await mkdir(inner);
  for (const file of ['x', 'x.gguf', 'cache/mine.gguf', 'ab.gguf']) await writeFile(join(folder, file), 'x');
  /** @type {string[]} */ const removed = [];
  const own = openCache({
    ...store,
    list: async () => ['x', '../ab.gguf', 'ab.gguf'],
    remove: async (name) => {
      removed.push(name);
    },
  });
  for (const cache of [openCache(inner), own]) {
    for (const key of [
      '../x',
      '../ab.gguf',
      join(folder, 'ab.gguf'),
      'mine.gguf',
      '..\\ab.gguf',
      'ab.gguf/../../ab.gguf',
      '',
      undefined,
      5,
    ]) {
      await refuses(cache.delete(wrong(key)), 'bad-option');
    }
    assert.ok((await cache.list()).every(({ key }) => key === 'ab.gguf'));
    await cache.clear();
  }
  assert.deepEqual(removed, ['ab.gguf']);
  assert.deepEqual((await readdir(folder)).sort(), ['ab.gguf', 'cache', 'x', 'x.gguf']);
  assert.deepEqual(await readdir(inner), ['mine.gguf']);
  for (const f of [() => openStore(inner).remove('../x'), () => openStore(inner).read('../x', 0, new Uint8Array(1))])
    await assert.rejects(f);
});

test('list() leaves no file open', { skip: process.platform !== 'linux' }, async (t) => {
  const { folder, cache } = await stored(t);
  const held = async () => {
    const links = (await readdir('/proc/self/fd')).map((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return '';
      }
    });
    return links.filter((link) => link.startsWith(folder));
  };
  assert.equal((await cache.list()).length, 1);
  assert.deepEqual(await held(), []);
});

test('a copy is used offline even if the hub has sent the digest of a newer version', async (t) => {
  const { cache, ...place } = emptyCache(t);
  let [model, target] = [bytes, (await faultyServer(t, bytes)).url];
  const hub = await serveWith(t, (_, response) => {
    response.writeHead(302, { Location: target, 'X-Linked-Etag': `"${sha256Of(model)}"` }).end();
  });
  const url = `${hub}/model.gguf`;
  assert.deepEqual(await loads({ url, cache }), ['stored', []]);
  [model, target] = [other, 'http://127.0.0.1:9/'];
  assert.deepEqual(await loads({ url, cache }), ['cached', ['offline']]);
  const [name] = await readdir(place.folder);
  await holds({ ...place, cache, name });
});

for (const known of [true, false]) {
  test(`a digest of another model removes no copy that was ${known ? 'checked' : 'never checked'}`, async (t) => {
    const place = await stored(t, known ? { sha256: digest } : {});
    const { server, cache } = place;
    await fails(place, 'sha256-mismatch', { sha256: '0'.repeat(64) });
    assert.deepEqual(await complete(cache), [known]);
    // A load with a digest gives the cached model, although the server has another file by now.
    Object.assign(server.state, { bytes: other, etag: '"two"' });
    await loads(place, { sha256: digest });
    await holds(place);
  });
}

test('bytes of another version do not repair a copy that has the digest of the caller', async (t) => {
  const { server, store } = await stored(t, { sha256: digest });
  Object.assign(server.state, { bytes: other, etag: '"two"' });
  let reads = 0;
  const cache = faulty(store, {
    async read(name, at, into) {
      const count = await store.read(name, at, into);
      const middle = (bytes.length >> 1) - at;
      if (middle >= 0 && middle < count && ++reads > 1) into[middle] ^= 1; // damaged after the digest was checked
      return count;
    },
  });
  await fails({ server, cache }, 'cache-corrupt', { sha256: digest });
});

test('the cache key includes the whole query, so other queries are other copies', async (t) => {
  const { cache, folder } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  server.state.faults = (n, { url }) => (url?.endsWith('2') ? { bytes: other, etag: '"two"' } : {});
  for (const name of ['key', 'design', 'author', 'passage', 'token']) {
    const [one, two] = [1, 2].map((n) => `${server.url}?${name}=SECRET${n}`);
    await load(one, { cache });
    assert.deepEqual((await load(two, { cache })).logits, expectedOther);
    server.state.faults = () => ({ status: 503 });
    assert.deepEqual((await load(one, { cache })).logits, expected);
    assert.deepEqual((await load(two, { cache })).logits, expectedOther);
    server.state.faults = (n, { url }) => (url?.endsWith('2') ? { bytes: other, etag: '"two"' } : {});
    const list = await cache.list();
    const secret = ['key', 'token'].includes(name);
    assert.equal(list.length, 2);
    assert.deepEqual(list.map(({ url }) => url).sort(), secret ? [server.url, server.url] : [one, two]);
    assert.ok(list.every(({ file }) => file === 'model.gguf'));
    if (secret)
      for (const key of await readdir(folder))
        assert.ok(!(await readFile(join(folder, key))).subarray(bytes.length).includes('SECRET'));
    await cache.clear();
  }
});

test('a URL with a query can be loaded from the list', async (t) => {
  const { cache } = emptyCache(t);
  const server = await faultyServer(t, bytes);
  await load(`${server.url}?download=true&api_key=SECRET&apiKey=SECRET&s=${'r'.repeat(40)}`, { cache });
  assert.equal((await cache.list())[0].url, `${server.url}?download=true`);
  await cache.clear();
  await load(`${server.url}?download=true`, { cache });
  const [{ url }] = await cache.list();
  assert.equal(url, `${server.url}?download=true`);
  await server.close();
  assert.deepEqual((await load(url, { cache })).logits, expected);
});

test('a model stored with a token does not load without permission', async (t) => {
  const place = emptyCache(t);
  const server = await faultyServer(t, bytes);
  const { cache } = place;
  server.state.faults = (n, { headers }) => (headers.authorization === 'Bearer good' ? {} : { status: 401 });
  await load(server.url, { cache, token: 'good' });
  for (const token of [undefined, 'revoked']) {
    const error = await fails({ server, cache }, 'http-error', { token });
    assert.match(error.message, /401.*token/);
  }
  assert.equal((await load(server.url, { cache, token: 'good' })).kept, 'cached');
  await server.close();
  assert.deepEqual((await load(server.url, { cache, token: 'good' })).codes, ['offline']);
  const [name] = await readdir(place.folder);
  await holds({ ...place, name });
});

test('if a custom store rejects with nothing, or never answers, the load continues without it', async (t) => {
  const place = await stored(t);
  const { server, store } = place;
  tune(t, { stallMs: 300 });
  const empty = emptyCache(t);
  for (const method of ['list', 'size', 'read', 'write', 'flush', 'close', 'estimate']) {
    for (const way of [
      () => Promise.reject(),
      () => {
        throw null;
      },
      () => new Promise(() => {}),
    ]) {
      const one = ['write', 'flush', 'estimate'].includes(method) ? empty.store : store;
      const [, said] = await loads({ server, cache: faulty(one, { [method]: way }) });
      // On a busy machine a connection may also stall, which gives the notice `retry`.
      const codes = said.filter((code) => code !== 'retry');
      if (['list', 'read', 'size'].includes(method)) assert.deepEqual(codes, ['not-cached'], method);
      await holds(place);
      for (const name of await readdir(empty.folder)) await empty.store.remove(name);
    }
  }
});

test('with a complete copy, a silent server delays the load only for a moment', async (t) => {
  const place = await stored(t);
  const { server } = place;
  tune(t, { stallMs: 3_600_000, glanceMs: 50 });
  for (const fault of [{ wait: 3_600_000 }, { etag: '"two"', stallAt: 0 }]) {
    server.state.faults = () => fault;
    assert.deepEqual(await loads(place), ['cached', ['offline']]);
    await holds(place);
  }
});
