/* errors: the errors of sources, downloads and the cache. Errors that are not ModelErrors become the cause of one, or a
 * part of the notice that the model is not cached. `shown`: the file's URL without secrets. */
import { ModelError, failure, show } from '../errors.js';

/** An error that a retry may fix. after: ms to wait, if the server named a time; stalled: start of the stall that
 * caused the error, otherwise 0. */
export class TransientError extends ModelError {
  after = 0;
  stalled = 0;
}

// Errors of sources that a caller passes

export const noFiles = () =>
  new ModelError('unsupported-source', 'The list of model files is empty. Pass at least one file.');

/** @param {string} got */
export const notASource = (got) =>
  new ModelError(
    'unsupported-source',
    'The source of a model must be a URL, a Blob, bytes, a ReadableStream or iterable of bytes,' +
      ` { repo, file, revision } or { repo, quant } (got ${got}).`,
    { got },
  );

/** The message does not quote the address, which may contain secrets. */
export const badAddress = () =>
  new ModelError(
    'unsupported-source',
    'The source of a model must be a valid path or URL, without a user name or password. Pass secrets as `token` or `headers`.',
  );

export const noPaths = () =>
  new ModelError('unsupported-source', 'Browsers cannot open files by path. Pass a URL or a File.');

/** @param {string} got */
export const badHubSource = (got) =>
  new ModelError(
    'unsupported-source',
    `A source on Hugging Face must be { repo: "owner/name", file: "path.gguf" } or { repo, quant } (got ${got}).`,
    { got },
  );

// Errors of the connection

/** @param {string} shown @param {string} why @param {unknown} [cause] */
export const unreachable = (shown, why, cause) =>
  new TransientError(
    'network-error',
    `${shown} could not be reached, or CORS does not allow this page to read it${tail(why)}`,
    { got: why, cause },
  );

/** @param {string} shown @param {number} at offset of the next byte @param {number} [total] @param {string} [why]
 * @param {unknown} [cause] */
export const endedEarly = (shown, at, total, why = '', cause) =>
  new TransientError(
    'truncated',
    `The connection to ${shown} ended early, after ${at}${total ? ` of ${total}` : ''} bytes${tail(why)}`,
    { expected: `${total ?? 'more'} bytes`, got: `${at} bytes`, cause },
  );

/** @param {string} why */
const tail = (why) => `${why && ` (${why})`}. Check the connection and load it again.`;

/** Reason for unreachable() or endedEarly(): no data for `ms` milliseconds. @param {number} ms */
export const noData = (ms) => new Error(`no data arrived for ${ms} ms`);

/** @type {Record<number, string>} */
const STATUS = {
  401: 'The file is private, gated or missing. Pass an access token as `token`.',
  403: 'Access is not allowed. Accept the licence of a gated model, and pass an access token as `token`.',
  404: 'The file does not exist. Check the URL.',
  416: 'The file has changed. Load it again.',
  429: 'The server limits requests. Try again later.',
};

/** The error for a response without the file. @param {string} shown @param {Response} response
 * @param {number} after ms until another request is allowed @param {boolean} passes whether a retry may fix it */
export function refused(shown, { status, statusText }, after, passes) {
  const why = STATUS[status] ?? (status >= 500 ? 'The server failed. Try again later.' : 'Check the URL.');
  const wait = after > 0 ? ` Another request is allowed in ${Math.ceil(after / 1000)} s.` : '';
  const got = `status ${status}`;
  const code = status === 416 ? 'source-changed' : 'http-error';
  const message = `${shown} answered ${got}${statusText && ` (${statusText})`}. ${why}${wait}`;
  return new (passes ? TransientError : ModelError)(code, message, { got });
}

/** @param {string} shown @param {number} [total] */
export const cannotResume = (shown, total) =>
  new ModelError(
    'truncated',
    `The connection to ${shown} ended early and cannot be resumed, because the server sends no version (ETag` +
      ' or Last-Modified) of the file. Load it again.',
    { expected: `${total ?? 'more'} bytes` },
  );

/** @param {string} shown @param {string} expected version @param {string} got */
export const fileChanged = (shown, expected, got) =>
  new ModelError('source-changed', `${shown} changed while it was read. Load it again.`, { expected, got });

/** @param {string} shown */
export const bytesChanged = (shown) =>
  new ModelError('source-changed', `${shown} no longer has the bytes that were cached. Load it again.`);

/** @param {string} shown */
export const noRanges = (shown) =>
  new ModelError(
    'cache-failed',
    `${shown} is partly cached, and the server does not support range requests. Load it again.`,
  );

export const downloadAborted = () => new ModelError('aborted', 'The download was aborted.');

// Errors of the cached copy of a file

/** @param {string} shown @param {string} got @param {string} expected */
export const wrongDigest = (shown, got, expected) =>
  new ModelError(
    'sha256-mismatch',
    `The cached copy of ${shown} has the SHA-256 ${got}, not ${expected}. Check \`sha256\`.`,
    { expected, got },
  );

/** @param {string} shown @param {string} lost describes the corrupt piece
 * @param {unknown} [cause] why the piece could not be downloaded again */
export function corrupt(shown, lost, cause) {
  const why = cause
    ? `, and could not be fetched again: ${/** @type {Error} */ (cause).message}`
    : '. Load it again when the server can be reached.';
  return new ModelError('cache-corrupt', `The cached copy of ${shown} is corrupt at ${lost}${why}`, { cause });
}

/** @param {string} got the URL without its query */
export const notWhole = (got) =>
  new ModelError(
    'unsupported-source',
    `${got} is not completely cached, and the query of its URL was not stored. Load it by its full URL.`,
    { expected: 'its whole URL', got },
  );

/** @param {number} [total] size of the file, if the server sends it */
export const noVersion = (total) =>
  new Error(`The server sends no ${total ? 'version (ETag or Last-Modified)' : 'size'} of the file.`);

export const copyTruncated = () => new Error('The cached copy is truncated.');

export const copyReplaced = () => new Error('The cached copy was removed or changed while it was written.');

// Errors of the storage

/** @param {number} needed bytes @param {number | string} free bytes */
export const noSpace = (needed, free) => new Error(`The file needs ${needed} bytes of storage, and ${free} are free.`);

export const diskFull = () => new Error('The disk is full.');

export const storageFull = () => new DOMException('The storage is full.', 'QuotaExceededError');

export const storeTimeout = () => new DOMException('The store did not answer in time.', 'TimeoutError');

/** Another tab or process has locked the file. */
export const locked = () => new DOMException('', 'NoModificationAllowedError');

export const noFileSystem = () =>
  new Error(`${isSecureContext ? 'This browser' : 'A page without https'} has no private file system.`);

/** @param {string} name */
export const badFileName = (name) => new Error(`${JSON.stringify(name)} is not the name of a cached file.`);

export const noFolders = () => new ModelError('bad-option', 'Browsers cannot open folders. Pass a store.');

// Errors of the model cache and the chat cache

const RETRY = 'Check the storage, and try again.';

/** @param {unknown} cause */
export const cacheFailed = (cause) =>
  failure('cache-failed', 'The model cache could not be read or changed', cause, RETRY);

/** @param {unknown} key */
export const badKey = (key) => {
  const got = show(key);
  return new ModelError('bad-option', `\`key\` must be the key of an entry of list() (got ${got}).`, { got });
};

/** @param {unknown} where argument of openCache() @param {string[]} names of the methods that a store must have */
export const badStore = (where, names) => {
  const got = show(where);
  return new ModelError(
    'bad-option',
    `openCache() takes the path of a folder, or a store with the methods ${names.join(', ')} (got ${got}).`,
    { got },
  );
};

/** @param {string} done participle @param {unknown} cause */
export const chatsFailed = (done, cause) => failure('cache-failed', `Saved chats could not be ${done}`, cause, RETRY);

/** @param {string} name */
export const chatDamaged = (name) =>
  new ModelError('bad-saved', `The saved chat ${JSON.stringify(name)} is damaged. Delete it, or save it again.`);

/** @param {number} got size in bytes @param {number} expected limit in bytes */
export const chatTooLarge = (got, expected) =>
  new ModelError(
    'cache-failed',
    `The saved chat has ${got} bytes, and the chat cache holds at most ${expected}. Raise \`chatCacheBytes\`.`,
    { expected, got },
  );

export const chatLost = () => new Error('The store has lost the written bytes.');
