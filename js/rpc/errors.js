/* errors: the errors of this folder. */
import { ModelError, failure } from '../errors.js';

/* Errors of the worker */

const REMEDY = 'Call restart(), or load the model again.';

/** @param {unknown} cause */
export const workerDied = (cause) => failure('worker-failed', 'The worker died', cause, REMEDY);

/** @param {number} seconds */
export const workerSilent = (seconds) =>
  new ModelError('worker-failed', `The worker did not respond for ${seconds} s. ${REMEDY}`);

export const workerReplaced = () =>
  new ModelError(
    'worker-failed',
    'The worker was ended by restart(). If restart() failed, call it again; then repeat the call.',
  );

export const readOnce = () =>
  new ModelError(
    'unsupported-source',
    'The model cannot be loaded again: its source can be read only once. Load it from a URL, a path or a Blob, or' +
      ' from bytes with `restart: true`.',
  );

/* Errors of calls */

/** @param {number} most @param {number} got */
export const tooMuchText = (most, got) =>
  new ModelError('bad-option', `A call may have at most ${most} characters of text (got ${got}). Pass less text.`);

/** @param {unknown} cause */
export const notPosted = (cause) =>
  failure('bad-option', 'The arguments could not be posted to the worker', cause, 'Pass plain data.');

/** @param {unknown} cause */
export const callbackFailed = (cause) => failure('bad-option', 'A progress callback failed', cause, 'Correct it.');
