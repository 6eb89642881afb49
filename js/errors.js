/* errors: the one error class of the package, and the list of its codes.
 * May use nothing else. */

/** Every `code` a GemmaError can carry, with what it means.
 * The first block comes from the C engine, by name; the second from this package. */
export const CODES = Object.freeze({
  'bad-magic': 'The bytes do not begin like a GGUF file.',
  'bad-version': 'A GGUF version other than 2 and 3.',
  'truncated': 'The bytes end before the last tensor does.',
  'bad-count': 'The file claims an impossible number of things.',
  'bad-metadata': 'A metadata value has the wrong type or an impossible value.',
  'missing-key': 'A metadata key that the architecture needs is not there.',
  'unsupported-architecture': 'The model is of a family this version cannot run.',
  'unsupported-type': 'A tensor is stored in a type this version cannot read.',
  'bad-shape': 'A tensor does not have the shape that the metadata calls for.',
  'tensor-range': 'A tensor lies outside the file or over another one.',
  'missing-tensor': 'A tensor that the architecture needs is not there.',
  'duplicate': 'A key or a tensor is there twice.',
  'missing-tokenizer': 'The file holds no vocabulary.',
  'bad-tokenizer': 'The vocabulary contradicts itself.',
  'no-memory': 'The model does not fit into the memory that the platform gives.',
  'context-exceeded': 'The prompt is longer than the context.',
  'bad-token': 'A token id outside the vocabulary.',
  'bad-option': 'An option that does not exist or has a value out of range.',
  'bad-state': 'A call that is not possible now.',
  'aborted': 'The AbortSignal was triggered before there was a result.',

  'unsupported-source': 'A model source of a kind that cannot be read here.',
  'unsupported-variant': 'The engine variant asked for cannot run on this platform.',
  'unsupported-platform': 'The platform lacks WebAssembly SIMD or workers.',
  'engine-missing': 'The engine (a .wasm file of this package) could not be fetched or compiled.',
  'network-error': 'The server could not be reached.',
  'http-error': 'The server answered with an error status.',
  'read-error': 'A file, Blob, stream or iterator failed while it was read.',
  'sha256-mismatch': 'The bytes are not those that the sha256 option names.',
  'missing-template': 'The file has no chat template.',
  'template-error': 'The chat template refused the messages or failed.',
  'disposed': 'The model was disposed of.',
  'worker-failed': 'The worker that runs the engine died.',
});

/**
 * @typedef {object} ErrorDetails
 * @property {string | number} [expected]
 * @property {string | number} [got]
 * @property {unknown} [cause]
 */

/** The error that everything here throws: `code` is stable, the message is for people. */
export class GemmaError extends Error {
  /**
   * @param {string} code one of CODES
   * @param {string} what the thing that is wrong, in words
   * @param {ErrorDetails} [details]
   */
  constructor(code, what, details = {}) {
    const { expected = '', got = '', cause } = details;
    super(sentence(what, expected, got), cause === undefined ? undefined : { cause });
    this.name = 'GemmaError';
    /** @type {string} */
    this.code = code;
    /** @type {string} */
    this.what = what;
    /** @type {string | number} */
    this.expected = expected;
    /** @type {string | number} */
    this.got = got;
  }
}

/**
 * @param {string} what
 * @param {string | number} expected
 * @param {string | number} got
 */
function sentence(what, expected, got) {
  const parts = [];
  if (expected !== '') parts.push(`expected ${expected}`);
  if (got !== '') parts.push(`got ${got}`);
  return parts.length ? `${what}: ${parts.join(', ')}` : what;
}
