/* errors: the one error class, and its codes. */

/** Every `code`; those up to `aborted` are the engine's too. */
export const CODES = /* @__PURE__ */ Object.freeze({
  'bad-magic': 'Not a GGUF file.',
  'bad-version': 'A GGUF version other than 2 and 3.',
  truncated: 'The bytes end too early.',
  'bad-count': 'An impossible number of things.',
  'bad-metadata': 'A metadata value is impossible.',
  'missing-key': 'A metadata key is missing.',
  'unsupported-architecture': 'Models that cannot be run.',
  'unsupported-type': 'A tensor type that cannot be read.',
  'bad-shape': 'A tensor has another shape than the metadata say.',
  'tensor-range': 'A tensor outside the file or over another.',
  'missing-tensor': 'A tensor is missing.',
  duplicate: 'A key or a tensor is there twice.',
  'missing-tokenizer': 'The file holds no vocabulary.',
  'bad-tokenizer': 'The vocabulary contradicts itself.',
  'no-memory': 'Not enough memory.',
  'context-exceeded': 'A prompt longer than the context.',
  'bad-token': 'A token id outside the vocabulary.',
  'bad-option': 'An option that is unknown or out of range.',
  'bad-format': 'A format that answers cannot be held to.',
  'format-too-complex': 'A format that takes too much work to compile.',
  'bad-state': 'A call that is not possible now.',
  aborted: 'An AbortSignal came before a result.',
  'bad-part': 'Not the parts of one split model.',
  'not-finite': 'Weights, or logits, that are NaN or infinite.',
  'bad-saved': 'A saved conversation that is damaged.',
  'engine-fault': 'The engine computes wrongly on this platform.',
  'index-failed': 'A search index could not be read or changed.',
  'embedding-model': 'The model only embeds texts; it cannot generate any.',
  'unsupported-source': 'A model source that cannot be read here.',
  'unsupported-variant': 'An engine variant that cannot run here.',
  'unsupported-platform': 'There is no WebAssembly SIMD.',
  'engine-missing': 'A file of the package could not be loaded: a .wasm file, or a part of the JavaScript.',
  'network-error': 'The server could not be reached.',
  'http-error': 'The server answered with an error status.',
  'read-error': 'A file, Blob, stream or iterator failed.',
  'source-changed': 'The file on the server changed while it was read.',
  'sha256-mismatch': 'Other bytes than `sha256` names.',
  'copy-damaged': 'A stored copy is damaged, and what is could not be fetched again.',
  'cache-failed': 'The cache of models could not be read or changed.',
  'missing-template': 'The model takes no messages: its file has no chat template.',
  'template-error': 'The chat template refused or failed.',
  disposed: 'The model was disposed of.',
  'cannot-share': 'Tabs cannot share a model here.',
  'worker-failed': 'The worker that runs the engine died.',
});

/** @typedef {keyof typeof CODES} ErrorCode */
/** @typedef {{ expected?: string | number, got?: string | number, cause?: unknown }} ErrorDetails */

/** `code` is stable; the message is for people. */
export class GemmaError extends Error {
  /** @param {ErrorCode} code @param {string} what is wrong, in words
   * @param {ErrorDetails} [details] */
  constructor(code, what, { expected = '', got = '', cause } = {}) {
    const parts = [expected !== '' && `expected ${expected}`, got !== '' && `got ${got}`];
    const detail = parts.filter(Boolean).join(', ');
    super(detail ? `${what}: ${detail}` : what, cause === undefined ? undefined : { cause });
    // Of an abort the platform's name, which people look for.
    const late = /** @type {any} */ (cause)?.name === 'TimeoutError' ? 'TimeoutError' : 'AbortError';
    this.name = code === 'aborted' ? late : 'GemmaError';
    /** @readonly @type {ErrorCode} */
    this.code = code;
    this.what = what;
    this.expected = expected;
    this.got = got;
  }

  /** Parts of the package that are files of their own have this class too. @param {any} error */
  static [Symbol.hasInstance](error) {
    // A subclass inherits this method. The class is not named here, since esbuild would then rename it.
    if (!Object.hasOwn(this, Symbol.hasInstance)) return Function.prototype[Symbol.hasInstance].call(this, error);
    // Not by the name: that of an abort is the platform's.
    const parts = ['code', 'what', 'expected', 'got'];
    return error instanceof Error && parts.every((part) => Object.hasOwn(error, part));
  }
}

/** A value for a message, short: of an object the names. @param {any} value @returns {string} */
export function show(value) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  if (Array.isArray(value)) return `[${value.slice(0, 8).map((one) => (Array.isArray(one) ? '[…]' : show(one)))}]`;
  const isObject = typeof value === 'object' && value !== null;
  if (!isObject && typeof value !== 'function') return String(value);
  const isPlain = isObject && [Object.prototype, null].includes(Object.getPrototypeOf(value));
  return isPlain ? inBraces(Object.keys(value)) : Object.prototype.toString.call(value);
}

/** @param {string[]} words */
export const inBraces = (words) => (words.length ? `{ ${words.slice(0, 8).join(', ').slice(0, 200)} }` : '{}');

/** Returns the error for messages to a model without a chat template. */
export function noTemplate() {
  return new GemmaError(
    'missing-template',
    'this model has no chat template: pass a string or token ids instead of messages',
    { expected: 'tokenizer.chat_template', got: 'none' },
  );
}

/** @param {AbortSignal} signal */
export function abortError(signal) {
  return new GemmaError('aborted', 'the call was aborted', { cause: signal.reason });
}

/** @param {ErrorCode} code @param {string} what @param {unknown} cause @param {string} [expected] */
export function failure(code, what, cause, expected) {
  if (cause instanceof GemmaError) return cause;
  const got = cause instanceof Error ? cause.message : String(cause);
  return new GemmaError(code, what, { expected, got, cause });
}

/** What f gives, or throws as a GemmaError.
 * @template T @param {ErrorCode} code @param {string} what @param {() => T} f */
export function wrapped(code, what, f) {
  try {
    return f();
  } catch (cause) {
    throw failure(code, what, cause);
  }
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
