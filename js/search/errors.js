/* errors: the errors of search indexes. */
import { ModelError, failure } from '../errors.js';

// Errors of arguments

/** @param {'item' | 'option'} what @param {string} got kind of the value */
export const notAnObject = (what, got) =>
  new ModelError(
    'bad-option',
    `${what === 'item' ? 'An item' : 'The options argument'} must be an object (got ${got}).`,
  );

/** @param {'item' | 'option'} what @param {string} got @param {string[]} names */
export const unknownName = (what, got, names) =>
  new ModelError(
    'bad-option',
    `There is no ${what === 'item' ? 'item field' : 'option'} \`${got}\`. Use only ${names.join(', ')}.`,
    { got },
  );

/** @param {string} name @param {string} expected completes "must be …" @param {unknown} got */
export const wrongOption = (name, expected, got) =>
  new ModelError(
    'bad-option',
    `\`${name}\` must be ${expected} (got ${typeof got === 'string' ? `"${got}"` : String(got)}).`,
  );

/** @param {string} got */
export const notJson = (got) =>
  new ModelError('bad-option', `\`data\` must be a value that JSON can represent (got ${got}).`, { got });

/** @param {number} dimensions @param {string} got */
export const wrongVector = (dimensions, got) =>
  new ModelError('bad-option', `\`vector\` must have ${dimensions} finite numbers (got ${got}).`, { got });

/** @param {'name' | 'folder'} place */
export const noPlace = (place) =>
  new ModelError('bad-option', `\`${place}\` is missing. Pass the ${place} of the index.`);

// Errors of files of an index

const RETRY = 'Check the storage, and try again.';
const REBUILD = 'Delete the index with deleteIndex(), and add its items again.';

/** @param {string} done participle @param {unknown} cause */
export const indexFailed = (done, cause) =>
  failure('index-failed', `The search index could not be ${done}`, cause, RETRY);

/** @param {string} name @param {unknown} cause */
export const fileNotRemoved = (name, cause) =>
  failure('index-failed', `The file ${name} could not be removed`, cause, RETRY);

/** @param {string} name */
export const corruptFile = (name) =>
  new ModelError('index-failed', `${name} is corrupt, or not a file of a search index. ${REBUILD}`);

/** @param {string} name @param {number} expected @param {number} got */
export const otherDimensions = (name, expected, got) =>
  new ModelError(
    'index-failed',
    `${name} has vectors of ${got} dimensions, not ${expected}. Pass \`dimensions: ${got}\` to openIndex() and to` +
      ` embed() to use the index. Otherwise: ${REBUILD}`,
    { expected, got },
  );

/** @param {string} name @param {number} expected bytes @param {number} got */
export const wrongSize = (name, expected, got) =>
  new ModelError('index-failed', `${name} has ${got} bytes instead of ${expected}. ${REBUILD}`, {
    expected: `${expected} bytes`,
    got,
  });

/** @param {string} name */
export const notFinite = (name) =>
  new ModelError('index-failed', `${name} has a vector that is not finite. ${REBUILD}`);

/** @param {string} last name of the last file */
export const noNumbersLeft = (last) =>
  new ModelError(
    'index-failed',
    `No file can follow ${last}, which has the highest number. Remove it if this index did not write it.` +
      ` Otherwise: ${REBUILD}`,
  );

// Errors of the platform

/** @param {unknown} cause */
export const noModule = (cause) =>
  failure('engine-missing', 'gemma-simd128.wasm could not be loaded', cause, 'Copy it beside the script.');

/** The cause for indexFailed() on pages without https. */
export const noFileSystem = () =>
  new Error('Pages without https have no private file system. Serve the page over https.');
