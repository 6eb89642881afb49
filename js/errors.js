/* errors: the one error class, and its codes. */

/** Every `code`. Those up to `aborted` come from the engine too, by name. */
export const CODES = Object.freeze({
  'bad-magic': 'Not a GGUF file.',
  'bad-version': 'A GGUF version other than 2 and 3.',
  'truncated': 'The bytes end before the last tensor does.',
  'bad-count': 'The file claims an impossible number of things.',
  'bad-metadata': 'A metadata value is of the wrong type or impossible.',
  'missing-key': 'A metadata key is missing.',
  'unsupported-architecture': 'A family of models that cannot be run.',
  'unsupported-type': 'A tensor type that cannot be read.',
  'bad-shape': 'A tensor has not the shape that the metadata calls for.',
  'tensor-range': 'A tensor lies outside the file or over another one.',
  'missing-tensor': 'A tensor is missing.',
  'duplicate': 'A key or a tensor is there twice.',
  'missing-tokenizer': 'The file holds no vocabulary.',
  'bad-tokenizer': 'The vocabulary contradicts itself.',
  'no-memory': 'There is not as much memory as is needed.',
  'context-exceeded': 'The prompt is longer than the context.',
  'bad-token': 'A token id outside the vocabulary.',
  'bad-option': 'An option that does not exist or is out of range.',
  'bad-state': 'A call that is not possible now.',
  'aborted': 'An AbortSignal came before there was a result.',
  'unsupported-source': 'A model source that cannot be read here.',
  'unsupported-variant': 'An engine variant that cannot run here.',
  'unsupported-platform': 'The platform has no WebAssembly SIMD.',
  'engine-missing': 'A .wasm file could not be fetched or compiled.',
  'network-error': 'The server could not be reached.',
  'http-error': 'The server answered with an error status.',
  'read-error': 'A file, Blob, stream or iterator failed.',
  'sha256-mismatch': 'The bytes are not those that `sha256` names.',
  'missing-template': 'The file has no chat template.',
  'template-error': 'The chat template refused the messages or failed.',
  'disposed': 'The model was disposed of.',
  'worker-failed': 'The worker that runs the engine died.',
});

/** @typedef {{ expected?: string | number, got?: string | number, cause?: unknown }} ErrorDetails */

/** `code` is stable; the message is for people. */
export class GemmaError extends Error {
  /** @param {string} code one of CODES @param {string} what is wrong, in words
   * @param {ErrorDetails} [details] */
  constructor(code, what, { expected = '', got = '', cause } = {}) {
    const parts = [expected !== '' && `expected ${expected}`, got !== '' && `got ${got}`];
    const detail = parts.filter(Boolean).join(', ');
    super(detail ? `${what}: ${detail}` : what, cause === undefined ? undefined : { cause });
    this.name = 'GemmaError';
    this.code = code;
    this.what = what;
    this.expected = expected;
    this.got = got;
  }
}
