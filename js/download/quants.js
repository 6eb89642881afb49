/* quants: finds the file of a Hugging Face repository that has a given quantisation. The hub lists a repository's files
 * as `siblings` of GET api/models/REPO/revision/REVISION. Loaded on first use. */
/** @import { HubSource } from './hub.js' */
import { abortError } from '../errors.js';
import { environment } from '../platform/env.js';
import { listRefused, listUnread, noAnswer, noSuchQuant } from './later-errors.js';
import { HUB, base, escape, hubAddress } from './hub.js';

/** Time limit of the request for the list of files, in ms. */
const STALL_MS = 20_000;

/** Access to the hub. hub: URL of a mirror; kept: returns the URLs of completely cached files, which can be used
 * without a network.
 * @typedef {{ hub?: string | URL, headers: [string, string][], signal?: AbortSignal,
 *   kept: () => Promise<string[]> }} Access */

/** Returns the source with `file` set to the file that has its quantisation. If several have it, chooses the one with
 * the shortest name. Throws `unsupported-source` if no file has it, `http-error` or `network-error` if the hub cannot
 * be read.
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
  throw noSuchQuant(source.repo, quant, got);
}

/** Returns the names of the GGUF files in a repository; for a split model, only the first file.
 * @param {HubSource} source @param {Access} access @returns {Promise<string[]>} */
async function filesOf({ repo, revision = 'main' }, access) {
  const { hub = HUB, headers, signal } = access;
  const address = `${base(hub)}/api/models/${escape(repo)}/revision/${encodeURIComponent(revision)}`;
  const { stallMs = STALL_MS } = { ...environment.tuning };
  const abort = new AbortController();
  const stop = () => abort.abort(noAnswer(stallMs));
  const timer = setTimeout(stop, stallMs);
  signal?.addEventListener('abort', stop);
  try {
    if (signal?.aborted) stop();
    const response = await fetch(address, { headers, signal: abort.signal });
    if (!response.ok) throw listRefused(address, response.status);
    /** @type {{ siblings?: { rfilename: string }[] }} */
    const { siblings = [] } = await response.json();
    return siblings.map(({ rfilename }) => rfilename).filter(isModel);
  } catch (cause) {
    if (signal?.aborted) throw abortError(signal);
    const before = hubAddress({ repo, revision, file: '-' }, hub).slice(0, -1);
    const here = (await access.kept().catch(() => [])).filter((url) => url.startsWith(before));
    const names = here.map((url) => decodeURIComponent(url.slice(before.length).split('?')[0])).filter(isModel);
    if (names.length) return names;
    throw listUnread(address, cause);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}

/** @param {string} name */
const isModel = (name) =>
  /\.gguf$/i.test(name) && !/mmproj/i.test(name) && (!/-\d{5}-of-\d{5}\.gguf$/i.test(name) || /-00001-of-/.test(name));

/** Returns whether a file name contains a quantisation as a whole word, so that Q4_K does not match Q4_K_M.
 * @param {string} name @param {string} quant */
function has(name, quant) {
  const plain = quant.toLowerCase().replace(/[^a-z0-9_]/g, '.');
  return new RegExp(`(^|[^a-z0-9_])${plain}([^a-z0-9_]|$)`).test(name.toLowerCase());
}
