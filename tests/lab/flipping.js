/* flipping: bits of a stored copy, one at a time: each must be found when it is read; offline the load is refused and
 * the piece named; online that piece alone is fetched again. Used by tests/js/store-checks.test.js and flips.js. */
import assert from 'node:assert/strict';
import { mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { loadModel, openCache } from '../../js/index.node.js';
import { readJournal } from '../../js/download/entries.js';
import { openStore } from '../../js/download/store-node.js';
import { faultyServer } from '../js/faulty-server.js';
import { randoms } from '../support/random.js';

/** One bit of some bytes, in a copy of them. @param {Buffer} bytes @param {number} bit */
export function flipped(bytes, bit) {
  const copy = Buffer.from(bytes);
  const at = Math.floor(bit);
  copy[at >> 3] ^= 1 << (at & 7);
  return copy;
}

/** A server, and a folder that has a copy of its file, or what came with so many requests.
 * @param {any} t @param {Buffer} bytes @param {{ killAfter?: number, sha256?: string }} [options] */
export async function storedCopy(t, bytes, { killAfter = Infinity, ...options } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'gemma-wasm-flips-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const cache = openCache(folder);
  const server = await faultyServer(t, bytes, (n) => (n < killAfter ? {} : { killAt: 0 }));
  const loaded = loadModel(server.url, { threads: 1, cache, ...options });
  await loaded.then(
    (model) => model.dispose(),
    (error) => {
      if (killAfter === Infinity) throw error;
    },
  );
  server.state.faults = () => ({});
  const [name] = await readdir(folder);
  const { piece, total } = /** @type {any} */ (await readJournal(openStore(folder), name));
  return { folder, cache, server, path: join(folder, name), piece, total };
}

/** Flips a bit of a file. @param {string} path @param {number} bit */
async function flip(path, bit) {
  const file = await open(path, 'r+');
  const byte = Buffer.alloc(1);
  const at = Math.floor(bit / 8);
  await file.read(byte, 0, 1, at);
  byte[0] ^= 1 << (bit % 8);
  await file.write(byte, 0, 1, at);
  await file.close();
}

/** @typedef {Awaited<ReturnType<typeof storedCopy>>} Place */
/** read: gives what is compared with `expected`.
 * @param {Place} place @param {{ count: number, seed: number, expected: unknown,
 *   read: (url: string, place: Place) => Promise<unknown>, each?: (done: number) => void }} run */
export async function flipRuns(place, { count, seed, read, expected, each = () => {} }) {
  const random = randoms(seed);
  const sums = { bits: 0, inBytes: 0, inChecks: 0, inJournal: 0, sent: 0 };
  const checks = 8 * Math.ceil(place.total / place.piece);
  const all = place.total + checks + 16384;
  for (let i = 0; i < count; i++) {
    const byte = Math.floor(random() * all);
    const bit = 8 * byte + Math.floor(random() * 8);
    const kind = byte < place.total ? 'inBytes' : byte < place.total + checks ? 'inChecks' : 'inJournal';
    await oneFlip(place, bit, kind, { read, expected });
    sums[kind]++;
    sums.bits++;
    sums.sent += place.server.sent;
    each(i + 1);
  }
  return sums;
}

/** @param {Place} place @param {number} bit @param {string} kind @param {any} run */
async function oneFlip(place, bit, kind, { read, expected }) {
  const { server, path, piece } = place;
  const where = `bit ${bit % 8} of byte ${Math.floor(bit / 8)}`;
  const sound = async () =>
    assert.ok(isDeepStrictEqual(await read(server.url, place), expected), `${where}: wrong bytes`);
  await flip(path, bit);
  server.state.faults = () => ({ status: 403 });
  if (kind === 'inBytes') {
    const error = await read(server.url, place).then(
      () => null,
      (e) => e,
    );
    assert.equal(error?.code, 'copy-damaged', `${where}: not found, ${error}`);
    assert.ok(error.message.startsWith(`piece ${Math.floor(bit / 8 / piece) + 1} of `), `${where}: ${error.message}`);
  } else if (kind === 'inJournal') {
    await sound();
  }
  server.state.faults = () => ({});
  server.forget();
  await sound();
  const { sent } = server;
  assert.ok(sent <= 1 + piece, `${where}: ${sent} bytes were fetched`);
  assert.equal(sent > 1, kind !== 'inJournal', `${where}: ${sent} bytes were fetched`);
  server.state.faults = () => ({ status: 403 });
  await sound();
}
