/* later-errors: the errors of this folder's modules that are loaded on first use. Not in errors.js, so that a page's
 * first load is smaller. */
import { ModelError, failure } from '../errors.js';

/** @param {string} repo @param {string} quant @param {string} got names of the repository's files */
export const noSuchQuant = (repo, quant, got) =>
  new ModelError('unsupported-source', `${repo} has no file with ${quant}. The repository has ${got}.`, { got });

/** @param {string} got */
export const notBytes = (got) =>
  new ModelError('read-error', `A stream of a model must yield bytes (got ${got}).`, { got });

/** @param {string} address @param {number} status */
export const listRefused = (address, status) => {
  const got = `status ${status}`;
  const remedy = 'Check the repository and the revision; private repositories need a `token`.';
  return new ModelError('http-error', `The server answered ${got} for ${address}. ${remedy}`, { got });
};

/** @param {string} address @param {unknown} cause */
export const listUnread = (address, cause) =>
  failure(
    'network-error',
    `The list of files at ${address} could not be read`,
    cause,
    'Pass `file` instead of `quant`.',
  );

/** The `cause` of listUnread() if there is no answer within `ms` milliseconds. @param {number} ms */
export const noAnswer = (ms) => new Error(`the server did not answer within ${ms} ms`);
