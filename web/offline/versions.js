/**
 * versions: how the service worker and its pages speak of versions of the page: by the name of the cache that holds a
 * version's files. A page holds the lock of that name as long as it is open, so that they stay.
 * @module
 */

/** All of one page; other pages of the same host may have other caches.
 * @param {string} home   the page's folder */
export const cachesOf = (home) => `gemma-wasm ${home} `;

/** @param {string} home @param {string} version */
export const cacheOf = (home, version) => cachesOf(home) + version;
