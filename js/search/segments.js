/* segments: what an index keeps in files. Each change of it is a file of its own, written whole or not at all and never
 * again: "GWV1", the length of a JSON text, the text, blanks up to a multiple of four bytes, then the vectors as
 * little-endian float32. Its name is its stamp: a number, greater than those that were there, and who wrote it. */
import { GemmaError } from '../errors.js';

/** By writer, up to which number its files were read. @typedef {Record<string, number>} Seen */
/** entries: one for each vector; stamps: what files they came with, in a file in place of all that its writer had seen;
 * seen: of that, and of a file that deletes.
 * @typedef {{ id: string, data?: any }} Entry
 * @typedef {{ dimensions: number, entries: Entry[], deleted: string[], stamps?: string[], seen?: Seen }} About
 * @typedef {{ about: About, vectors: Float32Array }} Segment */
/** Where the files are. read: null: it is gone, or not whole yet.
 * @typedef {{ list: () => Promise<string[]>, read: (name: string) => Promise<ArrayBuffer | null>,
 *   write: (name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
 *   remove: (name: string) => Promise<void> }} Folder */

const MAGIC = 0x31565747,
  HEAD = 8;
const NAME = /^(\d{8}-[0-9a-f]{8})\.vectors$/,
  STAMP = /^\d{8}-[0-9a-f]{8}$/;

/** @param {string} name */
export const isSegment = (name) => NAME.test(name);

/** @param {string} name */
export const stampOf = (name) => NAME.exec(name)?.[1] ?? '';

/** @param {string} name */
export const numberOf = (name) => Number(stampOf(name).split('-')[0]);

/** @param {number} number @param {string} writer */
export const segmentName = (number, writer) => `${String(number).padStart(8, '0')}-${writer}.vectors`;

/** Others may write to the folder too. */
export function newWriter() {
  const [bits] = crypto.getRandomValues(new Uint32Array(1));
  return bits.toString(16).padStart(8, '0');
}

/** @param {About} about @param {Float32Array} vectors */
export function pack(about, vectors) {
  const text = new TextEncoder().encode(JSON.stringify(about)),
    at = HEAD + Math.ceil(text.length / 4) * 4;
  const bytes = new Uint8Array(at + vectors.byteLength).fill(32),
    view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, text.length, true);
  bytes.set(text, HEAD);
  bytes.set(new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength), at);
  return bytes;
}

/** @param {ArrayBuffer} buffer @param {string} name @param {number} dimensions @returns {Segment} */
export function unpack(buffer, name, dimensions) {
  const about = headOf(buffer);
  if (!about) throw new GemmaError('index-failed', name, { expected: 'a file of a search index', got: 'another one' });
  if (about.dimensions !== dimensions) {
    throw new GemmaError('index-failed', `${name}: dimensions`, { expected: dimensions, got: about.dimensions });
  }
  const count = about.entries.length * dimensions,
    bytes = count * 4;
  if (about.at + bytes !== buffer.byteLength) {
    throw new GemmaError('index-failed', name, { expected: `${about.at + bytes} bytes`, got: buffer.byteLength });
  }
  return { about, vectors: new Float32Array(buffer, about.at, count) };
}

/** All files of a folder, by their names and in the order of these. They may change meanwhile: it is read until nothing
 * is new, so that there is none without those that its writer had written, or read, before it.
 * @param {Folder} folder @param {number} dimensions */
export async function readAll(folder, dimensions) {
  /** @type {Map<string, Segment & { stamp: string }>} */
  const found = new Map();
  for (let news = true, before = ''; news; ) {
    const names = (await folder.list()).filter(isSegment).sort(),
      listed = names.join();
    news = listed !== before;
    before = listed;
    for (const name of names.filter((one) => !found.has(one))) {
      const bytes = await folder.read(name);
      if (!bytes) continue;
      found.set(name, { stamp: stampOf(name), ...unpack(bytes, name, dimensions) });
      news = true;
    }
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** null: it is no such file. @param {ArrayBuffer} buffer @returns {About & { at: number } | null} */
function headOf(buffer) {
  if (buffer.byteLength < HEAD) return null;
  const view = new DataView(buffer),
    length = view.getUint32(4, true),
    at = HEAD + Math.ceil(length / 4) * 4;
  if (view.getUint32(0, true) !== MAGIC || at > buffer.byteLength) return null;
  try {
    const about = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, HEAD, length)));
    return isAbout(about) ? { ...about, at } : null;
  } catch {
    return null;
  }
}

/** @param {any} about */
function isAbout({ dimensions, entries, deleted, stamps, seen = {} }) {
  const strings = Array.isArray(deleted) && deleted.every((id) => typeof id === 'string');
  const fits = Array.isArray(entries) && entries.every((entry) => typeof entry?.id === 'string');
  const stamped =
    stamps === undefined ||
    (Array.isArray(stamps) && stamps.length === entries.length && stamps.every((stamp) => STAMP.test(stamp)));
  return Number.isInteger(dimensions) && strings && fits && stamped && Object.values(seen).every(Number.isInteger);
}
