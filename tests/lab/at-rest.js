/**
 * at-rest: bits of stored files are flipped, one at a time, at random places: files of a search index, saved chats in
 * the cache, journals of stored models. Each flip must be refused with a code, or change nothing: an index answers as
 * before, a chat has its messages and the same next answer, a model has the same bytes without the network.
 *
 *   node tests/lab/at-rest.js [COUNT] [SEED]      COUNT bits (5,000) of each of the three
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { GemmaError, loadModel, openCache } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { openIndex } from '../../js/search.node.js';
import { random } from '../../tools/models/vocab.js';
import { testModel } from '../js/models.js';
import { storedCopy } from './flipping.js';
import { readThrough } from './reading.js';

/** refused: with a code; same: nothing changed; silent: something changed without an error.
 * @typedef {{ refused: number, same: number, silent: number }} Counts */

const DIMENSIONS = 24;
/** Bytes at the end of a stored model that hold its journal, twice (js/download/entries.js). */
const JOURNAL_BYTES = 16384;

/** Flips one bit after the other in files of a folder, from a byte on; `same` reads what they hold, throws a GemmaError
 * that refuses it, or returns whether it is as before.
 * @param {string} folder @param {(name: string) => boolean} chosen @param {(length: number) => number} from
 * @param {number} count @param {() => number} next random numbers
 * @param {(name: string) => Promise<boolean>} same @returns {Promise<Counts>} */
async function flipEach(folder, chosen, from, count, next, same) {
  const counts = { refused: 0, same: 0, silent: 0 };
  const names = readdirSync(folder).filter(chosen);
  for (let i = 0; i < count; i++) {
    const name = names[Math.floor(next() * names.length)];
    const path = join(folder, name);
    const whole = readFileSync(path);
    const first = from(whole.length);
    const bit = 8 * first + Math.floor(next() * 8 * (whole.length - first));
    const flipped = Buffer.from(whole);
    flipped[bit >> 3] ^= 1 << (bit & 7);
    writeFileSync(path, flipped);
    try {
      counts[(await same(name)) ? 'same' : 'silent']++;
    } catch (error) {
      if (!(error instanceof GemmaError)) throw error;
      counts.refused++;
    }
    writeFileSync(path, whole);
  }
  return counts;
}

/** Fills an index with several files (items, changed ones, deleted ones, files put together) in an empty folder and flips
 * their bits; an error without the file's name counts as silent. @param {string} folder @param {number} count
 * @param {number} seed */
export async function flipIndex(folder, count, seed) {
  const next = random(seed);
  const index = await openIndex({ dimensions: DIMENSIONS, folder });
  const vector = () => Array.from({ length: DIMENSIONS }, () => next() - 0.5);
  for (let i = 0; i < 40; i++) await index.add({ id: `item ${i % 30}`, vector: vector(), data: { text: `text ${i}` } });
  await index.delete(['item 3', 'item 4']);
  return flipEach(
    folder,
    () => true,
    () => 0,
    count,
    next,
    async (name) => {
      const error = await openIndex({ dimensions: DIMENSIONS, folder }).then(
        () => null,
        (reason) => reason,
      );
      if (error?.code === 'index-failed' && error.message.includes(name)) throw error;
      return false;
    },
  );
}

/** Saves a chat in an empty folder and flips bits of its file: a chat that still opens has the messages, the options and
 * the next answer of the one that was saved. @param {string} folder @param {number} count @param {number} seed */
export async function flipChats(folder, count, seed) {
  const model = await loadModel(await testModel('tiny'), { threads: 1, cache: openCache(folder) });
  const chat = model.chat({ maxTokens: 8, seed: 4, logitBias: { 1: -Infinity, 8: -Infinity }, system: 'Be short.' });
  for (const question of ['Hello', 'Why?']) await chat.send(question).text();
  await model.stateCache.put('x', await chat.save());
  const opened = async () => {
    const saved = await model.stateCache.get('x');
    if (!saved) throw new GemmaError('bad-saved', 'The saved chat is damaged.');
    const again = model.chat({ saved });
    const messages = structuredClone(again.messages);
    const { text, tokens } = await again.send('Go on.').result();
    return { messages, text, tokens };
  };
  const expected = await opened();
  const counts = await flipEach(
    folder,
    (name) => name.endsWith('.state'),
    () => 0,
    count,
    random(seed),
    async () => isDeepStrictEqual(await opened(), expected),
  );
  await model.dispose();
  return counts;
}

/** Stores a model and flips bits of its journal: the list and, without the network, the bytes are as before.
 * @param {any} t whose `after` cleans up @param {number} count @param {number} seed */
export async function flipJournals(t, count, seed) {
  const place = await storedCopy(t, readFileSync(await testModel('tiny')));
  const listed = async () => (await place.cache.list()).map(({ lastUsed, ...rest }) => rest);
  const opened = async () => ({ list: await listed(), bytes: await readThrough(place.server.url, place) });
  place.server.state.faults = () => ({ status: 403 });
  const expected = await opened();
  return flipEach(
    place.folder,
    () => true,
    (length) => length - JOURNAL_BYTES,
    count,
    random(seed),
    async () => isDeepStrictEqual(await opened(), expected),
  );
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [count, seed] = [process.argv[2] ?? 5000, process.argv[3] ?? 1].map(Number);
  environment.tuning = {
    segment: 1 << 18,
    alone: Number.MAX_VALUE,
    journal: 1 << 14,
    backoffMs: 1,
    longestMs: 500,
    stallMs: 5000,
  };
  const folders = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'gemma-wasm-flips-')));
  /** @type {(() => unknown)[]} */
  const after = [];
  const t = { after: (/** @type {() => unknown} */ f) => after.push(f) };
  const kinds = {
    index: await flipIndex(folders[0], count, seed),
    chats: await flipChats(folders[1], count, seed),
    journals: await flipJournals(t, count, seed),
  };
  for (const folder of folders) rmSync(folder, { recursive: true });
  for (const f of after) await f();
  console.log(JSON.stringify({ seed, bits: count, ...kinds }));
  process.exitCode = Object.values(kinds).some(({ silent }) => silent) ? 1 : 0;
}
