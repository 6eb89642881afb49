/* Tests checksums of cached files (js/download/checks.js): any bit that is flipped at rest is detected when it is read,
 * and only its piece is fetched again; offline, the load fails with an error that names the piece. `node
 * tests/lab/run.js bits` flips 10,000 bits. */
import assert from 'node:assert/strict';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { checksum } from '../../js/download/checksum.js';
import { pieceOf } from '../../js/download/checks.js';
import { readJournal } from '../../js/download/entries.js';
import { openStore } from '../../js/download/store-node.js';
import { checkerOf } from '../../js/engine/checker.js';
import { Heap, createMemory, imports } from '../../js/engine/heap.js';
import { environment } from '../../js/platform/env.js';
import { flipRuns, storedCopy } from '../lab/flipping.js';
import { flipped } from '../lab/inject.js';
import { TUNING } from '../lab/place.js';
import { readThrough } from '../lab/reading.js';
import { randoms } from '../support/random.js';
import { bytes, expected, load, other, sha256Of } from './downloads.js';
import { refuses, wrong } from './helpers.js';

const PIECE = 1 << 14;
environment.tuning = TUNING;

test("the engine's checksum equals its specification, inside and outside the engine's memory", async () => {
  const random = randoms(5);
  const text = Uint8Array.from({ length: 70000 }, () => random() * 256);
  for (const [file, shared] of Object.entries({ simd128: false, 'simd128-threads': true })) {
    const module = await WebAssembly.compile(await readFile(new URL(`../../js/gemma-${file}.wasm`, import.meta.url)));
    const memory = createMemory(shared);
    const { exports } = /** @type {any} */ (await WebAssembly.instantiate(module, wrong(imports(memory))));
    const heap = new Heap(memory, exports);
    exports.__wasm_call_ctors?.();
    const { room, sum } = checkerOf(module, { heap, exports });
    const own = heap.view(heap.reserve(text.length), text.length);
    own.set(text);
    const inside = room(text.length) ?? own;
    inside.set(text);
    for (const n of [0, 1, 3, 127, 128, 129, 4096, 69999, 70000]) {
      assert.deepEqual(sum(text.subarray(0, n)), checksum(text.subarray(0, n)), `${file}, ${n} bytes`);
      assert.deepEqual(sum(inside.subarray(0, n)), checksum(text.subarray(0, n)), `${file}, ${n} bytes inside`);
      assert.deepEqual(sum(own.subarray(0, n)), checksum(text.subarray(0, n)), `${file}, ${n} bytes of the engine's`);
    }
    assert.equal(room(1 << 24), undefined);
  }
});

test('a piece lies within one range of a download; a file has at most 4096 pieces, or pieces of 32 KB', () => {
  for (const total of [1, 5000, 3e6, 7.2e8, 4e9, 1.6e10]) {
    const piece = pieceOf(total, 4 << 20);
    assert.equal((4 << 20) % piece, 0);
    assert.ok(total > 2 ** 30 ? piece === 1 << 15 : total / piece <= 4096, `${total} bytes in pieces of ${piece}`);
  }
});

test('any bit flipped in a stored copy is found, and only its piece is fetched again; offline, the error names the piece', async (t) => {
  const place = await storedCopy(t, bytes);
  const readLogits = async (/** @type {string} */ url, /** @type {{ cache: ModelCache }} */ { cache }) =>
    (await load(url, { cache })).logits;
  assert.equal((await flipRuns(place, { count: 2, seed: 1, read: readLogits, expected })).bits, 2);
  assert.equal((await flipRuns(place, { count: 25, seed: 2, read: readThrough, expected: bytes })).bits, 25);
});

test('several damaged pieces, even neighbours and the last one, are fetched, and nothing else', async (t) => {
  const place = await storedCopy(t, bytes);
  const { server, cache, path } = place;
  const whole = await readFile(path);
  const pieces = [3, 4, 5, 90, Math.floor((bytes.length - 1) / PIECE)];
  const broken = Buffer.from(whole);
  for (const i of pieces) broken.fill(0, i * PIECE, Math.min((i + 1) * PIECE, bytes.length));
  await writeFile(path, broken);
  server.forget();
  const { logits, info, kept, codes } = await load(server.url, { cache });
  assert.deepEqual(logits, expected);
  assert.deepEqual([kept, codes], ['cached', ['mended']]);
  assert.match(info.notices[0].message, / at piece 4 of 186 \(bytes 49152 to 65535\), which was fetched again\.$/);
  assert.ok(server.sent <= 1 + pieces.length * PIECE, `${server.sent} bytes were sent`);
  assert.equal(Buffer.compare((await readFile(path)).subarray(0, bytes.length), bytes), 0);
  server.forget();
  assert.deepEqual((await load(server.url, { cache })).codes, []);
  assert.equal(server.sent, 1);
});

test('a damaged copy is rejected and kept if the server sends another file, an error, or the page of a captive portal', async (t) => {
  const place = await storedCopy(t, bytes);
  const { server, cache, path, folder } = place;
  const broken = flipped(await readFile(path), bytes.length * 0.7 * 8);
  /** @type {Fault[]} */
  const answers = [
    { headers: { ETag: '', 'Last-Modified': '' }, bytes: other },
    { status: 503 },
    {
      bytes: Buffer.from('<!doctype html>'.repeat(40)),
      etag: '"portal"',
      noRanges: true,
      headers: { 'Last-Modified': '' },
    },
  ];
  const corrupt = /^The cached copy of http\S+ is corrupt at piece 130 of 186 \(bytes 2113536 to 2129919\), and/;
  for (const answer of answers) {
    await writeFile(path, broken);
    server.state.faults = () => answer;
    await refuses(loadModel(server.url, { threads: 1, cache }), 'cache-corrupt', corrupt);
    assert.equal(Buffer.compare((await readFile(path)).subarray(0, bytes.length), broken.subarray(0, bytes.length)), 0);
  }
  // The server's version headers do not matter if checksums prove that its bytes are those of the cached file.
  for (const answer of [{ headers: { ETag: '', 'Last-Modified': '' } }, { etag: 'W/"one"' }, {}]) {
    await writeFile(path, broken);
    server.state.faults = () => answer;
    const { logits, codes } = await load(server.url, { cache });
    assert.deepEqual(logits, expected);
    assert.ok(codes.includes('mended'));
  }
  assert.equal((await readdir(folder)).length, 1);
});

test('with sha256, a damaged piece is fetched again, and all bytes are compared', async (t) => {
  const sha256 = sha256Of(bytes);
  const place = await storedCopy(t, bytes, { sha256 });
  const { server, cache, path } = place;
  for (const bit of [bytes.length * 4, 1e5]) {
    await writeFile(path, flipped(await readFile(path), bit));
    server.forget();
    const { logits, kept, codes } = await load(server.url, { cache, sha256 });
    assert.deepEqual(logits, expected);
    assert.deepEqual([kept, codes], ['cached', ['mended']]);
    assert.ok(server.sent <= 1 + PIECE);
  }
  await writeFile(path, flipped(await readFile(path), bytes.length * 4));
  await server.close();
  await refuses(loadModel(server.url, { threads: 1, cache, sha256 }), 'cache-corrupt');
});

test('inspectModel() reads a damaged header correctly, and changes nothing', async (t) => {
  const place = await storedCopy(t, bytes);
  const { server, cache, path } = place;
  const broken = flipped(await readFile(path), 2000);
  await writeFile(path, broken);
  const { metadata } = await inspectModel(server.url, { cache });
  assert.deepEqual(metadata, (await inspectModel(new Uint8Array(bytes))).metadata);
  assert.equal(Buffer.compare(await readFile(path), broken), 0);
  await server.close();
  await refuses(inspectModel(server.url, { cache }), 'cache-corrupt', / is corrupt at piece 1 of 186 /);
});

test('a partial copy is also checked when its download resumes', async (t) => {
  const place = await storedCopy(t, bytes, { killAfter: 8 });
  const { server, cache, path } = place;
  const [{ stored }] = await cache.list();
  assert.ok(stored > 5 * PIECE && stored < bytes.length, `${stored} of ${bytes.length} bytes`);
  await writeFile(path, flipped(await readFile(path), 3.5 * PIECE * 8));
  server.forget();
  const { logits, kept } = await load(server.url, { cache });
  assert.deepEqual(logits, expected);
  assert.equal(kept, 'stored');
  assert.ok(server.sent <= bytes.length - stored + 2 * PIECE, `${server.sent} sent, ${stored} were stored`);
});

test('a journal needs only one intact half; a copy that was cut off or grew is replaced', async (t) => {
  const place = await storedCopy(t, bytes);
  const { server, cache, path, folder } = place;
  const whole = await readFile(path);
  const journal = await readJournal(openStore(folder), (await readdir(folder))[0]);
  const latest = (Number(journal?.turn) % 2) * 8192;
  const start = whole.length - 16384;
  for (const half of [0, 4096]) {
    const broken = Buffer.from(whole);
    broken.fill(7, start + latest + half, start + latest + half + 4096);
    await writeFile(path, broken);
    server.forget();
    assert.equal((await load(server.url, { cache })).kept, 'cached');
    assert.equal(server.sent, 1);
  }
  for (const changed of [whole.subarray(0, -1), Buffer.concat([whole, Buffer.from('x')]), whole.subarray(0, 1000)]) {
    await writeFile(path, changed);
    assert.deepEqual((await load(server.url, { cache })).logits, expected);
    assert.deepEqual([(await load(server.url, { cache })).kept, (await readdir(folder)).length], ['cached', 1]);
  }
});

test('a copy that is removed or cut off while it is written does not count as stored', async (t) => {
  for (const how of ['remove', 'cut']) {
    const place = await storedCopy(t, bytes);
    const { server, cache, folder, path } = place;
    const inner = openStore(folder);
    await cache.clear();
    let written = 0;
    const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ piece) => {
      if (++written === 40) await (how === 'remove' ? inner.remove(name) : writeFile(path, 'x'));
      return inner.write(name, at, piece);
    };
    const { logits, kept, codes } = await load(server.url, { cache: openCache({ ...inner, write }) });
    assert.deepEqual(logits, expected);
    if (kept === 'stored') assert.ok((await cache.list())[0].complete && !codes.length);
    else assert.deepEqual([kept, codes], ['none', ['not-cached']]);
    assert.deepEqual((await load(server.url, { cache })).logits, expected);
  }
});
