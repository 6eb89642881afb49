/* source: runs in the worker. Opens a source that the client described, and copies its bytes in order into the heap. */
import { reading } from '../errors.js';
import { Download } from './download.js';
import { noPaths } from './errors.js';
import { cutter, filler, pumpOf } from './pump.js';

/** @import { ModelError } from '../errors.js' */
/** @import { SourceDescriptor } from '../protocol.js' */
/** @import { DownloadDeps } from './download.js' */
/** An open temporary file, which is removed when it is closed. read, write: return the number of bytes.
 * @typedef {{ read: (into: Uint8Array, at: number) => number, write: (bytes: Uint8Array, at: number) => number,
 *   close: () => unknown }} TemporaryFile */
/** An open source. read: fills part of a view and returns the number of bytes, 0 at the end; at: number of bytes read
 * so far, updated by the caller; skip: skips bytes and returns the offset where reading continues; seekable: whether
 * bytes at any offset can be read after the load; head: the bytes of the latest read of the header, if the source
 * cannot be read again; spill: a temporary copy of its embedding tables; download, blob, file: the underlying download
 * (network or cache), Blob, or file.
 * @typedef {{ download?: Download, blob?: Blob, file?: FileReader, spill?: any, head?: Uint8Array, name?: string, total: number | undefined, at: number,
 *   close: (error?: ModelError) => unknown, read: (into: Uint8Array) => Promise<number>,
 *   skip: (at: number, to: number) => number, seekable: () => boolean }} Source */
/** An open file. read: reads at an offset, or where the previous read ended; size: missing for a pipe; unchanged:
 * returns whether the file has the size and the time of change that it had when it was opened.
 * @typedef {{ size?: number, read: (into: Uint8Array, at?: number | null) => number, close: () => void,
 *   unchanged?: () => boolean }} FileReader */
/** @typedef {{ openFile?: (path: string) => FileReader }} Files */

const SLICE = 8 << 20;

/** Opens a source. Throws `unsupported-source`, `read-error` or an error of the download.
 * @param {SourceDescriptor} descriptor @param {Files} platform
 * @param {() => Promise<Uint8Array | null>} pull requests bytes from the client
 * @param {DownloadDeps} deps @returns {Promise<Source>} */
export async function openSource(descriptor, platform, pull, deps) {
  switch (descriptor.kind) {
    case 'url':
      return openUrl(new Download(descriptor, deps));
    case 'blob':
      return openBlob(descriptor.blob);
    case 'path':
      return openPath(descriptor.path, platform);
    case 'pull':
      return {
        total: descriptor.total,
        at: 0,
        read: readerOf(pull),
        skip: (at) => at,
        seekable: () => false,
        close() {},
      };
  }
}

/** @param {Download} download @returns {Promise<Source>} */
async function openUrl(download) {
  try {
    await download.open();
  } catch (error) {
    await download.close();
    throw error;
  }
  const next = async (/** @type {Uint8Array} */ into) => {
    const piece = (await download.next(into.length)) ?? new Uint8Array();
    into.set(piece);
    return piece.length;
  };
  const read = async (/** @type {Uint8Array} */ into) => (await download.read(into)) || next(into);
  return {
    download,
    total: download.total,
    at: 0,
    read,
    skip: (at, to) => download.skip(at, to),
    seekable: () => download.seekable,
    close: (error) => download.close(error),
  };
}

/** @param {string} path @param {Files} platform @returns {Promise<Source>} */
async function openPath(path, { openFile }) {
  if (!openFile) throw noPaths();
  const file = await reading(path, () => openFile(path));
  const seekable = file.size !== undefined;
  let next = 0;
  const read = async (/** @type {Uint8Array} */ into) => {
    const count = await reading(path, () => file.read(into, seekable ? next : null));
    next += count;
    return count;
  };
  const skip = (/** @type {number} */ at, /** @type {number} */ to) => {
    if (seekable) next = to;
    return seekable ? to : at;
  };
  return { file, name: path, total: file.size, at: 0, read, skip, seekable: () => seekable, close: file.close };
}

/** Returns a function that reads the next chunk of a Blob. Reads slices where streams cannot fill a given buffer
 * (WebKit), because there a Blob's stream has no back-pressure.
 * @param {Blob} blob */
function pumpOfBlob(blob) {
  if ('ReadableStreamBYOBReader' in globalThis) return pumpOf(blob.stream());
  let at = 0;
  let pump = pumpOf(new Blob([]).stream());
  return async () => {
    for (;;) {
      const piece = await pump();
      if (piece || at >= blob.size) return piece;
      pump = pumpOf(blob.slice(at, (at += SLICE)).stream());
    }
  };
}

/** @param {Blob} blob @returns {Source} */
function openBlob(blob) {
  const name = 'name' in blob ? String(blob.name) : 'Blob';
  let fill = filler(pumpOfBlob(blob));
  const skip = (/** @type {number} */ _, /** @type {number} */ to) => {
    fill = filler(pumpOfBlob(blob.slice(to)));
    return to;
  };
  const read = (/** @type {Uint8Array} */ into) => reading(name, () => fill(into));
  return { blob, name, total: blob.size, at: 0, read, skip, seekable: () => true, close() {} };
}

/** @param {() => Promise<Uint8Array | null>} next */
function readerOf(next) {
  const take = cutter(next);
  return async (/** @type {Uint8Array} */ into) => {
    const piece = await take(into.length);
    into.set(piece);
    return piece.length;
  };
}
