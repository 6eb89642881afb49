/* Tests weights that stay on disk (`rowsOnDisk`) or arrive later (`rowsLater`): every source gives the same answers,
 * corrupt rows are detected and repaired, and a failed read leaves the model usable. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open as openFile, readFile, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { deferred } from '../../js/rpc/signals.js';
import { TUNING } from '../lab/place.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, refuses, serveWith, sleep, until } from './helpers.js';
import { memoryStore } from './memory-store.js';
import { splitModel } from './split.js';
import { testModel } from './models.js';

const IDS = Array.from({ length: 90 }, (_, i) => (i * 131) % 300);

/** @param {ModelSource} source @param {LoadOptions} [options] */
const load = (source, options) => loadModel(source, { threads: 1, rowsOnDisk: true, rowsLater: false, ...options });

/** Loads a model that is disposed of when the test ends. @param {TestContext} t @param {ModelSource} source
 * @param {LoadOptions} [options] */
async function opened(t, source, options) {
  const model = await load(source, options);
  t.after(() => model.dispose());
  return model;
}

/** @param {Model} model */
async function answers(model) {
  const { text, tokens } = await model.generate('Hello there', { maxTokens: 12, seed: 3 }).result();
  const logits = await model.debug.logits(IDS, { all: true });
  const { nll } = await model.debug.perplexity('A text to score, with more than a few tokens.', { window: 16 });
  const { layers } = await model.debug.inside('Look', { layers: [0, 7], lens: 2, norms: true });
  const vectors = await model.embed(['one', 'another text'], { pooling: 'mean' });
  await model.dispose();
  return { text, tokens, logits, nll, norms: layers.map(({ norms }) => norms), vectors };
}

/** Returns a test model's file, its table of per-layer embeddings, and its answers without rows on disk.
 * @param {string} name */
async function known(name) {
  const path = await testModel(name);
  const bytes = Buffer.from(new Uint8Array(await readFile(path)).buffer);
  const { tensors } = await inspectModel(path);
  const table = tensors.find((tensor) => tensor.name === 'per_layer_token_embd.weight');
  assert.ok(table);
  const model = await load(path, { rowsOnDisk: false });
  assert.equal(model.info.memory.onDisk, 0);
  return { path, bytes, table, expected: await answers(model) };
}

environment.tuning = TUNING;
const { path, bytes, table, expected } = await known('gemma4-q4_0');
const LARGE = await known('gemma4-table');

/** Returns the offset of a token's row in the file. @param {number} id */
const rowAt = (id, { offset, bytes, shape } = table) => offset + (id * bytes) / shape[1];

/** Loads the model from a server into an empty cache. @param {TestContext} t @param {LoadOptions} [options] */
async function cached(t, options) {
  const server = await faultyServer(t, bytes);
  const folder = newFolder(t);
  const cache = openCache(folder);
  const model = await opened(t, server.url, { cache, ...options });
  return { server, cache, model, copy: await copyIn(folder) };
}

/** @param {string} at */
async function copyIn(at) {
  const [name] = (await readdir(at)).filter((one) => one.endsWith('.gguf'));
  return join(at, name);
}

/** @param {string} file @param {number} at byte */
async function flip(file, at) {
  const handle = await openFile(file, 'r+');
  const one = new Uint8Array(1);
  await handle.read(one, 0, 1, at);
  one[0] ^= 4;
  await handle.write(one, 0, 1, at);
  await handle.close();
}

test('every source that can be read again gives the same answers, with the table on disk', async (t) => {
  const cache = openCache(newFolder(t));
  const server = await faultyServer(t, bytes);
  const parts = splitModel(bytes, 3).map((part) => new Blob([part]));
  /** @type {Record<string, ModelSource>} */
  const sources = {
    path,
    Blob: new Blob([bytes]),
    'URL, downloaded': server.url,
    'URL, cached': server.url,
    'three Blobs': parts,
  };
  for (const [name, source] of Object.entries(sources)) {
    const model = await load(source, { cache });
    const { memory } = model.info;
    assert.equal(memory.onDisk, table.bytes, name);
    assert.equal(memory.weights, memory.resident + memory.onDisk);
    assert.equal(memory.total, memory.resident + memory.kv + memory.scratch);
    assert.deepEqual(await answers(model), expected, name);
  }
  const threads = await load(path, { threads: 2 });
  assert.deepEqual(await answers(threads), expected);
});

test('by default, small tables are in memory', async () => {
  for (const source of [path, new Blob([bytes]).stream()]) {
    const model = await load(source, { rowsOnDisk: 'auto' });
    assert.equal(model.info.memory.onDisk, 0);
    assert.deepEqual(await answers(model), expected);
  }
});

test('a large file without a table of rows loads from a stream', async () => {
  const large = await testModel('embed-300m');
  const stream = /** @type {ReadableStream} */ (Readable.toWeb(createReadStream(large)));
  const model = await loadModel(stream, { contextLength: 64, threads: 1 });
  assert.deepEqual([model.info.memory.onDisk, (await model.embed('a')).length], [0, model.info.width]);
  await model.dispose();
});

test('inspectModel() predicts the rows on disk', async (t) => {
  const server = await faultyServer(t, bytes);
  for (const source of [path, server.url]) {
    const { info } = await inspectModel(source, { rowsOnDisk: true });
    const model = await load(path);
    assert.equal(info.memory.onDisk, table.bytes);
    assert.equal(info.memory.resident, model.info.memory.resident);
    await model.dispose();
  }
  assert.equal((await inspectModel(server.url, { rowsOnDisk: 'auto', cache: false })).info.memory.onDisk, 0);
});

test('a saved chat continues with the table on disk or in memory', async () => {
  const first = await load(path);
  const chat = first.chat({ seed: 4, maxTokens: 8 });
  await chat.send('Hello, who are you?').text();
  const saved = await chat.save();
  const next = await chat.send('And now?').text();
  await first.dispose();
  for (const rowsOnDisk of [true, false]) {
    const model = await load(path, { rowsOnDisk });
    const again = model.chat({ seed: 4, maxTokens: 8, saved });
    assert.ok((await again.restored).tokens > 10);
    assert.equal(await again.send('And now?').text(), next);
    await model.dispose();
  }
});

test('a bit that is flipped in a row while the model is in use is repaired from the server', async (t) => {
  const { server, cache, model, copy } = await cached(t);
  for (let i = 0; i < 6; i++) await flip(copy, rowAt(IDS[14 * i + 3]) + 31 * i);
  server.forget();
  assert.deepEqual(await answers(model), expected);
  assert.ok(server.sent > 0 && server.sent < bytes.length / 2, `${server.sent} bytes`);
  server.forget();
  const again = await load(server.url, { cache });
  assert.deepEqual(await answers(again), expected);
  assert.ok(server.sent < 1000, `the cached file was repaired: only ${server.sent} bytes were sent`);
});

test('without the server, a corrupt row is an error with a code, and other rows can still be read', async (t) => {
  const { server, model, copy } = await cached(t);
  await flip(copy, rowAt(250));
  await server.close();
  await refuses(model.debug.logits([2, 250, 7]), 'cache-corrupt', /piece \d+ of \d+/);
  const memory = await opened(t, path, { rowsOnDisk: false });
  assert.deepEqual(await model.debug.logits([2, 5, 7]), await memory.debug.logits([2, 5, 7]));
  await refuses(model.debug.logits([250]), 'cache-corrupt');
});

test('a corrupt row fails only the answer that needs it, beside others and after them', async (t) => {
  const { server, model, copy } = await cached(t, { sequences: 3 });
  await flip(copy, rowAt(250));
  await server.close();
  const memory = await opened(t, path, { rowsOnDisk: false });
  // A bias rules out the tokens of rows near the corrupt row, because these rows are in the same piece of the cached
  // file.
  const logitBias = Object.fromEntries(Array.from({ length: 170 }, (_, i) => [150 + i, -Infinity]));
  const answer = async (/** @type {Model} */ from, /** @type {number[]} */ prompt) =>
    (await from.generate(prompt, { maxTokens: 12, seed: 3, logitBias }).result()).tokens;
  const prompts = [
    [2, 5, 7],
    [2, 5, 9, 11],
  ];
  const right = [await answer(memory, prompts[0]), await answer(memory, prompts[1])];
  for (let i = 0; i < 3; i++) {
    const [one, failed, two] = await Promise.all([
      answer(model, prompts[0]),
      refuses(answer(model, [2, 250, 8]), 'cache-corrupt'),
      answer(model, prompts[1]),
    ]);
    assert.deepEqual([one, two], right, failed.message);
  }
});

test('a file that changes or is truncated is an error with a code', async (t) => {
  const file = join(newFolder(t), 'model.gguf');
  for (const change of [() => truncate(file, table.offset + 100), () => writeFile(file, bytes)]) {
    await writeFile(file, bytes);
    const model = await load(file);
    await sleep(20);
    await change();
    await refuses(model.debug.logits([2, 250, 7]), 'source-changed');
    await refuses(model.generate('Hi').text(), 'source-changed');
    assert.ok((await model.tokenize('Hello')).length);
    await model.dispose();
  }
});

test('if the copy is truncated, rows come from the server; without the server, calls fail with a code', async (t) => {
  const { server, model, copy } = await cached(t);
  await truncate(copy, 1000);
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected.logits);
  await server.close();
  const error = await refuses(model.debug.logits([2, 299, 298, 297, 7]), ['network-error', 'cache-corrupt']);
  assert.ok(error.message.length > 20);
  assert.ok((await model.tokenize('Hello')).length);
});

test('a server that ignores ranges for a while fails only the calls of that time', async (t) => {
  const { server, model, copy } = await cached(t);
  await truncate(copy, 1000);
  server.state.faults = () => ({ noRanges: true });
  await refuses(model.debug.logits([2, 250, 7]), ['cache-failed', 'cache-corrupt']);
  server.state.faults = () => ({});
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected.logits);
});

test('a prompt that waits for rows from a silent server can be aborted immediately', async (t) => {
  const { server, model, copy } = await cached(t);
  await truncate(copy, 1000);
  server.state.faults = () => ({ stallAt: 0 });
  const abort = new AbortController();
  const began = performance.now();
  setTimeout(() => abort.abort(), 100);
  await refuses(model.debug.logits(IDS, { signal: abort.signal }), 'aborted');
  assert.ok(performance.now() - began < TUNING.stallMs);
  server.state.faults = () => ({});
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected.logits);
});

test('if storage fills up in the middle of the table, rows come from the server; without ranges, the load fails', async (t) => {
  const full = () => {
    const store = memoryStore();
    const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ part) => {
      const inTable = at > table.offset + table.bytes / 2 && at < table.offset + table.bytes;
      if (inTable) throw new DOMException('full', 'QuotaExceededError');
      await store.write(name, at, part);
    };
    return openCache({ ...store, write });
  };
  const server = await faultyServer(t, bytes);
  const model = await load(server.url, { cache: full() });
  assert.deepEqual([model.info.cache, model.info.memory.onDisk], ['none', table.bytes]);
  assert.ok(model.info.notices.some(({ code }) => code === 'not-cached'));
  assert.deepEqual(await answers(model), expected);
  server.state.faults = () => ({ noRanges: true });
  await refuses(load(server.url, { cache: full() }), 'cache-failed', /does not support range requests/);
});

/** Serves a model. With `hold`, requests for ranges of the table of per-layer embeddings wait until `release()`, except
 * requests for single rows, which `rows` counts. @param {TestContext} t */
async function heldServer(t) {
  const { bytes, table, expected } = LARGE;
  const { promise: released, resolve } = deferred();
  const state = { gone: false, hold: true, busy: false };
  const rows = { status: 0, latency: 0, requests: 0, pending: 0, most: 0 };
  const server = await faultyServer(t, bytes);
  const { port } = new URL(server.url);
  const url = await serveWith(t, async (request, response) => {
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const length = Number(last) + 1 - Number(first);
    const inTable = Number(first) >= table.offset && Number(first) < table.offset + table.bytes;
    if (inTable && length > 1 << 20 && state.busy) return void response.writeHead(503, { 'Retry-After': '2' }).end();
    if (inTable && length > 1 << 20 && state.hold) await released;
    if (inTable && length <= 1 << 20) {
      rows.requests++;
      rows.most = Math.max(rows.most, ++rows.pending);
      await sleep(rows.latency);
      rows.pending--;
      if (rows.status) return void response.writeHead(rows.status).end();
    }
    const inner = `http://127.0.0.1:${port}/model.gguf`;
    const { headers } = /** @type {any} */ (request);
    // At the end of a test, `server` closes while the model may still send requests.
    const answer = state.gone ? null : await fetch(inner, { headers }).catch(() => null);
    if (!answer) return void response.destroy();
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  return { url: `${url}/model.gguf`, server, state, rows, release: () => resolve(null), bytes, table, expected };
}

test('a model is ready before its table has arrived, answers the same, and its copy is completed', async (t) => {
  const { url, server, release, bytes, table, expected } = await heldServer(t);
  const cache = openCache(newFolder(t));
  /** @type {any[]} */
  const phases = [];
  const onProgress = (/** @type {any} */ event) => phases.push(event);
  const model = await load(url, { cache, rowsLater: true, onProgress });
  const atReady = server.sent;
  assert.ok(atReady < bytes.length - table.bytes * 0.9, `${atReady} of ${bytes.length} bytes`);
  assert.ok(model.info.notices.some(({ code }) => code === 'rows-later'));
  const early = await model.generate('Hello there', { maxTokens: 12, seed: 3 }).result();
  assert.deepEqual([early.text, early.tokens], [expected.text, expected.tokens]);
  assert.equal((await cache.list())[0].complete, false);
  release();
  await until(async () => (await cache.list())[0].complete);
  // The cached file is complete before the worker's last event arrives.
  await until(() => phases.at(-1).loaded === phases.at(-1).total);
  const ready = phases.findIndex(({ phase }) => phase === 'ready');
  assert.ok(phases.slice(ready + 1).every(({ phase }) => phase === 'rest'));
  assert.equal(phases.at(-1).loaded, phases.at(-1).total);
  assert.ok(server.sent < bytes.length * 1.1, `${server.sent} of ${bytes.length} bytes`);
  assert.deepEqual(await answers(model), expected);
  server.forget();
  const again = await load(url, { cache, rowsLater: true });
  assert.equal(again.info.cache, 'cached');
  assert.deepEqual(await answers(again), expected);
  assert.ok(server.sent < 1000, `${server.sent} bytes`);
});

test('missing rows are requested in parallel, and an error or an abort ends the requests', async (t) => {
  const { url, rows } = await heldServer(t);
  const model = await opened(t, url, { cache: openCache(newFolder(t)), rowsLater: true });
  const memory = await opened(t, LARGE.path, { rowsOnDisk: false });
  /** Returns 100 tokens, whose rows are far apart, in an order other than in the file. @param {number} first */
  const ids = (first) => Array.from({ length: 100 }, (_, i) => first + 80 * ((37 * i) % 100));
  const parallel = 16;
  const reset = () => Object.assign(rows, { status: 0, latency: 200, requests: 0, most: 0 });
  reset();
  assert.deepEqual(await model.debug.logits(ids(3), { all: true }), await memory.debug.logits(ids(3), { all: true }));
  assert.ok(rows.requests > 40, `${rows.requests} requests`);
  assert.ok(rows.most > parallel / 2 && rows.most <= parallel, `${rows.most} requests at a time`);

  reset();
  rows.status = 404;
  await refuses(model.debug.logits(ids(43)), 'http-error');
  assert.ok(rows.requests <= parallel, `${rows.requests} requests`);

  reset();
  const abort = new AbortController();
  const aborted = refuses(model.debug.logits(ids(43), { signal: abort.signal }), 'aborted');
  await until(() => rows.pending > 0);
  abort.abort();
  await aborted;
  await until(() => rows.pending === 0);
  await sleep(100);
  assert.ok(rows.requests <= parallel, `${rows.requests} requests`);
  reset();
  assert.deepEqual(await model.debug.logits(ids(43)), await memory.debug.logits(ids(43)));
});

test('if the server fails before the table is complete, calls fail with a code, and the next load resumes', async (t) => {
  const { url, server, state, release, bytes, expected } = await heldServer(t);
  const cache = openCache(newFolder(t));
  const model = await load(url, { cache, rowsLater: true });
  state.gone = true;
  release();
  await refuses(model.debug.logits(IDS), ['network-error', 'truncated', 'cache-corrupt']);
  assert.ok((await model.tokenize('Hello')).length);
  state.gone = state.hold = false;
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected.logits);
  await model.dispose();
  const [{ complete, stored }] = await cache.list();
  assert.ok(!complete && stored > 0);
  server.forget();
  const next = await load(url, { cache, rowsLater: true });
  assert.deepEqual(await answers(next), expected);
  assert.ok(server.sent < bytes.length - stored / 2, `${server.sent} bytes, ${stored} of ${bytes.length} were there`);
});

test('if the server does not support ranges, `rowsLater` has no effect', async (t) => {
  const server = await faultyServer(t, bytes, () => ({ noRanges: true }));
  const model = await load(server.url, { cache: openCache(newFolder(t)), rowsLater: true });
  assert.ok(!model.info.notices.some(({ code }) => code === 'rows-later'));
  assert.equal(model.info.cache, 'stored');
  assert.deepEqual(await answers(model), expected);
});

/** Returns a store in memory whose calls fail if their file is closed meanwhile, as in browsers. */
function storeOfHandles(store = memoryStore()) {
  /** @type {Map<string, { closed: boolean }>} */
  const open = new Map();
  const state = { overlaps: 0, open: 0 };
  const through = async (/** @type {string} */ name, /** @type {() => Promise<any>} */ f) => {
    const handle = open.get(name) ?? { closed: false };
    open.set(name, handle);
    state.open = open.size;
    await sleep(5);
    if (!handle.closed) return f();
    state.overlaps++;
    throw new DOMException('The file is closed.', 'InvalidStateError');
  };
  return {
    ...store,
    state,
    /** @type {typeof store.read} */
    read: (...args) => through(args[0], () => store.read(...args)),
    /** @type {typeof store.write} */
    write: (...args) => through(args[0], () => store.write(...args)),
    async close(/** @type {string} */ name) {
      Object.assign(open.get(name) ?? {}, { closed: true });
      open.delete(name);
      state.open = open.size;
    },
  };
}

/** Makes loads save their journals rarely, because each write to a custom store is a message.
 * @param {TestContext} t */
function rarelySaved(t) {
  environment.tuning = { ...TUNING, journal: 1 << 20 };
  t.after(() => (environment.tuning = TUNING));
}

test('repairs while the table is downloaded do not end the download', { timeout: 60_000 }, async (t) => {
  const { url, release, table, expected } = await heldServer(t);
  const files = memoryStore();
  const store = storeOfHandles(files);
  rarelySaved(t);
  const model = await opened(t, url, { cache: openCache(store), rowsLater: true });
  const cache = openCache(files);
  // Damages rows in stored pieces of the cached file. The engine has not read these rows yet.
  const stored = Array.from({ length: 12 }, (_, i) => 1000 + 570 * i);
  await model.debug.logits(stored);
  const [copy] = files.files.values();
  for (const id of stored) copy[rowAt(id + 1, table) + 3] ^= 4;
  release();
  const ids = stored.map((id) => id + 1);
  const memory = await opened(t, LARGE.path, { rowsOnDisk: false });
  assert.deepEqual(await model.debug.logits(ids), await memory.debug.logits(ids));
  await until(async () => (await cache.list())[0]?.complete);
  assert.equal(store.state.overlaps, 0);
  assert.deepEqual(await answers(await load(url, { cache })), expected);
});

test('disposing of a model while its table is downloaded leaves a closed copy, which the next load resumes', async (t) => {
  const { url, server, release, bytes } = await heldServer(t);
  const files = memoryStore();
  const store = storeOfHandles(files);
  rarelySaved(t);
  const late = { calls: 0, ended: false };
  /** @type {typeof store.write} */
  const write = async (...args) => {
    if (late.ended) late.calls++;
    return store.write(...args);
  };
  const model = await load(url, { cache: openCache({ ...store, write }), rowsLater: true });
  const { sent } = server;
  release();
  await until(() => server.sent > sent + 100_000);
  await model.dispose();
  late.ended = true;
  await sleep(100);
  assert.deepEqual({ ...store.state, calls: late.calls }, { overlaps: 0, open: 0, calls: 0 });
  const [{ stored, complete }] = await openCache(files).list();
  assert.ok(!complete && stored > 0);
  server.forget();
  const next = await load(url, { cache: openCache(files) });
  await next.dispose();
  assert.ok(server.sent <= bytes.length - stored + 5, `${server.sent} bytes, ${stored} of ${bytes.length} were there`);
});

test('disposing of a model does not wait for a silent or busy server', async (t) => {
  environment.tuning = { ...TUNING, longestMs: 60_000 };
  t.after(() => (environment.tuning = TUNING));
  for (const busy of [false, true]) {
    const { url, state, release } = await heldServer(t);
    state.busy = busy;
    const model = await load(url, { cache: openCache(newFolder(t)), rowsLater: true });
    await sleep(50);
    const silent = sleep(30_000, 'still waiting', { ref: false });
    assert.equal(await Promise.race([model.dispose(), silent]), undefined);
    release();
  }
});

test('a copy that is deleted and downloaded again is not completed by the models that used it', async (t) => {
  const { url, state, release, table, expected } = await heldServer(t);
  const at = newFolder(t);
  const cache = openCache(at);
  state.hold = false;
  const models = [await load(url, { cache }), await load(url, { cache })];
  // A model that repairs a row would write the repair to the journal of its cached file.
  await flip(await copyIn(at), table.offset + 5);
  await models[1].debug.logits([0]);
  for (const { key } of await cache.list()) await cache.delete(key);
  state.hold = true;
  const next = await load(url, { cache, rowsLater: true });
  for (const model of models) await model.dispose();
  assert.deepEqual(
    (await cache.list()).map(({ complete }) => complete),
    [false],
  );
  release();
  await until(async () => (await cache.list())[0].complete);
  assert.deepEqual(await answers(next), expected);
});

test('if the download of the table fails, a notice says so, and another load resumes it', async (t) => {
  const { url, state, release, expected } = await heldServer(t);
  const cache = openCache(newFolder(t));
  /** @type {any[]} */
  const told = [];
  const onProgress = (/** @type {any} */ { phase, notice }) => phase === 'rest' && notice && told.push(notice.code);
  const model = await opened(t, url, { cache, rowsLater: true, onProgress });
  await model.debug.logits(IDS);
  state.gone = true;
  release();
  await until(() => told.includes('rows-stopped'));
  assert.equal((await model.debug.logits(IDS)).length, model.info.vocabSize, 'stored rows can be read');
  state.gone = state.hold = false;
  const next = await load(url, { cache });
  assert.equal(next.info.cache, 'stored');
  assert.deepEqual(await answers(model), expected);
  assert.deepEqual(await answers(next), expected);
  assert.ok((await cache.list())[0].complete);
});

test('an exception in onProgress after the load does not end the process or the download', async (t) => {
  const { url, release, expected } = await heldServer(t);
  const cache = openCache(newFolder(t));
  let thrown = 0;
  const onProgress = (/** @type {any} */ { phase }) => {
    if (phase !== 'rest') return;
    thrown++;
    throw new Error('oh no');
  };
  const model = await load(url, { cache, rowsLater: true, onProgress });
  release();
  await until(async () => (await cache.list())[0].complete);
  assert.deepEqual(await answers(model), expected);
  assert.ok(thrown > 1, `${thrown} calls`);
});

test('if storage fills up after the model is ready, a notice says so, and the answers stay right', async (t) => {
  const { url, release, table, expected } = await heldServer(t);
  rarelySaved(t);
  const store = memoryStore();
  let full = false;
  const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ part) => {
    if (full && at < table.offset + table.bytes) throw new DOMException('full', 'QuotaExceededError');
    await store.write(name, at, part);
  };
  /** @type {any[]} */
  const told = [];
  const onProgress = (/** @type {any} */ { phase, notice }) => phase === 'rest' && notice && told.push(notice.code);
  const model = await opened(t, url, { cache: openCache({ ...store, write }), rowsLater: true, onProgress });
  full = true;
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected.logits);
  await until(() => told.includes('not-cached'));
  release();
  assert.deepEqual(await answers(model), expected);
});

test('a digest is checked once the table has arrived', async (t) => {
  for (const right of [true, false]) {
    const { url, release, bytes } = await heldServer(t);
    const cache = openCache(newFolder(t));
    const sha256 = right ? createHash('sha256').update(bytes).digest('hex') : 'a'.repeat(64);
    const model = await opened(t, url, { cache, rowsLater: true, sha256 });
    release();
    if (right) await until(async () => (await cache.list())[0].complete);
    else {
      await until(async () => (await cache.list()).length === 0);
      await refuses(model.debug.logits([2, 8000, 5]), 'sha256-mismatch');
    }
  }
});
