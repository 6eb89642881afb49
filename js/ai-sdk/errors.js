/* errors: the errors of the provider, and the marks by which the AI SDK recognises errors. The SDK's error classes test
 * for properties whose names are registered symbols, so an error needs only these properties, not the SDK's code. */
/** @import { ErrorCode } from '../errors.js' */
import { ModelError, failure, show } from '../errors.js';

const MARK = 'vercel.ai.error';

/** The SDK's error classes by error code. Other codes whose kind is `option` become
 * AI_InvalidArgumentError.
 * @type {Partial<Record<ErrorCode, string>>} */
const NAMES = {
  'bad-format': 'AI_UnsupportedFunctionalityError',
  'format-too-complex': 'AI_UnsupportedFunctionalityError',
  'not-generative': 'AI_UnsupportedFunctionalityError',
  'no-chat-template': 'AI_UnsupportedFunctionalityError',
  'context-exceeded': 'AI_InvalidPromptError',
  'template-error': 'AI_InvalidPromptError',
};

/** Makes the AI SDK recognise a ModelError as one of the SDK's errors.
 * @template {ModelError} E @param {E} error
 * @param {string} [name] the SDK's error class; without it, only the SDK's base class recognises the error
 * @param {object} [fields] properties of that class @returns {E} */
function marked(error, name, fields) {
  for (const mark of name ? [MARK, `${MARK}.${name}`] : [MARK]) {
    Object.defineProperty(error, Symbol.for(mark), { value: true });
  }
  return Object.assign(error, name && { name }, fields);
}

/** @param {string} mediaType */
export function filePart(mediaType) {
  const functionality = `file parts (${mediaType})`;
  const message = `gemma-wasm does not support ${functionality}. Pass the contents of the file as text.`;
  return marked(new ModelError('bad-option', message), 'AI_UnsupportedFunctionalityError', { functionality });
}

/** @param {'languageModel' | 'embeddingModel' | 'imageModel'} modelType @param {string} modelId
 * @param {string} message */
const noSuchModel = (modelType, modelId, message) =>
  marked(new ModelError('bad-option', message), 'AI_NoSuchModelError', { modelId, modelType });

/** @param {'languageModel' | 'embeddingModel'} modelType @param {string} modelId @param {string[]} known */
export const unknownModel = (modelType, modelId, known) =>
  noSuchModel(
    modelType,
    modelId,
    `There is no model ${show(modelId)}. The models of this provider are ${known.join(', ')}.`,
  );

/** @param {string} modelId */
export const imageModel = (modelId) =>
  noSuchModel('imageModel', modelId, 'gemma-wasm has no image models. Use a language model or an embedding model.');

/** The result of a tool call that was not executed. */
export const callDenied = () => 'The call was denied.';

/** @param {unknown} cause */
const callFailed = (cause) => failure('worker-failed', 'The call failed', cause, 'Repeat it.');

const aborted = () => new DOMException('The call was aborted.', 'AbortError');

/** Returns the error to pass to the SDK: after an abort the signal's reason, otherwise a ModelError that the SDK
 * recognises.
 * @param {unknown} cause @param {AbortSignal} [signal] */
export function sdkError(cause, signal) {
  if (signal?.aborted) return abortReason(signal);
  const error = callFailed(cause);
  if (Symbol.for(MARK) in error) return error;
  const name = NAMES[error.code] ?? (error.kind === 'option' ? 'AI_InvalidArgumentError' : undefined);
  const [, argument = error.code] = /`(\w+)`/.exec(error.message) ?? [];
  return marked(
    error,
    name,
    {
      AI_UnsupportedFunctionalityError: { functionality: error.code },
      AI_InvalidArgumentError: { argument },
    }[name ?? ''],
  );
}

/** Returns the reason of an aborted signal if it is an AbortError or a TimeoutError, otherwise a new AbortError.
 * @param {AbortSignal} signal @returns {Error} */
export function abortReason({ reason }) {
  const known = ['AbortError', 'TimeoutError'].includes(reason?.name);
  return known ? reason : aborted();
}
