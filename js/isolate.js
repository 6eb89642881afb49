/* isolate: gemma-wasm/isolate, for pages of hosts that set no headers (GitHub Pages): a service worker that answers the
 * page's own requests with the headers of cross-origin isolation, which threads need.
 *
 * This one file is both: imported by the page it registers itself, and runs as that service worker. It must lie where
 * it may serve the page from: a service worker's scope is its folder. */

import { isolated, reloadOnce } from './platform/isolation.js';
import { trustedScriptUrl } from './platform/trusted.js';

/** @param {any} scope a service worker's */
function serveHeaders(scope) {
  scope.addEventListener('install', () => scope.skipWaiting());
  scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(scope.clients.claim()));
  scope.addEventListener('fetch', (/** @type {any} */ event) => {
    const { request } = event;
    const own = new URL(request.url).origin === location.origin;
    // What a cache alone may answer is not ours to ask for.
    if (own && !(request.cache === 'only-if-cached' && request.mode !== 'same-origin')) {
      event.respondWith(fetch(request).then(isolated));
    }
  });
}

/** Makes the page isolated; it is loaded once more for that, the first time. Gives whether it is, and false where
 * the browser does not play along.
 * @param {string | URL} [script] this file, where the page has it @returns {Promise<boolean>} */
export async function isolate(script = import.meta.url) {
  if (globalThis.crossOriginIsolated) return true;
  if (!globalThis.isSecureContext || !('serviceWorker' in navigator)) return false;
  const address = trustedScriptUrl(script);
  const registered = await navigator.serviceWorker.register(address, { type: 'module' }).catch(() => null);
  if (!registered) return false;
  await navigator.serviceWorker.ready;
  return reloadOnce();
}

if ('ServiceWorkerGlobalScope' in globalThis) serveHeaders(globalThis);
