/* segments: what an index keeps in files. Each change of it is a file of its own, written whole or not at all, and read
 * in the order of their names: "GWV1", the length of a JSON text, the text, blanks up to a multiple of four bytes, then
 * the vectors as little-endian float32. */
import { GemmaError } from '../errors.js';

/** first: files before this one count no more; entries: one for each vector.
 * @typedef {{ id: string, data?: any }} Entry
 * @typedef {{ dimensions: number, first: boolean, entries: Entry[], deleted: string[] }} About
 * @typedef {{ about: About, vectors: Float32Array }} Segment */
/** Where the files are. @typedef {{ list: () => Promise<string[]>, read: (name: string) => Promise<ArrayBuffer>,
 *   write: (name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>,
 *   remove: (name: string) => Promise<void> }} Folder */

const MAGIC = 0x31565747, HEAD = 8;
/** A name and its number. */
const NAME = /^(\d{8})-[0-9a-f]{8}\.vectors$/;

/** @param {string} name */
export const isSegment = (name) => NAME.test(name);

/** @param {number} number */
export function segmentName(number) {
  const [tail] = crypto.getRandomValues(new Uint32Array(1));   // others may write to the folder too
  return `${String(number).padStart(8, '0')}-${tail.toString(16).padStart(8, '0')}.vectors`;
}

/** @param {string} name */
export const numberOf = (name) => Number(NAME.exec(name)?.[1] ?? 0);

/** @param {About} about @param {Float32Array} vectors */
export function pack(about, vectors) {
  const text = new TextEncoder().encode(JSON.stringify(about)), at = HEAD + Math.ceil(text.length / 4) * 4;
  const bytes = new Uint8Array(at + vectors.byteLength).fill(32), view = new DataView(bytes.buffer);
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
  const count = about.entries.length * dimensions, bytes = count * 4;
  if (about.at + bytes !== buffer.byteLength) {
    throw new GemmaError('index-failed', name, { expected: `${about.at + bytes} bytes`, got: buffer.byteLength });
  }
  return { about, vectors: new Float32Array(buffer, about.at, count) };
}

/** null: it is no such file. @param {ArrayBuffer} buffer @returns {About & { at: number } | null} */
function headOf(buffer) {
  if (buffer.byteLength < HEAD) return null;
  const view = new DataView(buffer), length = view.getUint32(4, true), at = HEAD + Math.ceil(length / 4) * 4;
  if (view.getUint32(0, true) !== MAGIC || at > buffer.byteLength) return null;
  try {
    const about = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, HEAD, length)));
    const { dimensions, entries, deleted } = about;
    const strings = Array.isArray(deleted) && deleted.every((id) => typeof id === 'string');
    const fits = Array.isArray(entries) && entries.every((entry) => typeof entry?.id === 'string');
    return Number.isInteger(dimensions) && strings && fits ? { ...about, at } : null;
  } catch {
    return null;
  }
}
