/* errors: the errors of the Prompt API, and the conversion of the package's errors to DOMExceptions. */
import { ModelError } from '../errors.js';

/** Returns a DOMException, with the property `cause` unless the cause is undefined.
 * @param {string} name @param {string} message a sentence @param {unknown} [cause] */
function domError(name, message, cause) {
  const error = new DOMException(message, name);
  return cause === undefined ? error : Object.assign(error, { cause });
}

// Errors of arguments

/** @param {string} where @param {string} what */
export const wrongType = (where, what) => new TypeError(`${where} must be ${what}.`);

/** @param {string} where */
export const missing = (where) => new TypeError(`${where} is missing. Pass it.`);

/** @param {string} method */
export const noPrompt = (method) => new TypeError(`${method}() requires a prompt.`);

/** @param {string} type */
export const unsupportedContent = (type) =>
  domError('NotSupportedError', `Content of the type ${type} is not supported. Send text.`);

export const notText = () => new TypeError('The `value` of a content part of type "text" must be a string.');

export const misplacedPrefix = () =>
  domError('SyntaxError', 'A message with `prefix` must be the last one, and must have the role `assistant`.');

export const lateSystem = () =>
  new TypeError('A system message must be the first message of a session. Put it into `initialPrompts`.');

/** @param {string} flag */
export const unsupportedFlag = (flag) =>
  domError('NotSupportedError', `The flag ${flag} of \`responseConstraint\` is not supported. Leave it out.`);

/** @param {unknown} cause */
export const notJson = (cause) =>
  domError(
    'NotSupportedError',
    '`responseConstraint` must be a JSON Schema, but it cannot be represented as JSON.',
    cause,
  );

export const noConstraint = () => new TypeError('`omitResponseConstraintInput` requires a `responseConstraint`.');

// Errors of sessions

export const illegalConstructor = () => new TypeError('Illegal constructor. Call LanguageModel.create().');

export const unsupportedOptions = () =>
  domError('NotSupportedError', 'The model does not support these options. Call availability() first.');

export const noActivation = () =>
  domError(
    'NotAllowedError',
    'The model must be downloaded, which requires an action of the user. Call create() on a click,' +
      ' or pass `userActivation: false` to createLanguageModel().',
  );

export const cannotChat = () =>
  domError('NotSupportedError', 'The model cannot chat: it has no chat template. Choose an instruction-tuned one.');

export const destroyed = () => domError('InvalidStateError', 'The session was destroyed. Create another one.');

export const cutOff = () =>
  domError(
    'SyntaxError',
    'The answer was cut off before it satisfied `responseConstraint`. Limit the strings and arrays of the schema.',
  );

export const tooManyCalls = () =>
  domError('OperationError', 'The model called tools too often in a row. Simplify the question or the tools.');

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
 * @param {number} quota tokens @param {{ contextLength: number, trainedContextLength: number }} info of the model */
export function quotaError(requested, quota, { contextLength, trainedContextLength }) {
  const Native = /** @type {any} */ (globalThis).QuotaExceededError ?? OwnQuotaExceededError;
  const canGrow = contextLength < trainedContextLength;
  const message =
    `The prompt takes ${requested} tokens, but the context window has ${quota}. ` +
    (canGrow ? 'Shorten it, or load the model with a larger `contextLength`.' : 'Shorten it.');
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
