/* describe: turns the source that a caller passed into descriptors that can be posted to the worker. */
import { isA } from '../errors.js';
import { badAddress, noFiles, notASource } from './errors.js';
import { hubAddress, onHub } from './hub.js';

/** @import { SourceDescriptor } from '../protocol.js' */
/** @typedef {AsyncIterator<unknown> | Iterator<unknown>} ByteIterator */
/** One file of a model. bytes: iterator over its bytes, if the client has them and sends them on request (feeder.js).
 * @typedef {{ descriptor: SourceDescriptor, bytes?: ByteIterator }} Part */

const SPLIT = /^(.*-)(\d{5})-of-(\d{5})(\.gguf(?:[?#].*)?)$/is;
/** Matches the part of a cached copy's name that identifies the URL (keyOf() in identity.js). */
const FILE = /^[0-9a-f]{24}(?=-)/;

/** Returns the files of a model: one, unless it is split. Throws `unsupported-source`. @param {any} source see
 * loadModel
 * @param {(text: string) => SourceDescriptor} describeString @param {string | URL} [hub] @returns {Part[]} */
export function describeSource(source, describeString, hub) {
  const given = Array.isArray(source) ? source : [source];
  const parts = given.map((one) => describePart(one, describeString, hub));
  if (parts.length === 1) return allParts(parts[0]);
  const names = parts.map(({ descriptor }) => SPLIT.exec(nameOf(descriptor)));
  // Sorts the files of a split model, because a file picker returns files in any order.
  if (names.every(Boolean)) parts.sort((a, b) => (nameOf(a.descriptor) < nameOf(b.descriptor) ? -1 : 1));
  if (parts.length) return parts;
  throw noFiles();
}

/** Returns all files of a split model if `part` is the first of them, otherwise only `part`.
 * @param {Part} part @returns {Part[]} */
function allParts(part) {
  const { descriptor } = part;
  const name = 'blob' in descriptor ? '' : nameOf(descriptor);
  const [, head, number, count, tail] = SPLIT.exec(name) ?? [];
  if (Number(number) !== 1) return [part];
  return Array.from({ length: Number(count) || 1 }, (_, i) => {
    if (i === 0) return part;
    const text = `${head}${String(i + 1).padStart(5, '0')}-of-${count}${tail}`;
    return { descriptor: 'url' in descriptor ? { kind: 'url', url: text } : { kind: 'path', path: text } };
  });
}

/** @param {any} descriptor @returns {string} */
const nameOf = ({ url, path, blob }) => url ?? path ?? blob?.name ?? '';

/** @param {any} source */
const isEntry = (source) => typeof source?.key === 'string' && typeof source.url === 'string' && source.url !== '';

/** @param {any} source @param {(text: string) => SourceDescriptor} describeString @param {string | URL} [hub]
 * @returns {Part} */
function describePart(source, describeString, hub) {
  if (isA('URL', source)) return describePart(source.href, describeString);
  if (typeof source === 'string') return { descriptor: describeText(source, describeString) };
  if (isA('Blob', source) || isA('File', source)) {
    if (cloneable(source)) return { descriptor: { kind: 'blob', blob: source } };
    return { descriptor: { kind: 'pull', total: source.size }, bytes: iteratorOf(source.stream()) };
  }
  const whole = asBytes(source);
  if (whole) return { descriptor: { kind: 'pull', total: whole.length }, bytes: [whole].values() };
  if (onHub(source)) return { descriptor: { kind: 'url', url: hubAddress(source, hub) } };
  if (isEntry(source)) return { descriptor: { kind: 'url', url: source.url, key: FILE.exec(source.key)?.[0] } };
  const bytes = iteratorOf(source);
  if (bytes) return { descriptor: { kind: 'pull' }, bytes };
  throw notASource(source?.constructor?.name ?? (source ? typeof source : String(source)));
}

/** Returns the descriptor of a path or URL. Errors do not quote the string, because it may contain secrets.
 * @param {string} text @param {(text: string) => SourceDescriptor} describe */
function describeText(text, describe) {
  try {
    const descriptor = describe(text);
    const { username, password } = new URL(descriptor.kind === 'url' ? descriptor.url : 'file:/');
    if (text && !username && !password) return descriptor;
  } catch {
    /* A text that is not a valid URL is refused like a URL with a password. */
  }
  throw badAddress();
}

/** Returns whether a Blob can be posted: Node cannot post Blobs of files. @param {Blob} blob */
function cloneable(blob) {
  try {
    structuredClone(blob);
    return true;
  } catch {
    return false;
  }
}

/** Returns the bytes of a buffer or view; null for other values. @param {any} value @returns {Uint8Array | null} */
export function asBytes(value) {
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  return isA('ArrayBuffer', value) ? new Uint8Array(value) : null;
}

/** Returns an iterator over the bytes of a stream or iterable, which does not use or lock the source before the first
 * call. @param {any} source @returns {ByteIterator | undefined} */
function iteratorOf(source) {
  if (source?.locked) source.getReader(); // throws, because the stream is locked
  const begin = source?.getReader ? streamIterator : (source?.[Symbol.asyncIterator] ?? source?.[Symbol.iterator]);
  if (!begin) return undefined;
  /** @type {any} */
  let iterator;
  const begun = () => (iterator ??= begin.call(source, source));
  return { next: () => begun().next(), return: () => begun().return?.() };
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
