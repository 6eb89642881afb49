/* source: where the bytes of a model come from. The client describes what was given; the worker
 * opens it as something that fills views of the heap, in order, each byte once. */
import { Download } from './download.js';
import { GemmaError, failure } from './errors.js';
import { CHUNK } from './protocol.js';
import { cutter, filler, pumpOf } from './pump.js';

/** @import { Surroundings } from './download.js' */
/** @import { Platform } from './engine.js' */
/** @import { SourceDescriptor } from './protocol.js' */
/** @typedef {AsyncIterator<unknown> | Iterator<unknown>} ByteIterator */
/** In the worker. read: fills part of the view and gives the count; 0 is the end. download: where the bytes come
 * from the network or the cache.
 * @typedef {{ download?: Download, total: number | undefined, close: (error?: GemmaError) => unknown,
 *   read: (into: Uint8Array) => Promise<number> }} Source */
/** bytes: for the client to feed. @typedef {{ descriptor: SourceDescriptor, bytes?: ByteIterator }} Part */

const HUB = 'https://huggingface.co';
const SPLIT = /^(.*-)(\d{5})-of-(\d{5})(\.gguf(?:[?#].*)?)$/is;

// The client's side

/** The parts of a model: one, unless it is split. @param {any} source see loadModel
 * @param {(text: string) => SourceDescriptor} describeString @returns {Part[]} */
export function describeSource(source, describeString) {
  const given = Array.isArray(source) ? source : [source];
  const parts = given.map((one) => describePart(one, describeString));
  if (parts.length === 1) return allParts(parts[0]);
  const names = parts.map(({ descriptor }) => SPLIT.exec(nameOf(descriptor)));
  // Files that were chosen together come in any order.
  if (names.every(Boolean)) parts.sort((a, b) => (nameOf(a.descriptor) < nameOf(b.descriptor) ? -1 : 1));
  if (parts.length) return parts;
  throw new GemmaError('unsupported-source', 'model source', { expected: 'at least one file', got: 'an empty list' });
}

/** The name of the first part stands for all. @param {Part} part @returns {Part[]} */
function allParts(part) {
  const { descriptor } = part;
  const name = 'blob' in descriptor ? '' : nameOf(descriptor);
  const [, head, number, count, tail] = SPLIT.exec(name) ?? [];
  if (Number(number) !== 1) return [part];
  return Array.from({ length: Number(count) }, (_, i) => {
    const text = `${head}${String(i + 1).padStart(5, '0')}-of-${count}${tail}`;
    return { descriptor: 'url' in descriptor ? { ...descriptor, url: text } : { kind: 'path', path: text } };
  });
}

/** @param {any} descriptor @returns {string} */
const nameOf = ({ url, path, blob }) => url ?? path ?? blob?.name ?? '';

/** @param {any} source @param {(text: string) => SourceDescriptor} describeString @returns {Part} */
function describePart(source, describeString) {
  if (source instanceof URL) return describePart(source.href, describeString);
  if (typeof source === 'string') return { descriptor: describeText(source, describeString) };
  if (typeof Blob !== 'undefined' && source instanceof Blob) {
    if (cloneable(source)) return { descriptor: { kind: 'blob', blob: source } };
    return { descriptor: { kind: 'pull', total: source.size }, bytes: iteratorOf(source.stream()) };
  }
  const whole = asBytes(source);
  if (whole) return { descriptor: { kind: 'pull', total: whole.length }, bytes: [whole].values() };
  if (source && typeof source.repo === 'string') return { descriptor: hubFile(source) };
  const bytes = iteratorOf(source);
  if (bytes) return { descriptor: { kind: 'pull' }, bytes };
  throw new GemmaError('unsupported-source', 'model source', {
    expected: 'a URL, Blob, bytes, a ReadableStream or iterable of bytes, or { repo, file, revision }',
    got: source?.constructor?.name ?? String(source),
  });
}

/** Errors do not echo the text: URLs may hold secrets.
 * @param {string} text @param {(text: string) => SourceDescriptor} describe */
function describeText(text, describe) {
  try {
    const descriptor = describe(text);
    const { username, password } = new URL(descriptor.kind === 'url' ? descriptor.url : 'file:/');
    if (text && !username && !password) return descriptor;
  } catch { /* Refused as well. */ }
  throw new GemmaError('unsupported-source', 'model source',
    { expected: 'a path or URL, without a password' });
}

/** Node does not pass Blobs of files between threads. @param {Blob} blob */
function cloneable(blob) {
  try {
    structuredClone(blob);
    return true;
  } catch {
    return false;
  }
}

/** @param {{ repo: string, file: string, revision?: string }} source @returns {SourceDescriptor} */
function hubFile({ repo, file, revision = 'main' }) {
  if (typeof file !== 'string' || !/^[^/\s]+\/[^/\s]+$/.test(repo) || !file) {
    throw new GemmaError('unsupported-source', 'Hugging Face source',
      { expected: '{ repo: "owner/name", file: "path.gguf" }', got: JSON.stringify({ repo, file }) });
  }
  /** @param {string} path */
  const escape = (path) => path.split('/').map(encodeURIComponent).join('/');
  const url = `${HUB}/${escape(repo)}/resolve/${encodeURIComponent(revision)}/${escape(file)}`;
  return { kind: 'url', url };
}

/** @param {any} value @returns {Uint8Array | null} */
function asBytes(value) {
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
}

/** @param {any} source @returns {ByteIterator | undefined} */
function iteratorOf(source) {
  if (source?.getReader) return streamIterator(source);
  return (source?.[Symbol.asyncIterator] ?? source?.[Symbol.iterator])?.call(source);
}

/** @param {ReadableStream} stream @returns {ByteIterator} */
function streamIterator(stream) {
  const reader = stream.getReader();
  return {
    next: () => /** @type {Promise<any>} */ (reader.read()),
    return: async () => {
      const cancelled = reader.cancel();
      reader.releaseLock();
      await cancelled;
      return { done: true, value: undefined };
    },
  };
}

/** Pieces of what an iterator yields, copied: the giver keeps its buffers. */
export class ChunkFeeder {
  #iterator;
  #take;

  /** @param {ByteIterator} iterator */
  constructor(iterator) {
    this.#iterator = iterator;
    this.#take = cutter(async () => {
      const { done, value } = await iterator.next();
      const bytes = done ? null : asBytes(value);
      if (done || bytes) return bytes;
      throw new GemmaError('read-error', 'the model stream',
        { expected: 'bytes', got: value?.constructor?.name ?? typeof value });
    });
  }

  async next() {
    const piece = await this.#take(CHUNK);
    return piece.length ? piece.slice() : null;
  }

  async close() {
    try {
      await this.#iterator.return?.();
    } catch { /* The giver's clean-up is its own affair. */ }
  }
}

// The worker's side

/** @param {SourceDescriptor} descriptor @param {Platform} platform
 * @param {() => Promise<Uint8Array | null>} pull asks the client for bytes
 * @param {Surroundings} surroundings @returns {Promise<Source>} */
export async function openSource(descriptor, platform, pull, surroundings) {
  switch (descriptor.kind) {
    case 'url': return openUrl(new Download(descriptor, surroundings));
    case 'blob': return openBlob(descriptor.blob);
    case 'path': return openPath(descriptor.path, platform);
    case 'pull': return { total: descriptor.total, read: readerOf(pull), close() {} };
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
  const read = readerOf(() => download.next());
  return { download, total: download.total, read, close: (error) => download.close(error) };
}

/** @param {string} path @param {Platform} platform @returns {Promise<Source>} */
async function openPath(path, { openFile }) {
  if (!openFile) throw new GemmaError('unsupported-source', 'no files by path here');
  const file = await reading(path, () => openFile(path));
  const read = (/** @type {Uint8Array} */ into) => reading(path, () => file.read(into));
  return { total: file.size, read, close: file.close };
}

/** @param {Blob} blob @returns {Source} */
function openBlob(blob) {
  const name = 'name' in blob ? String(blob.name) : 'Blob';
  const fill = filler(pumpOf(blob.stream()));
  return { total: blob.size, read: (into) => reading(name, () => fill(into)), close() {} };
}

/** What f gives; its failure as a `read-error`.
 * @template T @param {string} name @param {() => Promise<T> | T} f @returns {Promise<T>} */
export async function reading(name, f) {
  try {
    return await f();
  } catch (cause) {
    throw failure('read-error', `${name} could not be read`, cause, 'bytes');
  }
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
