/**
 * versions: names of the caches with the files of a page version. An open page holds a lock of the same name, so that
 * the service worker keeps the cache.
 * @module
 */

/** Returns the prefix of one page's cache names; other pages on the same host may have other caches.
 * @param {string} home   the page's folder */
export const cachesOf = (home) => `gemma-wasm ${home} `;

/** Returns the name of the cache and of the lock of one version. @param {string} home @param {string} version */
export const cacheOf = (home, version) => cachesOf(home) + version;
