/* quants: of a repository whose file is not named, the one with the quantisation that is wanted. The list is the hub's
 * own: GET api/models/REPO/revision/REVISION, of which `siblings` are the files. Loaded when it is first used. */
/** @import { HubSource } from './hub.js' */
import { ModelError, failure } from '../errors.js';
import { HUB, base, escape, hubAddress } from './hub.js';

/** hub: of a mirror; kept: addresses of whole files in the cache, for when there is no network.
 * @typedef {{ hub?: string | URL, headers: [string, string][], signal?: AbortSignal,
 *   kept: () => Promise<string[]> }} Access */

/** With the file's name, which it has not.
 * @param {HubSource} source @param {Access} access @returns {Promise<HubSource>} */
export async function withFile(source, access) {
  const { quant } = source;
  if (typeof quant !== 'string') return source;
  const names = await filesOf(source, access);
  const [found] = names.filter((name) => has(name, quant)).sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  if (found) return { ...source, file: found };
  const got =
    names
      .map((name) => name.replace(/.*\//, ''))
      .join(', ')
      .slice(0, 400) || 'no GGUF files';
  throw new ModelError('unsupported-source', `files of ${source.repo}`, { expected: `one with ${quant}`, got });
}

/** Whole models, of split ones the first part.
 * @param {HubSource} source @param {Access} access @returns {Promise<string[]>} */
async function filesOf({ repo, revision = 'main' }, access) {
  const { hub = HUB, headers, signal } = access;
  const address = `${base(hub)}/api/models/${escape(repo)}/revision/${encodeURIComponent(revision)}`;
  try {
    const response = await fetch(address, { headers, signal });
    const got = `status ${response.status}`;
    if (!response.ok) throw new ModelError('http-error', address, { expected: 'status 200', got });
    /** @type {{ siblings?: { rfilename: string }[] }} */
    const { siblings = [] } = await response.json();
    return siblings.map(({ rfilename }) => rfilename).filter(isModel);
  } catch (cause) {
    if (signal?.aborted) throw new ModelError('aborted', 'the call was aborted', { cause: signal.reason });
    const before = hubAddress({ repo, revision, file: '-' }, hub).slice(0, -1);
    const here = (await access.kept()).filter((url) => url.startsWith(before));
    const names = here.map((url) => decodeURIComponent(url.slice(before.length).split('?')[0]));
    if (names.length) return names;
    throw failure('network-error', `${address} could not be read`, cause);
  }
}

/** @param {string} name */
const isModel = (name) =>
  /\.gguf$/i.test(name) && !/mmproj/i.test(name) && (!/-\d{5}-of-\d{5}\.gguf$/i.test(name) || /-00001-of-/.test(name));

/** As a word of its own: Q4_K is not Q4_K_M. @param {string} name @param {string} quant */
function has(name, quant) {
  const plain = quant.toLowerCase().replace(/[^a-z0-9_]/g, '.');
  return new RegExp(`(^|[^a-z0-9_])${plain}([^a-z0-9_]|$)`).test(name.toLowerCase());
}
