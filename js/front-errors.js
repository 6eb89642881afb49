/* front-errors: the errors of the files directly in js/. Errors that lower layers use, too, are in errors.js. */
import { ModelError, failure, messageOf, show } from './errors.js';

/* Errors of options */

/** @param {string} subject @param {string} expected @param {string} got may be empty */
export const mustBe = (subject, expected, got) =>
  new ModelError('bad-option', `${subject} must be ${expected}${got && ` (got ${got})`}.`, { expected, got });

/** @param {string} name @param {string | undefined} near the known option that was probably meant
 * @param {string} known all options */
export const unknownOption = (name, near, known) =>
  new ModelError(
    'bad-option',
    `There is no option \`${name}\`. ${near ? `Pass \`${near}\` instead.` : `The options are ${known}.`}`,
    { expected: near ?? known },
  );

/** @param {string} got @param {string} expected */
export const unknownTool = (got, expected) =>
  new ModelError('bad-option', `\`toolChoice\` needs a tool of \`tools\` (got ${got}).`, { expected, got });

/** @param {number} files @param {number} got */
export const digestCount = (files, got) =>
  new ModelError('bad-option', `\`sha256\` must have ${files} digests, one for each file (got ${got}).`);

/** @param {string} name of an option */
export const needsMessages = (name) =>
  new ModelError('bad-option', `\`${name}\` needs a prompt of messages. Pass [{ role, content }].`);

export const noThinking = () =>
  new ModelError('bad-option', 'This model does not support thinking. Leave out `thinking`.');

export const summarizeAlone = () =>
  new ModelError('bad-option', "`summarize` and `overflow: 'summarize'` require each other. Pass both.");

export const alreadyLoaded = () =>
  new ModelError('bad-option', 'A loaded model takes no options. Pass them to loadModel().');

/** @param {number} top @param {unknown} id */
export const badTokenId = (top, id) =>
  new ModelError('bad-token', `Token ids must be integers from 0 to ${top} (got ${show(id)}).`);

/* Errors of messages */

/** @param {number} i @param {string[]} roles @param {unknown} role */
export const badRole = (i, roles, role) =>
  new ModelError('bad-option', `The role of message ${i} must be one of ${roles.join(', ')} (got ${show(role)}).`);

/** @param {number} i */
export const prefixNotLast = (i) =>
  new ModelError(
    'bad-option',
    `Only the last message can have \`prefix\`, if it is the assistant's and calls no tools (got message ${i}).` +
      ' In a chat, use continue({ prefix }).',
  );

export const toolsInContinued = () =>
  new ModelError('bad-option', "A continued answer can have `tools` only with toolChoice 'none'.");

/* Errors of JSON values, schemas and tools */

/** The first line of a reason, because further lines of JSON.stringify() show the cycle of a circular structure.
 * @param {unknown} cause */
export const firstLine = (cause) => messageOf(cause).split('\n')[0];

/** The cause of the following errors: a part of the value that is not allowed.
 * @param {string} part @param {string} what @param {ErrorOptions} [options] */
export const flaw = (part, what, options) => new Error(`${part} is ${what}`, options);

/** @param {string} name @param {unknown} cause */
export const notJson = (name, cause) =>
  new ModelError('bad-option', `The ${name} must be JSON: ${firstLine(cause)}. Pass only JSON values.`, { cause });

/* Errors of chats and answers */

export const nothingToAnswer = () =>
  new ModelError('bad-state', 'The chat has no message to answer. Call send() first.');

export const resultsMissing = () =>
  new ModelError('bad-state', 'The last answer called tools. Send their results first.');

export const stillAnswering = () =>
  new ModelError('bad-state', 'The chat is still answering. Wait, or abort the answer.');

export const iteratedTwice = () =>
  new ModelError('bad-state', 'An answer can be iterated only once. Use result() or text().');

/* Errors of saved conversations */

/** @param {string} why */
const damaged = (why) =>
  new ModelError('bad-saved', `The saved conversation cannot be read: ${why}. Pass another copy, or start a new chat.`);

export const notSaved = () => damaged('it was not written by chat.save()');

/** @param {number} got @param {number} expected */
export const savedTruncated = (got, expected) => damaged(`it has ${got} of ${expected} bytes`);

export const savedDiffers = () => damaged('its checksum is wrong');

export const savedNotJson = () => damaged('its messages are not JSON');

/** @param {unknown} version @param {number} own */
export const savedVersion = (version, own) =>
  new ModelError(
    'bad-saved',
    `The saved conversation has version ${show(version)}; this release reads version ${own}. Load it with` +
      ' the release that saved it.',
  );

/* Errors of the model */

/** @param {unknown} cause */
export const sourceNotRead = (cause) =>
  failure(
    'unsupported-source',
    'The model source cannot be read',
    cause,
    'Pass a URL, a path, a Blob, bytes or a stream.',
  );

/** @param {unknown} cause */
export const workerNotStarted = (cause) => failure('worker-failed', 'The worker could not be started', cause);

export const disposed = () => new ModelError('disposed', 'The model was disposed of. Load it again.');
