/* cache: lists and deletes cached models and estimates the storage. Loading fills the cache (download.js). */
import { isComplete, isModel, readJournal } from './entries.js';
import { environment } from '../platform/env.js';
import { badKey, badStore, cacheFailed } from './errors.js';
/** @import { StorageUse, Store } from '../protocol.js' */

/** A cached file.
 * @typedef {object} CacheEntry
 * @property {string} key Key for `delete`.
 * @property {string} url URL of the file, without secrets in its query.
 * @property {string} file File name in the URL.
 * @property {number} stored Bytes that are cached.
 * @property {number} total Bytes of the whole file.
 * @property {boolean} complete Whether the file can be loaded without the network.
 * @property {Date} lastUsed Time of the last use.
 */

/** A cache of models. Lists and deletes its files. */
export class ModelCache {
  /** @type {string | Store | undefined} */
  #where;
  /** @type {Store | Promise<Store> | undefined} */
  #store;

  /** @internal @param {string | Store} [where] */
  constructor(where) {
    this.#where = where;
  }

  /** Lists the cached files, latest use first. @returns {Promise<CacheEntry[]>} */
  async list() {
    return this.#with(async (store) => {
      const entries = (await store.list()).filter(isModel).map(async (key) => {
        // An entry that cannot be read, for example because another tab is writing it, is listed without details.
        const journal = await readJournal(store, key).catch(() => null);
        const size = () => store.size(key).catch(() => 0);
        const { url = '', have = [], total = await size(), used = 0 } = journal ?? {};
        return {
          key,
          url,
          file: url.split('?')[0].replace(/.*\//, ''),
          total,
          stored: have.reduce((sum, [a, b]) => sum + b - a, 0),
          complete: journal !== null && isComplete(journal),
          lastUsed: new Date(used),
        };
      });
      return (await Promise.all(entries)).sort((a, b) => Number(b.lastUsed) - Number(a.lastUsed));
    });
  }

  /** Returns the entry of a cached file, or undefined if the file is not cached. @param {string} key of the entry */
  async get(key) {
    return (await this.list()).find((entry) => entry.key === key);
  }

  /** Returns how much storage is used, as far as the platform knows.
   * @returns {Promise<StorageUse>} */
  estimate() {
    return this.#with(async (store) => store.estimate?.() ?? {});
  }

  /** Asks the browser not to clear the storage automatically. The browser may ask the user. Returns whether the browser
   * agreed; always true in Node. */
  persist() {
    return this.#with(async (store) => (await store.persist?.()) ?? true);
  }

  /** Deletes a cached file. @param {string} key of its entry in list() */
  async delete(key) {
    if (typeof key !== 'string' || !isModel(key)) throw badKey(key);
    return this.#with((store) => store.remove(key));
  }

  /** Deletes all cached models. Throws `cache-failed` if one of them cannot be deleted. */
  clear() {
    return this.#with(async (store) => {
      /** @type {unknown[]} */
      const left = [];
      for (const key of (await store.list()).filter(isModel)) {
        await store.remove(key).catch((error) => left.push(error));
      }
      if (left.length) throw left[0];
    });
  }

  /** Description of the cache for the worker: its folder, or `remote` if the store is an object of the client.
   * @internal */
  get descriptor() {
    return typeof this.#where === 'object' ? { remote: true } : { folder: this.#where };
  }

  /** The store that the caller passed, if any. @internal */
  get own() {
    return typeof this.#where === 'object' ? this.#where : undefined;
  }

  /** @template T @param {(store: Store) => Promise<T>} f @returns {Promise<T>} */
  async #with(f) {
    try {
      this.#store ??= typeof this.#where === 'object' ? this.#where : environment.openStore(this.#where);
      const opening = Promise.resolve(this.#store);
      opening.catch(() => (this.#store = undefined)); // after a failed import of the store, the next call tries again
      return await f(await opening);
    } catch (cause) {
      throw cacheFailed(cause);
    }
  }
}

/** The default cache: the origin private file system of a browser; in Node $XDG_CACHE_HOME/gemma-wasm or
 * ~/.cache/gemma-wasm. */
export const modelCache = new ModelCache();

/** Returns the cache that the option `cache` selects; with false, the default one.
 * @param {ModelCache | boolean} [cache] */
export const cacheOf = (cache) => (cache instanceof ModelCache ? cache : modelCache);

/** Opens a cache in a folder (Node), or in a custom store. Throws `bad-option`. @param {string | Store} where */
export function openCache(where) {
  const own = ['list', 'size', 'read', 'write', 'remove'];
  const fits =
    typeof where === 'string' ? where : own.every((name) => typeof (/** @type {any} */ (where)?.[name]) === 'function');
  if (fits) return new ModelCache(where);
  throw badStore(where, own);
}
