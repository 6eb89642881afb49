/* source: opens a source that the client described, in the worker, and fills views of the heap with its bytes in
 * order. */
import { ModelError, reading } from '../errors.js';
import { Download } from './download.js';
import { cutter, filler, pumpOf } from './pump.js';

/** @import { SourceDescriptor } from '../protocol.js' */
/** @import { DownloadDeps } from './download.js' */
/** read: fills part of the view and returns the count, 0 at the end. download: for bytes from the network or the cache.
 * @typedef {{ download?: Download, total: number | undefined, close: (error?: ModelError) => unknown,
 *   read: (into: Uint8Array) => Promise<number> }} Source */
/** @typedef {{ size?: number, read: (into: Uint8Array) => number, close: () => void }} FileReader */
/** @typedef {{ openFile?: (path: string) => FileReader }} Files */

const SLICE = 8 << 20;

/** Opens a source. Throws `unsupported-source`, `read-error` or an error of the download.
 * @param {SourceDescriptor} descriptor @param {Files} platform
 * @param {() => Promise<Uint8Array | null>} pull asks the client for bytes
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
      return { total: descriptor.total, read: readerOf(pull), close() {} };
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
  const next = readerOf(() => download.next());
  const read = async (/** @type {Uint8Array} */ into) => (await download.read(into)) || next(into);
  return { download, total: download.total, read, close: (error) => download.close(error) };
}

/** @param {string} path @param {Files} platform @returns {Promise<Source>} */
async function openPath(path, { openFile }) {
  if (!openFile)
    throw new ModelError('unsupported-source', 'Browsers cannot open files by path. Pass a URL or a File.');
  const file = await reading(path, () => openFile(path));
  const read = (/** @type {Uint8Array} */ into) => reading(path, () => file.read(into));
  return { total: file.size, read, close: file.close };
}

/** Reads slices where streams cannot fill a given buffer (WebKit): there a file's stream has no back-pressure.
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
  const fill = filler(pumpOfBlob(blob));
  return { total: blob.size, read: (into) => reading(name, () => fill(into)), close() {} };
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
