/* entries: the format of a cached copy: one file with the model's bytes at their offsets, then the checksums of its
 * pieces (checks.js) and a journal. The journal is JSON that names the file's URL and version and lists the stored
 * ranges. It has two slots, written alternately. A slot contains the JSON text twice, each time with a checksum. If
 * both texts of a slot are torn or corrupt, the other slot has the previous state. */
import { pieceOf, tableBytes } from './checks.js';
import { checksum } from './checksum.js';
import { copyTruncated } from './errors.js';
/** @import { Store } from '../protocol.js' */

/** Version of the journal's format. A journal without a version has version 1. */
const VERSION = 1;
const HALF = 4096;
const SLOTS = 4 * HALF;
/** Number of hexadecimal digits of the checksum after each text of the journal. */
const DIGITS = 16;
const MAX_RANGES = 64;
/** Largest time value of a JavaScript Date, in milliseconds since 1970. */
const MOST_DATE = 8.64e15;

/** Returns whether a file name is that of a cached model. @param {string} name */
export const isModel = (name) => /^[0-9a-f-]+\.gguf$/.test(name);

/** Returns whether a file name is that of a saved chat (chat-cache.js). @param {string} name */
export const isState = (name) => /^c-[0-9a-f-]+\.state$/.test(name);

/** Returns whether a file name is that of a cached model or a saved chat. Other files are never touched.
 * @param {string} name */
export const isName = (name) => isModel(name) || isState(name);

/** Offsets of the first byte of a range, and of the byte after the range. @typedef {[number, number]} ByteRange */
/** The journal of a cached copy. version: version of its format; url: URL without secrets; have: stored ranges, in
 * order; need: offset of the end of the last tensor, once known; sha256: SHA-256 of all bytes, if it was computed;
 * used: time of the last use in ms since 1970; turn: number of writes of the journal; doubt: whether the bytes turned
 * out not to be a model, or not to have the SHA-256 that the caller passed; guarded: whether the file was downloaded
 * with an access token; piece: size of a piece in bytes.
 * @typedef {{ version?: number, url: string, etag: string, modified: string, total: number, have: ByteRange[],
 *   need: number, sha256: string, used: number, turn: number, doubt?: boolean, guarded?: boolean,
 *   piece: number }} Journal */

/** Returns the journal of a copy without bytes. The caller sets `url`, `etag` and `modified`.
 * @param {number} total size of the file in bytes @param {number} lane size of a lane in bytes @returns {Journal} */
export function emptyJournal(total, lane) {
  const piece = pieceOf(total, lane);
  const texts = { url: '', etag: '', modified: '', sha256: '' };
  return { ...texts, version: VERSION, total, have: [], need: 0, used: 0, turn: 0, piece };
}

/** Fills a view from a file. Repeats reads, because a store may return fewer bytes than requested. Throws if the file
 * ends too early.
 * @param {Store} store @param {string} name @param {number} at @param {Uint8Array} into
 * @param {() => boolean} [wanted] returns false once `into` must no longer be written */
export async function readAll(store, name, at, into, wanted) {
  for (let done = 0; done < into.length; ) {
    const count = await store.read(name, at + done, into.subarray(done), wanted);
    if (!(count > 0 && count <= into.length - done)) throw copyTruncated();
    done += count;
  }
}

/** Returns the journal of a file, or null if the file has no valid journal. @param {Store} store @param {string} name
 * @param {number} [size] size of the file
 * @returns {Promise<Journal | null>} */
export async function readJournal(store, name, size) {
  const start = (size ?? (await store.size(name))) - SLOTS;
  if (start < 0) return null;
  const bytes = new Uint8Array(SLOTS);
  await readAll(store, name, start, bytes);
  const slots = [0, 2].map((at) => slotOf(bytes.subarray(at * HALF, (at + 2) * HALF), start));
  return slots.reduce((a, b) => (a && b ? (a.turn > b.turn ? a : b) : (a ?? b)));
}

/** Returns the journal in a slot, or null if the slot has no valid journal.
 * @param {Uint8Array} slot @param {number} end offset where the journal begins */
function slotOf(slot, end) {
  for (const half of [slot.subarray(0, HALF), slot.subarray(HALF)]) {
    const text = new TextDecoder().decode(half);
    if (text.endsWith(digitsOf(half.subarray(0, -DIGITS)))) return parse(text.slice(0, -DIGITS), end);
  }
  return null;
}

/** @param {Uint8Array} bytes */
const digitsOf = (bytes) =>
  checksum(bytes)
    .map((word) => word.toString(16).padStart(DIGITS / 2, '0'))
    .join('');

/** Returns whether a value is a valid journal. Another program or version may have written the file.
 * @param {any} journal */
function isJournal(journal) {
  const { version = 1, url, total, have, need, used, turn, piece, etag, modified, sha256 } = Object(journal);
  const pieces =
    Array.isArray(have) &&
    have.every(
      (one) =>
        Array.isArray(one) &&
        one.length === 2 &&
        one.every(Number.isInteger) &&
        one[0] >= 0 &&
        one[0] < one[1] &&
        one[1] <= total,
    );
  const isText = [url, etag, modified, sha256].every((value) => typeof value === 'string');
  const isDate = Math.abs(used) <= MOST_DATE;
  const numbers = [total, need, used, turn, piece].every(Number.isFinite);
  return version === VERSION && isText && pieces && isDate && numbers && piece > 0;
}

/** @param {string} text @param {number} end @returns {Journal | null} */
function parse(text, end) {
  try {
    const journal = JSON.parse(text);
    return isJournal(journal) && journal.total + tableBytes(journal) === end ? journal : null;
  } catch {
    return null;
  }
}

/** Writes a journal into the slot that was not written last. @param {Store} store @param {string} name
 * @param {Journal} journal */
export async function writeJournal(store, name, journal) {
  const slot = new Uint8Array(2 * HALF).fill(32);
  const text = slot.subarray(0, HALF - DIGITS);
  const encoder = new TextEncoder();
  encoder.encodeInto(JSON.stringify({ ...journal, have: journal.have.slice(0, MAX_RANGES) }), text);
  slot.set(encoder.encode(digitsOf(text)), text.length);
  slot.copyWithin(HALF, 0, HALF);
  await store.write(name, journal.total + tableBytes(journal) + (journal.turn % 2) * slot.length, slot);
}

/** Adds a range to a list of ranges. @param {ByteRange[]} have @param {number} start @param {number} end
 * @returns {ByteRange[]} in order, adjacent ranges merged */
export function joined(have, start, end) {
  const apart = have.filter(([a, b]) => b < start || a > end);
  const touched = have.filter(([a, b]) => b >= start && a <= end);
  /** @type {ByteRange} */
  const merged = [Math.min(start, ...touched.map(([a]) => a)), Math.max(end, ...touched.map(([, b]) => b))];
  return [...apart, merged].sort(([a], [b]) => a - b);
}

/** Removes a range from a list of ranges. @param {ByteRange[]} have @param {number} start @param {number} end */
export function without(have, start, end) {
  const left = have.flatMap(
    ([a, b]) =>
      /** @type {ByteRange[]} */ ([
        [a, Math.min(b, start)],
        [Math.max(a, end), b],
      ]),
  );
  return left.filter(([a, b]) => a < b);
}

/** Returns whether all bytes that the engine needs are stored in a copy. @param {Journal} journal */
export const isWhole = ({ have, need, total }) => have.some(([a, b]) => a === 0 && b >= (need || total));

/** Returns whether a copy is complete and not marked as wrong (`doubt`). @param {Journal} journal */
export const isComplete = (journal) => isWhole(journal) && !journal.doubt;
