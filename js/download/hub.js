/* hub: URLs of files on Hugging Face or a mirror. */
import { badHubSource } from './errors.js';

export const HUB = 'https://huggingface.co';

/** A file on Hugging Face. Give `file` or `quant`.
 * @typedef {object} HubSource
 * @property {string} repo Repository, as `owner/name`.
 * @property {string} [file] Path of the file in the repository.
 * @property {string} [quant] Quantization as it appears in file names, for example `Q4_K_M`.
 * @property {string} [revision] Branch, tag or commit. Default: main.
 */

/** Returns whether a source names a repository. @param {any} source @returns {source is HubSource} */
export const onHub = (source) => typeof source?.repo === 'string';

/** Percent-encodes each segment of a path. @param {string} path */
export const escape = (path) => path.split('/').map(encodeURIComponent).join('/');

/** Returns the URL of a file on the hub. Throws `unsupported-source` if the repository or the file is not valid.
 * @param {HubSource} source @param {string | URL} [hub] a mirror */
export function hubAddress({ repo, file, revision = 'main' }, hub = HUB) {
  if (typeof file !== 'string' || !/^[^/\s]+\/[^/\s]+$/.test(repo) || !file) {
    throw badHubSource(JSON.stringify({ repo, file }));
  }
  return `${base(hub)}/${escape(repo)}/resolve/${encodeURIComponent(revision)}/${escape(file)}`;
}

/** Returns the URL of the hub without a slash at the end. @param {string | URL} hub */
export const base = (hub) => String(hub).replace(/\/+$/, '');
