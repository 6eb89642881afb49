/* Tests offsets beyond 32 bits (of tensors, in a download's journal and in HTTP ranges) with sparse files larger than
 * 4 GiB. */
import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, readdir, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { pieceOf, tableBytes } from '../../js/download/checks.js';
import { checksum } from '../../js/download/checksum.js';
import { emptyJournal, writeJournal } from '../../js/download/entries.js';
import { keyOf, nameOf } from '../../js/download/identity.js';
import { openStore } from '../../js/download/store-node.js';
import { byteRange } from '../../tools/serve.js';
import { createHash } from 'node:crypto';
import { GAP, farModel, writeFar } from './far-model.js';
import { refuses, serveWith } from './helpers.js';
import { testModel } from './models.js';

const IDS = [2, 250, 7, 199, 31];
const ETAG = '"far"';
const LANE = 4 << 20;

/** @type {string} */ let folder;
/** @type {string} */ let path;
/** @type {ReturnType<typeof farModel>} */ let far;
/** @type {Float32Array} */ let expected;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gemma-far-'));
  process.on('exit', () => void rm(folder, { recursive: true, force: true }));
  const source = await testModel('gemma4-q4_0');
  far = farModel(Buffer.from(await readFile(source)));
  path = join(folder, 'far.gguf');
  await writeFar(path, far);
  expected = await logitsOf(source, { rowsOnDisk: false });
});

/** @param {ModelSource} source @param {LoadOptions} [options] */
async function logitsOf(source, options) {
  const model = await loadModel(source, { threads: 1, rowsOnDisk: true, ...options });
  try {
    return await model.debug.logits(IDS);
  } finally {
    await model.dispose();
  }
}

test('a file larger than 4 GiB is inspected and loaded, with rows on disk', async () => {
  assert.ok((await stat(path)).blocks * 512 < 1e8, 'the file is sparse');
  const { info, tensors } = await inspectModel(path, { rowsOnDisk: true });
  assert.equal(info.fileBytes, far.total);
  assert.ok(tensors.every(({ offset }, i) => i === 0 || offset > GAP));
  assert.ok(tensors.some(({ offset, bytes }) => offset < 2 ** 32 && offset + bytes > 2 ** 32));
  assert.ok(info.memory.onDisk > 0 && info.memory.heap < 1e8);
  assert.deepEqual(await logitsOf(path), expected);
});

test('a truncated file is reported with its size and the expected size', async () => {
  const short = join(folder, 'short.gguf');
  await writeFar(short, far);
  await truncate(short, 2 ** 32 + 5);
  const { message } = await refuses(loadModel(short, { threads: 1 }), 'truncated');
  assert.match(message, new RegExp(`${2 ** 32 + 5} bytes`));
  assert.match(message, new RegExp(`${far.total} bytes`));
});

/** @param {import('node:test').TestContext} t */
async function served(t) {
  const state = { sent: 0, ranges: /** @type {string[]} */ ([]) };
  const url = await serveWith(t, async (request, response) => {
    const range = byteRange(request.headers.range ?? '', far.total);
    const [start, end] = range && range !== 'bad' ? range : [0, far.total - 1];
    state.ranges.push(`${start}-${end}`);
    response.writeHead(range ? 206 : 200, {
      etag: ETAG,
      'accept-ranges': 'bytes',
      'content-length': end - start + 1,
      ...(range && { 'content-range': `bytes ${start}-${end}/${far.total}` }),
    });
    const file = await open(path);
    for await (const piece of file.createReadStream({ start, end, highWaterMark: 1 << 20 })) {
      if (response.destroyed) break;
      state.sent += piece.length;
      if (!response.write(piece))
        await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
    }
    response.end();
  });
  return { state, url: `${url}/far.gguf` };
}

/** Writes a sparse cached file without the last `missing` bytes, as a killed load leaves it. @param {string} at folder
 * @param {string} url @param {number} missing */
async function partialCopy(at, url, missing) {
  const hash = (/** @type {string} */ text) => createHash('sha256').update(text).digest('hex');
  const version = { etag: ETAG, modified: '', total: far.total };
  const name = `${keyOf(url, hash)}-${hash(nameOf(version)).slice(0, 16)}.gguf`;
  const piece = pieceOf(far.total, LANE);
  const end = Math.floor((far.total - missing) / piece) * piece;
  const journal = { ...emptyJournal(far.total, LANE), url, etag: ETAG, need: far.total };
  journal.have = missing ? [[0, end]] : [[0, far.total]];
  await writeFar(join(at, name), far);
  await truncate(join(at, name), far.total + tableBytes(journal));
  const zeros = checksum(new Uint8Array(piece));
  const sums = new Uint32Array(tableBytes(journal) / 4);
  const file = await open(join(at, name), 'r+');
  for (let i = 0; i * 2 < sums.length; i++) {
    const start = i * piece;
    const isEmpty = start >= far.header.length && start + piece <= far.start;
    const bytes = new Uint8Array(Math.min(piece, far.total - start));
    if (!isEmpty) await file.read(bytes, 0, bytes.length, start);
    sums.set(isEmpty ? zeros : checksum(bytes), 2 * i);
  }
  if (missing) await file.write(new Uint8Array(far.total - end), 0, far.total - end, end);
  await file.write(new Uint8Array(sums.buffer), 0, sums.byteLength, far.total);
  await file.close();
  const store = openStore(at);
  await writeJournal(store, name, { ...journal, used: Date.now() });
  await writeJournal(store, name, { ...journal, used: Date.now(), turn: 1 });
  await store.close?.(name);
}

test('a complete cached copy is read, checked and repaired beyond 4 GiB', async (t) => {
  const at = await mkdtemp(join(folder, 'cache-'));
  const { url, state } = await served(t);
  await partialCopy(at, url, 0);
  const cache = openCache(at);
  assert.deepEqual(await logitsOf(url, { cache }), expected);
  assert.ok(state.sent < 5e6, `${state.sent} bytes were sent`);
  const [name] = (await readdir(at)).filter((one) => one.endsWith('.gguf'));
  const file = await open(join(at, name), 'r+');
  const byte = new Uint8Array(1);
  await file.read(byte, 0, 1, far.total - 5000);
  await file.write(Uint8Array.of(byte[0] ^ 1), 0, 1, far.total - 5000);
  await file.close();
  state.sent = 0;
  assert.deepEqual(await logitsOf(url, { cache }), expected);
  assert.ok(state.sent > 0 && state.sent < 2 * LANE, `${state.sent} bytes were sent`);
});

test('a download that stopped beyond 4 GiB resumes there', async (t) => {
  const at = await mkdtemp(join(folder, 'cache-'));
  const { url, state } = await served(t);
  const missing = 1 << 20;
  await partialCopy(at, url, missing);
  const cache = openCache(at);
  assert.deepEqual(await logitsOf(url, { cache }), expected);
  assert.ok(state.sent < missing + far.total / 100, `${state.sent} bytes for ${missing} missing ones`);
  assert.ok(state.ranges.every((range) => Number(range.split('-')[0]) === 0 || Number(range.split('-')[0]) > 2 ** 32));
  const [{ stored, complete }] = await cache.list();
  assert.ok(complete);
  assert.equal(stored, far.total);
});
