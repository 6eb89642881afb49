/* errors: the one error class of the package, and its codes. */

/** Every `code`, with what it means. Those up to `aborted` come from the engine, by name. */
export const CODES = Object.freeze({
  'bad-magic': 'The bytes do not begin like a GGUF file.',
  'bad-version': 'A GGUF version other than 2 and 3.',
  'truncated': 'The bytes end before the last tensor does.',
  'bad-count': 'The file claims an impossible number of things.',
  'bad-metadata': 'A metadata value has the wrong type or is impossible.',
  'missing-key': 'A metadata key that the architecture needs is not there.',
  'unsupported-architecture': 'A family of models that this version cannot run.',
  'unsupported-type': 'A tensor type that this version cannot read.',
  'bad-shape': 'A tensor does not have the shape that the metadata calls for.',
  'tensor-range': 'A tensor lies outside the file or over another one.',
  'missing-tensor': 'A tensor that the architecture needs is not there.',
  'duplicate': 'A key or a tensor is there twice.',
  'missing-tokenizer': 'The file holds no vocabulary.',
  'bad-tokenizer': 'The vocabulary contradicts itself.',
  'no-memory': 'The platform does not give the memory that the model needs.',
  'context-exceeded': 'The prompt is longer than the context.',
  'bad-token': 'A token id outside the vocabulary.',
  'bad-option': 'An option that does not exist or has a value out of range.',
  'bad-state': 'A call that is not possible now.',
  'aborted': 'An AbortSignal was triggered before there was a result.',
  'unsupported-source': 'A kind of model source that cannot be read here.',
  'unsupported-variant': 'An engine variant that this platform cannot run.',
  'unsupported-platform': 'The platform lacks WebAssembly SIMD.',
  'engine-missing': 'A .wasm file of this package could not be fetched or compiled.',
  'network-error': 'The server could not be reached.',
  'http-error': 'The server answered with an error status.',
  'read-error': 'A file, Blob, stream or iterator failed while it was read.',
  'sha256-mismatch': 'The bytes are not those that the sha256 option names.',
  'missing-template': 'The file has no chat template.',
  'template-error': 'The chat template refused the messages or failed.',
  'disposed': 'The model was disposed of.',
  'worker-failed': 'The worker that runs the engine died.',
});

/** @typedef {{ expected?: string | number, got?: string | number, cause?: unknown }} ErrorDetails */

/** The error that everything here throws: `code` is stable, the message is for people. */
export class GemmaError extends Error {
  /** @param {string} code one of CODES @param {string} what the thing that is wrong, in words
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
