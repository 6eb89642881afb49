/**
 * versions: names of page versions, shared by the service worker and its pages: the name of the cache with a version's
 * files. An open page holds the lock of that name, so that the files stay.
 * @module
 */

/** Returns the prefix of one page's cache names; other pages of the same host may have other caches.
 * @param {string} home   the page's folder */
export const cachesOf = (home) => `gemma-wasm ${home} `;

/** @param {string} home @param {string} version */
export const cacheOf = (home, version) => cachesOf(home) + version;
