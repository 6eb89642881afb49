/* errors: the error class of the package, its codes and kinds. */

/** Error codes with their kinds. A kind tells where to look for a remedy: the file, the network, the call's options,
 * the engine or device, the cache, or the state of the object. src/base/base.h lists the codes that C returns. */
export const CODES = /* @__PURE__ */ Object.freeze({
  'bad-magic': 'file',
  'bad-version': 'file',
  truncated: 'file',
  'bad-count': 'file',
  'bad-metadata': 'file',
  'missing-key': 'file',
  'unsupported-architecture': 'file',
  'unsupported-type': 'file',
  'bad-shape': 'file',
  'tensor-range': 'file',
  'missing-tensor': 'file',
  duplicate: 'file',
  'missing-tokenizer': 'file',
  'bad-tokenizer': 'file',
  'bad-split': 'file',
  'not-finite': 'file',
  'sha256-mismatch': 'file',
  'read-error': 'file',
  'template-error': 'file',
  'bad-saved': 'file',
  'network-error': 'network',
  'http-error': 'network',
  'source-changed': 'network',
  'bad-option': 'option',
  'bad-token': 'option',
  'bad-format': 'option',
  'format-too-complex': 'option',
  'context-exceeded': 'option',
  'unsupported-source': 'option',
  'not-generative': 'option',
  'no-chat-template': 'option',
  'no-memory': 'engine',
  'engine-fault': 'engine',
  'unsupported-variant': 'engine',
  'unsupported-platform': 'engine',
  'engine-missing': 'engine',
  'worker-failed': 'engine',
  'cannot-share': 'engine',
  'cache-failed': 'cache',
  'cache-corrupt': 'cache',
  'index-failed': 'cache',
  'bad-state': 'state',
  aborted: 'state',
  disposed: 'state',
});

/** Stable name of an error (docs/errors.md). @typedef {keyof typeof CODES} ErrorCode */
/** Group of error codes with the same kind of remedy. @typedef {(typeof CODES)[ErrorCode]} ErrorKind */
/** Details of an error, for programs.
 * @typedef {object} ErrorDetails
 * @property {string | number} [expected] The value that would have been right.
 * @property {string | number} [got] The value that was wrong.
 * @property {unknown} [cause] The error that caused this one.
 */

/** The error of every failed call. `code` and `kind` are stable; the message is for people. */
export class ModelError extends Error {
  /** @param {ErrorCode} code @param {string} message a sentence @param {ErrorDetails} [details] */
  constructor(code, message, { expected = '', got = '', cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    // Errors of aborted calls have the names that DOMException uses, because programs test for them.
    const late = /** @type {any} */ (cause)?.name === 'TimeoutError' ? 'TimeoutError' : 'AbortError';
    this.name = code === 'aborted' ? late : 'ModelError';
    /** Stable name of the error. @readonly @type {ErrorCode} */
    this.code = code;
    /** Kind of the error, which tells where to look for a remedy. @readonly @type {ErrorKind} */
    this.kind = CODES[code];
    /** The value that would have been right. May be empty. */
    this.expected = expected;
    /** The value that was wrong. May be empty. */
    this.got = got;
  }

  /** Makes `instanceof` recognise errors of other copies of this class, which separately bundled files contain.
   * @param {any} error */
  static [Symbol.hasInstance](error) {
    // Subclasses of ModelError inherit this method, but use the normal check of `instanceof`. The code does not name
    // the class, because esbuild would then rename it.
    if (!Object.hasOwn(this, Symbol.hasInstance)) return super[Symbol.hasInstance](error);
    // Errors are recognised by their properties only, because `name` varies (an aborted call has the name AbortError) and
    // errors of other frames are instances of another Error.
    return ['code', 'kind', 'expected', 'got'].every((part) => Object.hasOwn(Object(error), part));
  }
}

/** @param {unknown} value */
const brandOf = (value) => Object.prototype.toString.call(value);

/** Returns whether a value is an object of a built-in class. Unlike `instanceof`, recognises objects of other frames and
 * other realms, such as Node's contexts. @param {string} name of the class @param {unknown} value */
export const isA = (name, value) => brandOf(value) === `[object ${name}]`;

/** Returns a short form of a value for a message: the keys of an object, the first items of an array.
 * @param {any} value @returns {string} */
export function show(value) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  if (Array.isArray(value)) return `[${value.slice(0, 8).map((one) => (Array.isArray(one) ? '[…]' : show(one)))}]`;
  if (typeof value === 'bigint') return `${value}n`;
  if (Object(value) !== value) return String(value);
  return isA('Object', value) ? inBraces(Object.keys(value)) : brandOf(value);
}

/** Joins words in braces: at most 8 words and 200 characters. @param {string[]} words */
export const inBraces = (words) => (words.length ? `{ ${words.slice(0, 8).join(', ').slice(0, 200)} }` : '{}');

/** Returns the error for messages to a model without a chat template. */
export function noTemplate() {
  return new ModelError(
    'no-chat-template',
    'This model has no chat template. Pass a string or token ids, not messages.',
  );
}

/** Throws `not-generative` if a model only embeds. @param {{ embedding: unknown }} info */
export function checkGenerative({ embedding }) {
  if (!embedding) return;
  throw new ModelError('not-generative', 'This model only computes embeddings. Use embed(), or load another model.');
}

/** Returns the error of an aborted call. @param {AbortSignal} [signal] its reason becomes the cause */
export function abortError(signal) {
  return new ModelError('aborted', 'The call was aborted.', { cause: signal?.reason });
}

/** Returns an error whose message was written in C or in another thread.
 * @param {ErrorCode} code @param {string} message @param {ErrorDetails} [details] */
export const relayed = (code, message, details) => new ModelError(code, message, details);

/** Returns the error for an exception that is not a ModelError: a bug or a trap. @param {unknown} error */
export const unexpected = (error) =>
  failure('worker-failed', 'The engine failed', error, 'Call restart(), or load the model again.');

/** Returns the message of an error, without the name of the error's class, or another thrown value as text. All messages
 * that quote their cause use this function: String() would put "Error: " before each cause. @param {any} error */
export const messageOf = (error) => String(error?.message || error);

/** Returns the error for a failed operation, or the cause if it already is a ModelError.
 * @param {ErrorCode} code @param {string} what clause that begins the message @param {unknown} cause
 * @param {string} [remedy] a sentence */
export function failure(code, what, cause, remedy) {
  if (cause instanceof ModelError) return cause;
  const got = messageOf(cause).replace(/\.$/, '');
  return new ModelError(code, `${what}: ${got}.${remedy ? ` ${remedy}` : ''}`, { got, cause });
}

/** Returns the result of f(). If f() throws, throws errorOf() of the thrown value.
 * @template T @param {() => T} f @param {(cause: unknown) => ModelError} errorOf */
export function wrapped(f, errorOf) {
  try {
    return f();
  } catch (cause) {
    throw errorOf(cause);
  }
}

/** Resolves with the result of f(), or rejects with `read-error`.
 * @template T @param {string} name @param {() => Promise<T> | T} f @returns {Promise<T>} */
export async function reading(name, f) {
  try {
    return await f();
  } catch (cause) {
    throw failure('read-error', `${name} could not be read`, cause);
  }
}
