/* segments: the format of a search index's files. Each change is a file that is written atomically and never modified:
 * "GWV2", the length of a JSON text, a checksum of two words (over the file's name and the file, with zeros in place of
 * the checksum), the text, spaces up to a multiple of four bytes, then the vectors as little-endian float32. The file's
 * name contains its stamp, a logical timestamp: a number greater than those of all files in the folder, then the id of
 * the writer. */
import { checksum } from '../download/checksum.js';
import { corruptFile, noNumbersLeft, notFinite, otherDimensions, wrongSize } from './errors.js';

/** A version vector: for each writer, the highest number of its files that were read.
 * @typedef {Record<string, number>} Seen */
/** An item without its vector.
 * @typedef {object} Entry
 * @property {string} id Id of the item.
 * @property {any} [data] Data of the item.
 */
/** Contents of a file. entries: one for each vector; deleted: ids of deleted items; stamps: for each entry, the stamp
 * of the file that it came from; seen: the files that the writer had read. Only a merged file has `stamps`, and it
 * replaces all files in `seen`. A file with `deleted` deletes items only from files in `seen`.
 * @typedef {{ dimensions: number, entries: Entry[], deleted: string[], stamps?: string[], seen?: Seen }} About
 * @typedef {{ about: About, vectors: Float32Array }} Segment */
/** The storage of a search index. read: returns null if the file was removed or is not completely written.
 * @typedef {{ list: () => Promise<string[]>, read: (name: string) => Promise<ArrayBuffer | null>,
 *   write: (name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
 *   remove: (name: string) => Promise<void> }} Folder */

const MAGIC = 0x32565747;
const HEAD = 16;
const CHECKSUM = 8;
/** Largest number of a file, because names have eight digits. */
const LAST_NUMBER = 99_999_999;
const NAME = /^(\d{8}-[0-9a-f]{8})\.vectors$/;
const STAMP = /^\d{8}-[0-9a-f]{8}$/;

/** Returns whether a file belongs to a search index, by its name. @param {string} name */
export const isSegment = (name) => NAME.test(name);

/** Returns the stamp (`NUMBER-WRITER`) in a file's name, or '' if the name has none. @param {string} name */
export const stampOf = (name) => NAME.exec(name)?.[1] ?? '';

/** @param {string} name */
const numberOf = (name) => Number(stampOf(name).split('-')[0]);

/** Returns the name of the next file. Throws `index-failed` if there are no numbers left.
 * @param {string[]} names of the existing files @param {string} writer */
export function nextName(names, writer) {
  const last = names.filter(isSegment).sort().at(-1);
  const number = last ? numberOf(last) + 1 : 1;
  if (last && number > LAST_NUMBER) throw noNumbersLeft(last);
  return `${String(number).padStart(8, '0')}-${writer}.vectors`;
}

/** Returns a random id for a writer, because several writers may share a folder. */
export function newWriter() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(4))];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns the bytes of a file of a search index, with its checksum.
 * @param {About} about @param {Float32Array} vectors @param {string} name of the file */
export function pack(about, vectors, name) {
  const text = new TextEncoder().encode(JSON.stringify(about));
  const at = HEAD + Math.ceil(text.length / 4) * 4;
  const bytes = new Uint8Array(at + vectors.byteLength).fill(32);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, text.length, true);
  bytes.set(text, HEAD);
  bytes.set(new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength), at);
  sign(bytes, name).forEach((word, i) => view.setUint32(CHECKSUM + 4 * i, word, true));
  return bytes;
}

/** Returns the checksum of a file, computed with zeros in place of the checksum. @param {Uint8Array} bytes
 * @param {string} name of the file */
function sign(bytes, name) {
  const words = new TextEncoder().encode(name);
  const all = new Uint8Array(words.length + bytes.length);
  all.set(words);
  all.set(bytes, words.length);
  all.fill(0, words.length + CHECKSUM, words.length + HEAD);
  return checksum(all);
}

/** Parses a file of a search index. Throws `index-failed` with the file's name if any bit was changed.
 * @param {ArrayBuffer} buffer @param {string} name @param {number} dimensions @returns {Segment} */
function unpack(buffer, name, dimensions) {
  const view = new DataView(buffer);
  const { byteLength } = buffer;
  const [a, b] = byteLength < HEAD ? [] : sign(new Uint8Array(buffer), name);
  const word = (/** @type {number} */ i) => view.getUint32(CHECKSUM + 4 * i, true);
  const isWhole = byteLength >= HEAD && a === word(0) && b === word(1);
  const about = isWhole ? headOf(buffer) : null;
  if (!about) throw corruptFile(name);
  if (about.dimensions !== dimensions) throw otherDimensions(name, dimensions, about.dimensions);
  const count = about.entries.length * dimensions;
  const bytes = count * 4;
  if (about.at + bytes !== byteLength) throw wrongSize(name, about.at + bytes, byteLength);
  const vectors = new Float32Array(buffer, about.at, count);
  if (!vectors.every(Number.isFinite)) throw notFinite(name);
  return { about, vectors };
}

/** Returns the files of a folder by name, in the order of their names. Lists the folder again until nothing changes,
 * because other writers may be active. If the writer of a file in the result had read another file, that file is in the
 * result, too, or was replaced.
 * @param {Folder} folder @param {number} dimensions */
export async function readAll(folder, dimensions) {
  /** @type {Map<string, Segment & { stamp: string }>} */
  const found = new Map();
  for (let news = true, before = ''; news; ) {
    const names = (await folder.list()).filter(isSegment).sort();
    const listed = names.join();
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

/** Returns the contents of a file without its vectors, and as `at` the offset of the vectors in bytes; null if the file
 * is not valid.
 * @param {ArrayBuffer} buffer @returns {About & { at: number } | null} */
function headOf(buffer) {
  const view = new DataView(buffer);
  const length = view.getUint32(4, true);
  const at = HEAD + Math.ceil(length / 4) * 4;
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
