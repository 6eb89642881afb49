/* hub: files on Hugging Face, or on a mirror of it, as addresses. */
import { ModelError } from '../errors.js';

export const HUB = 'https://huggingface.co';

/** A file on Hugging Face. Give `file` or `quant`.
 * @typedef {object} HubSource
 * @property {string} repo Repository, as `owner/name`.
 * @property {string} [file] Path of the file in the repository.
 * @property {string} [quant] Quantization as it appears in file names, for example `Q4_K_M`.
 * @property {string} [revision] Branch, tag or commit. Default: main.
 */

/** @param {any} source @returns {source is HubSource} */
export const onHub = (source) => typeof source?.repo === 'string';

/** @param {string} path */
export const escape = (path) => path.split('/').map(encodeURIComponent).join('/');

/** @param {HubSource} source @param {string | URL} [hub] */
export function hubAddress({ repo, file, revision = 'main' }, hub = HUB) {
  if (typeof file !== 'string' || !/^[^/\s]+\/[^/\s]+$/.test(repo) || !file) {
    throw new ModelError('unsupported-source', 'Hugging Face source', {
      expected: '{ repo: "owner/name", file: "path.gguf" } or { repo, quant }',
      got: JSON.stringify({ repo, file }),
    });
  }
  return `${base(hub)}/${escape(repo)}/resolve/${encodeURIComponent(revision)}/${escape(file)}`;
}

/** @param {string | URL} hub */
export const base = (hub) => String(hub).replace(/\/+$/, '');
