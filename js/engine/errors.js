/* errors: the errors of this folder. The messages of C's errors are in src. */
/** @import { ErrorCode } from '../errors.js' */
/** @import { Unsupported } from '../grammar/index.js' */
import { ModelError, failure, messageOf, show } from '../errors.js';

/* Errors of the engine and its memory */

const CLOSE = 'Close other tabs or programs.';

/** @param {ErrorCode} code */
export const unexplained = (code) =>
  new ModelError(code, `The engine failed with the code ${code}. Load the model again.`);

/** @param {string} name @param {unknown} cause */
export const notLoaded = (name, cause) => failure('engine-missing', `${name} could not be loaded`, cause);

export const noSimd = () =>
  new ModelError('unsupported-platform', 'This platform has no WebAssembly SIMD. Use a newer browser or runtime.');

export const noRelaxedSimd = () =>
  new ModelError('unsupported-variant', 'This platform has no relaxed SIMD. Set `variant` to "auto" or "simd128".');

/** @param {string} variant @param {string} flaw a sentence with a remedy */
export const variantFails = (variant, flaw) =>
  new ModelError(
    'unsupported-variant',
    `The variant ${variant} cannot run here. ${flaw} Or set \`variant\` to "auto" or "simd128".`,
  );

/** @param {number} threads */
export const noMemoryForThreads = (threads) =>
  new ModelError('no-memory', `The engine has no memory for ${threads} threads. Use fewer.`);

export const noMemoryForHash = () => new ModelError('no-memory', `The engine has no memory for SHA-256. ${CLOSE}`);

/** @param {number} bytes */
export const noMemory = (bytes) =>
  new ModelError('no-memory', `The engine has no memory for ${bytes} more bytes. Use shorter inputs.`);

/** @param {number} bytes @param {unknown} cause */
export const notReserved = (bytes, cause) =>
  failure('no-memory', `${bytes} bytes of memory could not be reserved`, cause, CLOSE);

/** @param {Error} cause */
export const scriptMemoryFull = (cause) =>
  failure('no-memory', 'JavaScript is out of memory', new Error(cause.message, { cause }), CLOSE);

/* Errors of context and prompt */

/** @param {number} most @param {number} wanted */
export const contextTooLong = (most, wanted) =>
  new ModelError('bad-option', `\`contextLength\` must be at most ${most}, the model's maximum (got ${wanted}).`);

/** The error for a context that does not fit into memory. fits: the longest context that fits, 0 if none does.
 * @param {number} contextLength @param {{ need: number, most: number, fits: number, cause: unknown }} bytes */
export const contextTooLarge = (contextLength, { need, most, fits, cause }) =>
  new ModelError(
    'no-memory',
    `The model needs ${need} bytes for a context of ${contextLength} tokens; this platform allows ${most}.` +
      (fits ? ` Set contextLength to ${fits} or less.` : ' Use a smaller model.'),
    { expected: `${need} bytes`, cause },
  );

/** Second remedy of the engine's error `context-exceeded`, for a model that allows a longer context. */
export const LONGER_CONTEXT = ' Or load the model with a larger `contextLength`.';

/** @param {ErrorCode} code @param {number} most */
export const tooManyTokens = (code, most) => new ModelError(code, `The text has more than ${most} tokens. Split it.`);

/** @param {number} bytes */
export const notSplittable = (bytes) =>
  new ModelError('bad-count', `The text has ${bytes} bytes without a word boundary. Add spaces.`);

/* Errors of files of the model */

/** @param {string} expected @param {string} got */
export const digestDiffers = (expected, got) =>
  new ModelError(
    'sha256-mismatch',
    `The SHA-256 of the model is ${got}, not ${expected}. Download the file again, or correct \`sha256\`.`,
    { expected, got },
  );

/** @param {number} need @param {number | undefined} total */
export const fileTruncated = (need, total) => {
  const details = { expected: `${need} bytes`, got: `${total} bytes` };
  return new ModelError(
    'truncated',
    `The file is truncated: it has ${details.got}, but its header requires ${details.expected}. Download it again.`,
    details,
  );
};

/** @param {string} name @param {number} end */
export const endsBefore = (name, end) =>
  new ModelError('truncated', `${name} is truncated: it ends before byte ${end}. Download it again.`);

export const endsInTable = () =>
  new ModelError('truncated', 'The file is truncated: it ends inside a table. Download it again.');

/** @param {string} name */
export const fileChanged = (name) => new ModelError('source-changed', `${name} has changed. Load it again.`);

/* Errors of temporary files */

/** @param {unknown} cause */
export const temporaryNotCreated = (cause) =>
  failure(
    'bad-option',
    'The temporary file for tables of this model could not be created',
    cause,
    'Set `rowsOnDisk` to "auto" to load them into memory.',
  );

/** The cause of temporaryNotWritten() if the file accepts no more bytes. */
export const storageFull = () => new Error('the storage is full');

/** @param {unknown} cause */
export const temporaryNotWritten = (cause) =>
  failure(
    'cache-failed',
    'Tables of the model could not be written to a temporary file',
    cause,
    'Free storage, or set `rowsOnDisk` to false to load them into memory.',
  );

/** @param {unknown} cause */
export const temporaryNotRead = (cause) =>
  failure('cache-failed', 'The temporary file of the model could not be read', cause, 'Load the model again.');

/** @param {number} at */
export const temporaryCorrupt = (at) =>
  new ModelError('cache-corrupt', `The temporary file of the model is corrupt at byte ${at}. Load the model again.`);

/* Errors of chat templates */

/** The error of a template that called raise_exception(). A class, so that template.js recognises the error and renders
 * the prompt with other messages. */
export class Refusal extends ModelError {}

/** @param {unknown} text */
const short = (text) => messageOf(text).slice(0, 300);

/** @param {unknown} message */
export const messagesRefused = (message) =>
  new Refusal(
    'template-error',
    `The model's chat template refuses the messages: ${short(message).replace(/\.$/, '')}. Change them, or send the` +
      ' prompt as a string.',
  );

/** @param {unknown} error */
export const templateFailed = (error) =>
  new ModelError('template-error', `The model's chat template failed: ${short(error)}. Send the prompt as a string.`);

/** The cause of templateFailed() for wrong arguments of strip(). @param {string} method @param {string[]} kinds */
export const badArguments = (method, kinds) =>
  new Error(`${method}() accepts one or two strings (got ${kinds.join(', ')})`);

/** @param {number} got @param {string} what @param {number} expected */
export const overLimit = (got, what, expected) =>
  new ModelError(
    'template-error',
    `The model's chat template needs ${got} ${what}; the limit is ${expected}. Send shorter messages, or the prompt as a string.`,
    { expected, got },
  );

/** @param {number} most */
export const messagesTooLong = (most) =>
  new ModelError(
    'template-error',
    `The messages and tools have more than ${most} characters in all. Send fewer or shorter messages.`,
  );

/** Remedy of tokensMixed() and tokenAssembled(). */
const OTHER_TEMPLATE = ' Send the prompt as a string, or use a file with another chat template.';

export const tokensMixed = () =>
  new ModelError(
    'template-error',
    "The model's chat template changes text with both control tokens and messages, which then cannot be distinguished." +
      OTHER_TEMPLATE,
  );

export const tokenAssembled = () =>
  new ModelError(
    'template-error',
    `The model's chat template assembles a control token from texts that depend on the messages.${OTHER_TEMPLATE}`,
  );

export const tokensCopied = () =>
  new ModelError(
    'template-error',
    "The model's chat template writes control tokens because messages contain names of control tokens." +
      ' Change these names in the messages, or send the prompt as a string.',
  );

export const noLanguageCodes = () =>
  new ModelError(
    'bad-option',
    "The model's chat template does not use language codes. Leave them out of the messages.",
  );

/** @param {string} name @param {unknown} code */
export const badLanguageCode = (name, code) =>
  new ModelError('bad-option', `\`${name}\` must be a language code such as en or pt-BR (got ${short(code)}).`);

/* Errors of constraints */

/** @param {Unsupported} error */
const placeOf = ({ place }) => (typeof place === 'number' ? `offset ${place}` : `#${place}`);

/** Returns what is wrong with a format, and where. @param {Unsupported} cause */
const faultOf = (cause) => cause.what + (cause.place === '' ? '' : ` (at ${placeOf(cause)})`);

/** @param {Unsupported} cause */
export const formatTooComplex = (cause) =>
  new ModelError(
    'format-too-complex',
    `The format is too complex: ${faultOf(cause)}. Use fewer alternatives, shorter lists or simpler patterns.`,
    { cause },
  );

/** @param {Unsupported} cause */
export const badFormat = (cause) =>
  new ModelError('bad-format', `Answers cannot be constrained to this format: ${faultOf(cause)}. Change the format.`, {
    expected: 'a supported format',
    got: placeOf(cause),
    cause,
  });

export const badBeginning = () =>
  new ModelError('bad-format', 'The format does not allow the beginning of the answer. Change one of them.');

/** @param {number} id */
export const badToken = (id) =>
  new ModelError('bad-state', `The format does not allow the token ${id}. Change the format.`);

/* Errors of draft models */

export const draftIsModel = () =>
  new ModelError(
    'bad-option',
    '`draftModel` must not be the model itself. Use a smaller model of the same family, which drafts faster.',
  );

export const draftEmbeds = () =>
  new ModelError(
    'not-generative',
    'The draft model only computes embeddings. Pass a model that generates text as `draftModel`.',
  );

/** @param {string} difference */
const otherVocabulary = (difference) =>
  new ModelError(
    'bad-option',
    `\`draftModel\` must have the vocabulary of the model: ${difference}. Use a smaller model of the same family.`,
  );

/** @param {number} expected @param {number} got */
export const otherSize = (expected, got) => otherVocabulary(`it has ${got} tokens, not ${expected}`);

/** @param {number} id @param {string} expected @param {string} got */
export const otherToken = (id, expected, got) =>
  otherVocabulary(`its token ${id} is ${show(got)}, not ${show(expected)}`);

/* Errors of embeddings */

/** @param {number} count @param {number} most */
export const tooManyTexts = (count, most) =>
  new ModelError('bad-option', `${count} texts are too many for one call. Pass at most ${most}.`);

/** @param {number} count @param {unknown} cause */
export const noMemoryForVectors = (count, cause) =>
  failure('no-memory', `The vectors of ${count} texts do not fit into memory`, cause, 'Pass fewer texts.');

/** @param {number} i @param {number} length @param {number} most */
export const textTooLong = (i, length, most) =>
  new ModelError(
    'context-exceeded',
    `Text ${i} has ${length} tokens; the model accepts ${most}. Shorten it, or set truncate: true.`,
  );

/** @param {number} i */
export const vectorNotFinite = (i) =>
  new ModelError(
    'not-finite',
    `The vector of text ${i} is not finite: the model's weights overflow float32. Load another file of the model.`,
  );

/* Errors of inspection and logits */

/** @param {number} n @param {number} at */
export const badPosition = (n, at) =>
  new ModelError('bad-option', `\`positions\` must be from ${-n} to ${n - 1} for this prompt (got ${at}).`);

/** @param {number} bytes @param {number} most */
export const resultTooLarge = (bytes, most) =>
  new ModelError(
    'bad-option',
    `The result would have ${bytes} bytes; the limit is ${most}. Ask for fewer layers, heads or positions.`,
  );

/** @param {number} bytes @param {unknown} cause */
export const noMemoryForResult = (bytes, cause) =>
  failure(
    'no-memory',
    `The result of ${bytes} bytes does not fit into memory`,
    cause,
    'Ask for fewer layers, heads or positions.',
  );

/** @param {number} count @param {number} most */
export const tooManyIds = (count, most) =>
  new ModelError('bad-option', `The logits of ${count} ids are too many. Pass at most ${most}, or all: false.`);

/** @param {number} count @param {unknown} cause */
export const noMemoryForLogits = (count, cause) =>
  failure('no-memory', `The logits of ${count} ids do not fit into memory`, cause, 'Pass fewer ids, or all: false.');

export const nothingToScore = () => new ModelError('bad-option', 'The text has no token to score. Pass a longer text.');

/* Errors of saved conversations */

export const notEvaluated = () =>
  new ModelError('bad-state', 'The conversation could not be evaluated for saving. Try again.');

/** @param {number} bytes @param {unknown} cause */
export const noMemoryForSaved = (bytes, cause) =>
  failure('no-memory', `The saved conversation of ${bytes} bytes does not fit into memory`, cause, CLOSE);

export const noChatCache = () =>
  new ModelError('bad-state', 'The model was loaded with `cache: false`, so it has no chat cache. Leave `cache` out.');
