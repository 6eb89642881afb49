/* source: where the bytes of a model come from. The client describes what was given; the worker
 * opens it as something that fills views of the heap, in order, each byte once. */
import { GemmaError, failure } from './errors.js';
import { CHUNK } from './protocol.js';

/** @import { Platform } from './engine.js' */
/** @import { SourceDescriptor } from './protocol.js' */
/** @typedef {AsyncIterator<unknown> | Iterator<unknown>} ByteIterator */
/** In the worker. read: fills part of the view and gives the count; 0 is the end.
 * @typedef {{ network?: boolean, total: number | undefined, close: () => void,
 *   read: (into: Uint8Array) => Promise<number> }} Source */

const HUB = 'https://huggingface.co';

// The client's side

/** @param {any} source see loadModel @param {(text: string) => SourceDescriptor} describeString
 * @returns {{ descriptor: SourceDescriptor, bytes?: ByteIterator }} bytes: for the client to feed */
export function describeSource(source, describeString) {
  if (source instanceof URL) return describeSource(source.href, describeString);
  if (typeof source === 'string') return { descriptor: describeText(source, describeString) };
  if (typeof Blob !== 'undefined' && source instanceof Blob) {
    if (cloneable(source)) return { descriptor: { kind: 'blob', blob: source } };
    return { descriptor: { kind: 'pull', total: source.size }, bytes: iteratorOf(source.stream()) };
  }
  if (Array.isArray(source)) return describeSource(onlyPart(source), describeString);
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
    if (!username && !password) return descriptor;
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

/** @param {any[]} parts */
function onlyPart(parts) {
  if (parts.length === 1) return parts[0];
  throw new GemmaError('unsupported-source', 'split files come in a later version',
    { expected: 'an array of one source', got: parts.length });
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
  /** @type {Uint8Array} */
  #rest = new Uint8Array(0);

  /** @param {ByteIterator} iterator */
  constructor(iterator) {
    this.#iterator = iterator;
  }

  /** @returns {Promise<Uint8Array | null>} */
  async next() {
    while (!this.#rest.length) {
      const { done, value } = await this.#iterator.next();
      if (done) return null;
      const bytes = asBytes(value);
      if (!bytes) {
        throw new GemmaError('read-error', 'the model stream',
          { expected: 'bytes', got: value?.constructor?.name ?? typeof value });
      }
      this.#rest = bytes;
    }
    const piece = new Uint8Array(Math.min(CHUNK, this.#rest.length));
    piece.set(this.#rest.subarray(0, piece.length));
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async close() {
    try {
      await this.#iterator.return?.();
    } catch { /* The giver's clean-up is its own affair. */ }
  }
}

// The worker's side

/** @param {SourceDescriptor} descriptor @param {Platform} platform
 * @param {() => Promise<Uint8Array | null>} pull asks the client for bytes @returns {Promise<Source>} */
export async function openSource(descriptor, platform, pull) {
  switch (descriptor.kind) {
    case 'url': return openUrl(descriptor);
    case 'blob': return openBlob(descriptor.blob);
    case 'path': return openPath(descriptor.path, platform);
    case 'pull': return { total: descriptor.total, read: readerOf(pull), close() {} };
  }
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
  let at = 0;
  const name = 'name' in blob ? String(blob.name) : 'Blob';
  return {
    total: blob.size,
    async read(into) {
      const part = blob.slice(at, Math.min(at + into.length, blob.size));
      into.set(new Uint8Array(await reading(name, () => part.arrayBuffer())));
      at += part.size;
      return part.size;
    },
    close() {},
  };
}

/** What f gives; its failure as a `read-error`.
 * @template T @param {string} name @param {() => Promise<T> | T} f @returns {Promise<T>} */
export async function reading(name, f) {
  try {
    return await f();
  } catch (cause) {
    throw failure('read-error', `${name} could not be read`, cause);
  }
}

/** @param {Extract<SourceDescriptor, { kind: 'url' }>} descriptor @returns {Promise<Source>} */
async function openUrl({ url, headers }) {
  // The query may hold secrets.
  const [plain, query] = url.split(/[?#](.*)/s);
  const shown = plain.slice(0, 200);
  const abort = new AbortController();
  const response = await fetch(url, { headers, signal: abort.signal }).catch((error) => {
    // Node hides the reason one level deeper.
    const cause = error.cause ?? error;
    const tells = [url, query].some((secret) => secret && String(cause).includes(secret));
    throw new GemmaError('network-error', `${shown} could not be reached, or allows no cross-origin `
      + 'reading', { cause: tells ? undefined : cause });
  });
  if (!response.ok || !response.body) {
    abort.abort();
    throw httpError(response, shown);
  }
  const total = bodyLength(response);
  const pump = pumpOf(response.body);
  let got = 0;
  const next = async () => {
    try {
      const bytes = await pump();
      got += bytes?.length ?? 0;
      return bytes;
    } catch (cause) {
      throw new GemmaError('truncated', `the connection to ${shown} ended early`,
        { expected: `${total ?? 'more'} bytes`, got: `${got} bytes`, cause });
    }
  };
  return { network: true, total, read: readerOf(next), close: () => abort.abort() };
}

/** Reads into one buffer again and again, if it can: chunks that wait for the garbage collector
 * would be most of the memory peak.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
function pumpOf(body) {
  let buffer = new ArrayBuffer(CHUNK);
  /** @type {(result: any) => Uint8Array | null} */
  const taken = ({ done, value }) => {
    if (value) buffer = value.buffer;
    return done ? null : value;
  };
  try {
    const reader = body.getReader({ mode: 'byob' });
    return async () => taken(await reader.read(new Uint8Array(buffer)));
  } catch {
    const reader = body.getReader();
    return async () => taken(await reader.read());
  }
}

/** Content-Length, unless it counts compressed bytes. @param {Response} response */
function bodyLength({ headers }) {
  const length = Number(headers.get('content-length') ?? NaN);
  return headers.get('content-encoding') || !(length > 0) ? undefined : length;
}

/** @param {Response} response @param {string} shown */
function httpError({ status, statusText }, shown) {
  const token = 'pass an access token in `headers`';
  /** @type {Record<number, string>} */
  const words = {
    401: `private, gated, or not there: ${token}`,
    403: `not allowed: accept the licence of a gated model, ${token}`,
    404: 'nothing is there',
  };
  const why = words[status] ?? (status >= 500 ? 'the server failed; try again later' : statusText);
  return new GemmaError('http-error', `${shown}: ${why}`,
    { expected: 'status 200', got: `status ${status}` });
}

/** Never holds more than one chunk. @param {() => Promise<Uint8Array | null>} next */
function readerOf(next) {
  /** @type {Uint8Array} */
  let chunk = new Uint8Array(0);
  return async (/** @type {Uint8Array} */ into) => {
    while (!chunk.length) {
      const more = await next();
      if (more === null) return 0;
      chunk = more;
    }
    const n = Math.min(chunk.length, into.length);
    into.set(chunk.subarray(0, n));
    chunk = chunk.subarray(n);
    return n;
  };
}
