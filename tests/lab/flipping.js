/* flipping: flips single bits of stored files at random positions. The result must be, by kind of file:
 *   cached model   offline, an error that names the piece (the unit of checksums); online, only that piece is fetched
 *                  again
 *   search index   an error that names the file
 *   saved chat     an error with a code, or the same messages and next answer
 *   journal        (list of stored pieces, at the end of a cached model) an error with a code, or the same bytes of the
 *                  model */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { loadModel, openCache } from '../../js/index.node.js';
import { readJournal } from '../../js/download/entries.js';
import { openStore } from '../../js/download/store-node.js';
import { environment } from '../../js/platform/env.js';
import { openIndex } from '../../js/search.node.js';
import { faultyServer } from '../js/faulty-server.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { JOURNAL_BYTES, flipped } from './inject.js';
import { TUNING } from './place.js';
import { readThrough } from './reading.js';
import { isCoded } from './rules.js';

/** @typedef {Awaited<ReturnType<typeof storedCopy>>} Copy */
/** A test, or another object that calls functions when it ends. @typedef {{ after: (f: () => unknown) => void }}
 * Ending */

const DIMENSIONS = 24;
/** One in this number of flipped bits in a cached model is tested by loading the model into an engine, the others only
 * by reading its bytes. */
const WITH_ENGINE = 100;

/** @param {Ending} t */
function folderOf(t) {
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-flips-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Starts a server and caches its file in a new folder. With `killAfter`, the server answers only so many requests, so
 * that a part of the file is cached.
 * @param {Ending} t @param {Buffer} bytes @param {{ killAfter?: number, sha256?: string }} [options] */
export async function storedCopy(t, bytes, { killAfter = Infinity, ...options } = {}) {
  const folder = folderOf(t);
  const cache = openCache(folder);
  const server = await faultyServer(t, bytes, (n) => (n < killAfter ? {} : { killAt: 0 }));
  await loadModel(server.url, { threads: 1, cache, ...options }).then(
    (model) => model.dispose(),
    (error) => {
      if (killAfter === Infinity) throw error;
    },
  );
  server.state.faults = () => ({});
  const [name] = readdirSync(folder);
  const { piece, total } = /** @type {any} */ (await readJournal(openStore(folder), name));
  return { folder, cache, server, path: join(folder, name), piece, total };
}

/** Flips bits of a cached file, one at a time. `read` returns the value that must equal `expected`.
 * @param {Copy} place
 * @param {{ count: number, seed: number, expected: unknown,
 *   read: (url: string, place: Copy) => Promise<unknown> }} run */
export async function flipRuns(place, { count, seed, read, expected }) {
  const random = randoms(seed);
  const { server, path, piece, total } = place;
  const sums = { bits: 0, inBytes: 0, inChecks: 0, inJournal: 0, sent: 0 };
  const checks = 8 * Math.ceil(total / piece);
  for (; sums.bits < count; sums.bits++) {
    const byte = random(total + checks + JOURNAL_BYTES);
    const bit = 8 * byte + random(8);
    const kind = byte < total ? 'inBytes' : byte < total + checks ? 'inChecks' : 'inJournal';
    const where = `bit ${bit & 7} of byte ${byte}`;
    const sound = async () =>
      assert.ok(isDeepStrictEqual(await read(server.url, place), expected), `${where}: wrong bytes`);
    writeFileSync(path, flipped(readFileSync(path), bit));
    server.state.faults = () => ({ status: 403 });
    if (kind === 'inBytes') {
      const error = await read(server.url, place).then(
        () => null,
        (/** @type {any} */ reason) => reason,
      );
      assert.equal(error?.code, 'cache-corrupt', `${where}: not found, ${error}`);
      assert.ok(
        error.message.includes(` is corrupt at piece ${Math.floor(byte / piece) + 1} of `),
        `${where}: ${error.message}`,
      );
    } else if (kind === 'inJournal') await sound();
    server.state.faults = () => ({});
    server.forget();
    await sound();
    const { sent } = server;
    assert.ok(sent <= 1 + piece && sent > 1 === (kind !== 'inJournal'), `${where}: ${sent} bytes were fetched`);
    server.state.faults = () => ({ status: 403 });
    await sound();
    sums[kind]++;
    sums.sent += sent;
  }
  return sums;
}

/** Flips single bits in files of a folder, and restores each file. `from` returns the index of the first byte that may
 * change; `same` reads the file, and returns whether the contents are unchanged. Counts errors with a code (refused),
 * unchanged contents (same), and changed contents without an error (silent).
 * @param {string} folder
 * @param {{ chosen?: (name: string) => boolean, from?: (length: number) => number, count: number,
 *   random: (n?: number) => number, same: (name: string) => Promise<boolean> }} how */
async function flipEach(folder, { chosen = () => true, from = () => 0, count, random, same }) {
  const counts = { refused: 0, same: 0, silent: 0 };
  const names = readdirSync(folder).filter(chosen);
  for (let i = 0; i < count; i++) {
    const name = names[random(names.length)];
    const path = join(folder, name);
    const whole = readFileSync(path);
    const first = from(whole.length);
    writeFileSync(path, flipped(whole, 8 * first + random(8 * (whole.length - first))));
    try {
      counts[(await same(name)) ? 'same' : 'silent']++;
    } catch (error) {
      if (!isCoded(error)) throw error;
      counts.refused++;
    }
    writeFileSync(path, whole);
  }
  return counts;
}

/** Flips bits in the files of a search index that has added, changed and deleted items, and merged files. An error that
 * does not name the file counts as silent.
 * @param {Ending} t @param {number} count @param {number} seed */
export async function flipIndex(t, count, seed) {
  const folder = folderOf(t);
  const random = randoms(seed);
  const index = await openIndex({ dimensions: DIMENSIONS, folder });
  const vector = () => Array.from({ length: DIMENSIONS }, () => random() - 0.5);
  for (let i = 0; i < 40; i++) await index.add({ id: `item ${i % 30}`, vector: vector(), data: { text: `text ${i}` } });
  await index.delete(['item 3', 'item 4']);
  return flipEach(folder, {
    count,
    random,
    async same(name) {
      const error = await openIndex({ dimensions: DIMENSIONS, folder }).then(
        () => null,
        (reason) => reason,
      );
      if (error?.code === 'index-failed' && error.message.includes(name)) throw error;
      return false;
    },
  });
}

/** Flips bits of a saved chat. If the chat still opens, it must have the messages and the next answer of the original.
 * A chat that is not found any more counts as silent.
 * @param {Ending} t @param {number} count @param {number} seed */
async function flipChats(t, count, seed) {
  const folder = folderOf(t);
  const model = await loadModel(await testModel('tiny'), { threads: 1, cache: openCache(folder) });
  t.after(() => model.dispose());
  const chat = model.chat({ maxTokens: 8, seed: 4, logitBias: { 1: -Infinity, 8: -Infinity }, system: 'Be short.' });
  for (const question of ['Hello', 'Why?']) await chat.send(question).text();
  await model.chatCache.put('x', await chat.save());
  const opened = async () => {
    const saved = await model.chatCache.get('x');
    if (!saved) return undefined;
    const again = model.chat({ saved });
    const messages = structuredClone(again.messages);
    const { text, tokens } = await again.send('Go on.').result();
    return { messages, text, tokens };
  };
  const expected = await opened();
  return flipEach(folder, {
    chosen: (name) => name.endsWith('.state'),
    count,
    random: randoms(seed),
    same: async () => isDeepStrictEqual(await opened(), expected),
  });
}

/** Flips bits of a cached file's journal. Afterwards, cache.list() and the bytes read offline must be unchanged, or
 * reading fails with an error code.
 * @param {Ending} t @param {number} count @param {number} seed */
async function flipJournals(t, count, seed) {
  const place = await storedCopy(t, readFileSync(await testModel('tiny')));
  const opened = async () => ({
    list: (await place.cache.list()).map(({ lastUsed, ...rest }) => rest),
    bytes: await readThrough(place.server.url, place),
  });
  place.server.state.faults = () => ({ status: 403 });
  const expected = await opened();
  return flipEach(place.folder, {
    from: (length) => length - JOURNAL_BYTES,
    count,
    random: randoms(seed),
    same: async () => isDeepStrictEqual(await opened(), expected),
  });
}

/** Flips bits of a cached file, one per run. Most runs compare the bytes that are read; a few load them into an engine
 * and compare logits. @param {Ending} t @param {number} count @param {number} seed */
async function flipCopy(t, count, seed) {
  const bytes = readFileSync(await testModel('parity-q4_0'));
  const place = await storedCopy(t, bytes);
  const logits = async () => {
    const model = await loadModel(place.server.url, { threads: 1, cache: place.cache });
    const row = await model.debug.logits([2, 300, 310]);
    await model.dispose();
    return row;
  };
  const few = Math.floor(count / WITH_ENGINE);
  return {
    bytesOnly: await flipRuns(place, { count: count - few, seed, read: readThrough, expected: bytes }),
    withEngine: await flipRuns(place, { count: few, seed: seed + 1, read: logits, expected: await logits() }),
  };
}

const FILES = { index: flipIndex, chats: flipChats, journals: flipJournals };

/** Flips bits of a cached model if `copies` is true, otherwise of index files, chats and journals.
 * @param {import('./cases.js').Run & { copies?: boolean }} run */
export async function run({ count, seed, kind, copies, after }) {
  environment.tuning = TUNING;
  const t = { after };
  /** @type {Record<string, any>} */
  const counts = {};
  if (copies) Object.assign(counts, await flipCopy(t, count, seed));
  else
    for (const [name, flip] of Object.entries(FILES))
      if (new RegExp(kind).test(name)) counts[name] = await flip(t, count, seed);
  const broken = Object.entries(counts).flatMap(([name, { silent }]) => (silent ? [`${name}: ${silent} silent`] : []));
  return { counts, broken };
}
