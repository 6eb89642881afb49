/* Tests tables of per-layer embeddings from sources that cannot be read again. They stay on disk in a temporary file:
 * answers and memory plan are the same, no file is left behind, and errors have a code. */
import assert from 'node:assert/strict';
import { open as openFile, readFile, readdir, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Spill } from '../../js/engine/spill.js';
import { checksum } from '../../js/download/checksum.js';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, refuses, sleep } from './helpers.js';
import { testModel } from './models.js';
import { splitModel } from './split.js';

const IDS = Array.from({ length: 90 }, (_, i) => (i * 131) % 8000);
const LINUX = process.platform === 'linux';

/** @param {ModelSource} source @param {LoadOptions} [options] */
const load = (source, options) => loadModel(source, { threads: 1, rowsOnDisk: true, ...options });

const path = await testModel('gemma4-table');
const bytes = Buffer.from(new Uint8Array(await readFile(path)).buffer);
const inMemory = await load(path, { rowsOnDisk: false });
const expected = await inMemory.debug.logits(IDS, { all: true });
const text = await inMemory.generate('Hello there', { maxTokens: 12, seed: 3 }).text();
const tensors = (await inMemory.inspect()).tensors.sort((a, b) => a.offset - b.offset);
await inMemory.dispose();
/** Number of tensors up to and including the table of per-layer embeddings. */
const upTo = tensors.findIndex(({ name }) => name === 'per_layer_token_embd.weight') + 1;
const table = tensors[upTo - 1];

/** Returns the paths of temporary files that this process holds open, which no folder lists (Linux). @param {string} at
 * folder */
async function openIn(at) {
  const paths = [];
  for (const fd of LINUX ? await readdir('/proc/self/fd') : []) {
    const path = await readlink(`/proc/self/fd/${fd}`).catch(() => '');
    if (path.startsWith(at)) paths.push(`/proc/self/fd/${fd}`);
  }
  return paths;
}

/** @param {string} at */
async function nothingLeft(at) {
  for (let tries = 0; tries < 100 && (await openIn(at)).length; tries++) await sleep(50);
  assert.deepEqual([await readdir(at), await openIn(at)], [[], []]);
}

/** Returns a stream of chunks of an odd size. At the offset `stop` the stream stalls or, with `ends`, ends.
 * @param {Uint8Array} [from] @param {{ stop?: number, ends?: boolean }} [faults] */
function streamOf(from = bytes, { stop = from.length, ends = true } = {}) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= stop) return ends ? controller.close() : new Promise(() => {});
      const end = Math.min(at + 77_777, stop);
      controller.enqueue(Uint8Array.from(from.subarray(at, end)));
      at = end;
      return undefined;
    },
  });
}

test('every source that cannot be read again gives the same answers, with the table in a temporary file', async (t) => {
  const at = newFolder(t);
  const cache = openCache(at);
  // Splits the model so that the table of per-layer embeddings is the last tensor of a part.
  const { length: count } = tensors;
  const parts = Array.from({ length: count }, (_, i) => i + 2).find((n) =>
    Array.from({ length: n }, (_, k) => Math.floor((k * count) / n)).includes(upTo),
  );
  /** @type {Record<string, ModelSource>} */
  const sources = {
    stream: streamOf(),
    bytes: new Uint8Array(bytes),
    'streams of parts': splitModel(bytes, Number(parts)).map((part) => streamOf(part)),
  };
  for (const [name, source] of Object.entries(sources)) {
    const model = await load(source, { cache });
    const { memory } = model.info;
    assert.equal(memory.onDisk, table.bytes, name);
    assert.equal(memory.total, memory.resident + memory.kv + memory.scratch);
    assert.deepEqual(await readdir(at), [], 'the folder does not list the temporary file');
    if (LINUX) assert.equal((await openIn(at)).length, 1, name);
    assert.equal(await model.generate('Hello there', { maxTokens: 12, seed: 3 }).text(), text, name);
    assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected, name);
    await model.dispose();
    await nothingLeft(at);
  }
});

test('a URL that is not cached: inspectModel() predicts the plan, and the digest is checked', async (t) => {
  const server = await faultyServer(t, bytes);
  const options = { cache: false, rowsOnDisk: true };
  const { info } = await inspectModel(server.url, options);
  const model = await load(server.url, options);
  assert.deepEqual([info.memory.onDisk, info.memory.resident], [table.bytes, model.info.memory.resident]);
  assert.deepEqual(await model.debug.logits(IDS, { all: true }), expected);
  await model.dispose();
  const ofStream = await inspectModel(streamOf(), options);
  assert.equal(ofStream.info.memory.onDisk, table.bytes);
  await refuses(load(server.url, { ...options, sha256: 'a'.repeat(64) }), 'sha256-mismatch');
  await nothingLeft(join(String(process.env.XDG_CACHE_HOME), 'gemma-wasm'));
});

test('without room for a temporary file, tables go into memory, or the load is refused', async (t) => {
  const file = join(newFolder(t), 'file');
  await writeFile(file, '');
  const cache = openCache(join(file, 'no-folder'));
  const large = await readFile(await testModel('gemma4-large-table'));
  const logits = [];
  for (const { folder, inMemory } of [
    { folder: cache, inMemory: true },
    { folder: openCache(newFolder(t)), inMemory: false },
  ]) {
    const model = await load(streamOf(large), { cache: folder, rowsOnDisk: 'auto' });
    assert.equal(model.info.memory.onDisk === 0, inMemory);
    logits.push(await model.debug.logits(IDS));
    await model.dispose();
  }
  assert.deepEqual(logits[0], logits[1]);
  const message = /temporary file for tables of this model could not be created: .+ `rowsOnDisk` to "auto"/;
  await refuses(load(streamOf(), { cache }), 'bad-option', message);
  await refuses(inspectModel(streamOf(), { cache, rowsOnDisk: true }), 'bad-option');
});

test('a stream that ends in a table is truncated, and leaves nothing', async (t) => {
  const at = newFolder(t);
  const stops = [table.offset + 100_000, table.offset + table.bytes - 1, table.offset + table.bytes + 1];
  for (const stop of stops) {
    await refuses(load(streamOf(bytes, { stop }), { cache: openCache(at) }), 'truncated');
    await nothingLeft(at);
  }
  const last = splitModel(bytes.subarray(0, bytes.length), 2);
  await refuses(load([streamOf(last[0], { stop: last[0].length - 1 }), streamOf(last[1])], { cache: openCache(at) }), [
    'truncated',
  ]);
  await nothingLeft(at);
});

test('a load that is aborted in a table leaves nothing', async (t) => {
  const at = newFolder(t);
  const abort = new AbortController();
  const stream = streamOf(bytes, { stop: table.offset + table.bytes / 2, ends: false });
  const loading = load(stream, { cache: openCache(at), signal: abort.signal });
  setTimeout(() => abort.abort(), 1000);
  await refuses(loading, 'aborted');
  await nothingLeft(at);
});

test('a model can be disposed of while rows are read', async (t) => {
  const at = newFolder(t);
  const model = await load(streamOf(), { cache: openCache(at) });
  const reading = refuses(model.debug.logits(IDS), 'disposed');
  await model.dispose();
  await reading;
  await nothingLeft(at);
});

test('a bit that is flipped in the temporary file is an error with a code', { skip: !LINUX }, async (t) => {
  const at = newFolder(t);
  const model = await load(streamOf(), { cache: openCache(at) });
  t.after(() => model.dispose());
  const [path] = await openIn(at);
  const file = await openFile(path, 'r+');
  const row = (250 * table.bytes) / table.shape[1];
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, row);
  assert.equal(buffer[0], bytes[table.offset + row]);
  await file.write(Uint8Array.of(buffer[0] ^ 4), 0, 1, row);
  await refuses(model.debug.logits([2, 250, 7]), 'cache-corrupt');
  assert.equal((await model.debug.logits([2, 5000, 7])).length, model.info.vocabSize);
  await file.truncate(0);
  await refuses(model.debug.logits([2, 6000, 7]), 'cache-corrupt');
  await file.close();
});

test('a temporary file that cannot be written or read completely fails with cache-failed', async () => {
  const tensors = /** @type {any[]} */ ([
    { name: 'a', offset: 10, bytes: 1_500_000 },
    { name: 'b', offset: 1_600_000, bytes: 700_000 },
  ]);
  const from = Uint8Array.from({ length: 2_400_000 }, (_, i) => i * 7 + (i >> 8));
  const stored = new Uint8Array(2_200_000);
  const meter = /** @type {any} */ ({ add() {} });
  let room = Infinity;
  let closed = 0;
  const file = {
    write(/** @type {Uint8Array} */ part, /** @type {number} */ at) {
      const some = part.subarray(0, Math.min(100_000, Math.max(room - at, 0)));
      stored.set(some, at);
      return some.length;
    },
    read(/** @type {Uint8Array} */ into, /** @type {number} */ at) {
      into.set(stored.subarray(at, at + into.length));
      return Math.min(into.length, room);
    },
    close: () => closed++,
  };
  const filled = async () => {
    let at = 5;
    const read = async (/** @type {Uint8Array} */ into) => {
      const part = from.subarray(at, at + Math.min(into.length, 333_333));
      into.set(part);
      at += part.length;
      return part.length;
    };
    const source = /** @type {any} */ ({ at, read, head: from.subarray(0, 5), close() {} });
    const spill = new Spill(tensors, 2_200_000, file, checksum);
    spill.attach(source, meter);
    await spill.finish();
    return spill;
  };
  const spill = await filled();
  assert.deepEqual(stored.subarray(0, 1_500_000), from.subarray(10, 1_500_010));
  assert.deepEqual(stored.subarray(1_500_000), from.subarray(1_600_000, 2_300_000));
  assert.equal(spill.place(tensors[1]), 1_500_000);
  const start = Math.floor(1_500_000 / spill.grain) * spill.grain;
  assert.deepEqual(spill.read(start, start + spill.grain), stored.subarray(start, start + spill.grain));
  room = 1;
  assert.throws(() => spill.read(start, start + spill.grain), { code: 'cache-corrupt' });
  await spill.close();
  assert.throws(() => spill.read(start, start + spill.grain), { code: 'aborted' });
  room = 1_200_000;
  const full = /could not be written to a temporary file: the storage is full\. Free storage, or set/;
  await refuses(filled(), 'cache-failed', full);
  assert.equal(closed, 1);
});
