/* errors: the DOMExceptions of the Prompt API, and the conversion of the package's errors to DOMExceptions. */
import { ModelError } from '../errors.js';

/** Returns a DOMException, with the property `cause` unless the cause is undefined.
 * @param {string} name @param {string} message a sentence @param {unknown} [cause] */
export function domError(name, message, cause) {
  const error = new DOMException(message, name);
  return cause === undefined ? error : Object.assign(error, { cause });
}

/** QuotaExceededError for platforms without that class. Its `code` is that of the older DOMException with this name. */
class OwnQuotaExceededError extends DOMException {
  /** @param {string} message @param {{ requested: number, quota: number }} amounts */
  constructor(message, { requested, quota }) {
    super(message, 'QuotaExceededError');
    this.requested = requested;
    this.quota = quota;
  }
}

/** Returns the error for a prompt that does not fit into the context window. @param {number} requested tokens
 * @param {number} quota tokens */
export function quotaError(requested, quota) {
  const Native = /** @type {any} */ (globalThis).QuotaExceededError ?? OwnQuotaExceededError;
  const message =
    `The prompt takes ${requested} tokens, but the context window has ${quota}.` +
    ' Shorten it, or load the model with a larger `contextLength`.';
  return new Native(message, { requested, quota });
}

/** Names of DOMExceptions for errors while a model answers, by error code. The default is UnknownError.
 * @type {Partial<Record<string, string>>} */
const OF_PROMPT = {
  'bad-format': 'NotSupportedError',
  'format-too-complex': 'NotSupportedError',
  'bad-option': 'NotSupportedError',
  disposed: 'InvalidStateError',
};
/** Names of DOMExceptions for errors while a model is loaded, by error code. The default is OperationError.
 * @type {Partial<Record<string, string>>} */
const OF_CREATE = {
  'not-generative': 'NotSupportedError',
  'no-chat-template': 'NotSupportedError',
  'unsupported-architecture': 'NotSupportedError',
  'unsupported-platform': 'NotSupportedError',
  'bad-option': 'NotSupportedError',
};

/** Returns the DOMException for an error of the package. Other errors are returned as they are.
 * @param {any} error @param {'prompt' | 'create'} when */
export function domErrorOf(error, when) {
  if (!(error instanceof ModelError)) return error;
  const { code, kind, message } = error;
  const name =
    when === 'prompt'
      ? (OF_PROMPT[code] ?? 'UnknownError')
      : (OF_CREATE[code] ?? (kind === 'network' ? 'NetworkError' : 'OperationError'));
  return domError(name, message, error);
}
