/* errors: the errors of this folder, and of the workers' entries. */
import { ModelError, failure, messageOf } from '../errors.js';

/** Message for a scope that cannot start the engine. */
export const NO_WORKERS =
  'Service workers and shared workers cannot start the engine. Load the model in a page or a dedicated worker.';

export const noWorkers = () => new ModelError('unsupported-platform', NO_WORKERS);

/** @param {unknown} cause */
export const wasmForbidden = (cause) =>
  new ModelError(
    'unsupported-platform',
    "The content security policy forbids WebAssembly. Add 'wasm-unsafe-eval' to its script-src.",
    { cause },
  );

/** Returns the error message for a file that could not be loaded. @param {string} why */
export const missing = (why) => `${why}. Check that the bundler copied the file, or pass its folder as \`baseUrl\`.`;

/** The cause of the error for a file that could not be loaded. @param {unknown} cause
 * @param {string} [where] a space and the file's address in parentheses */
export const notFound = (cause, where = '') => new Error(missing(messageOf(cause) + where), { cause });

/** The cause of notFound() for an error status of HTTP. @param {number} status */
export const badStatus = (status) => new Error(`the server answered status ${status}`);

/** @param {string} address @param {unknown} cause */
export const notImported = (address, cause) =>
  failure('engine-missing', `${address} could not be imported`, notFound(cause));

/* Errors in Node */

/** The cause of the error for a worker that ended. @param {number} status */
export const workerEnded = (status) => new Error(`it ended with status ${status}`);

/** The cause of the error for a worker whose script is missing. @param {string} script @param {unknown} cause */
export const packageNotFound = (script, cause) =>
  new Error(
    `${script} does not exist, and the package is not installed in ${process.cwd()}. Leave gemma-wasm out of the` +
      ' bundle (external), copy its files beside the bundle, or pass their folder as `baseUrl`.',
    { cause },
  );
