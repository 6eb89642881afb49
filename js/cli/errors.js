/* errors: the errors of the command line. */
import { failure, messageOf } from '../errors.js';

/** The error of a wrong command line. The program exits with status 2. */
export class UsageError extends Error {}

// Errors of commands and arguments

export const noCommand = () => new UsageError('Pass a command.');

/** @param {string} name */
export const unknownCommand = (name) => new UsageError(`There is no command "${name}".`);

/** @param {string} command @param {string} what the missing arguments or flags */
export const incomplete = (command, what) => new UsageError(`${command} needs ${what}.`);

/** The error for flags that parseArgs() of Node refused. @param {unknown} cause */
export const wrongFlags = (cause) => new UsageError(messageOf(cause).replace(/\.?$/, '.'));

/** @param {string} one @param {string} other flags */
export const cannotCombine = (one, other) =>
  new UsageError(`--${one} and --${other} cannot be combined. Use one of them.`);

export const thinkingOnAndOff = () =>
  new UsageError('--no-thinking cannot be combined with --thinking or --thinking-budget. Leave one out.');

/** @param {string} flag @param {string} expected completes "must be …" @param {string} got */
export const wrongValue = (flag, expected, got) => new UsageError(`--${flag} must be ${expected} (got "${got}").`);

export const wrongRuns = () =>
  new UsageError('--prompt-tokens, --gen-tokens and --runs must be whole numbers above 0.');

// Errors of files

/** @param {string} path */
export const emptyText = (path) => new Error(`${path} is empty. Pass a file with text to score.`);

/** @param {string} path @param {unknown} cause */
export const schemaNotJson = (path, cause) => new UsageError(notJson(path, cause).message);

/** @param {string} name of the source @param {unknown} cause */
export const notJson = (name, cause) => failure('bad-format', `${name} is not valid JSON`, cause, 'Correct it.');

// Errors of the server

/** @param {number} models @param {number} names */
export const wrongNames = (models, names) =>
  new UsageError(`--name must be given once for each model (models: ${models}, names: ${names}).`);

/** @param {string} name */
export const sameName = (name) => new UsageError(`Two models have the name "${name}". Name each with --name.`);

/** @param {string} name */
export const badName = (name) =>
  new UsageError(
    `"${name}" cannot be the name of a model. With --name, choose 1 to 200 characters without white space.`,
  );

/** @param {string} host @param {number} port @param {unknown} cause */
export const portInUse = (host, port, cause) =>
  new Error(`Port ${port} of ${host} is in use. Choose another with --port.`, { cause });

/** @param {string} host @param {number} port @param {Error} cause */
export const cannotListen = (host, port, cause) =>
  new Error(`Cannot listen on ${host}, port ${port}: ${cause.message}. Choose others with --host and --port.`, {
    cause,
  });
