/* isolate: gemma-wasm/isolate, for hosts that cannot set headers (GitHub Pages): a service worker that adds the headers
 * of cross-origin isolation, which threads need, to the responses of the page's origin.
 *
 * This file registers the service worker, and is the service worker. Its folder is the worker's scope, so it must
 * contain the page. */

import { isolated, reloadOnce } from './platform/isolation.js';
import { trustedScriptUrl } from './platform/trusted.js';

/** Runs in the service worker. @param {any} scope global scope */
function serveHeaders(scope) {
  scope.addEventListener('install', () => scope.skipWaiting());
  scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(scope.clients.claim()));
  scope.addEventListener('fetch', (/** @type {any} */ event) => {
    const { request } = event;
    const own = new URL(request.url).origin === location.origin;
    // fetch() accepts the cache mode `only-if-cached` only with the request mode `same-origin`.
    if (own && !(request.cache === 'only-if-cached' && request.mode !== 'same-origin')) {
      event.respondWith(fetch(request).then(isolated));
    }
  });
}

/** Makes the page cross-origin isolated. Reloads the page the first time. Returns whether it is isolated: false if the
 * browser or the host does not allow it.
 * @param {string | URL} [script] URL of this file @returns {Promise<boolean>} */
export async function isolate(script = import.meta.url) {
  if (globalThis.crossOriginIsolated) return true;
  if (!globalThis.isSecureContext || !('serviceWorker' in navigator)) return false;
  const address = trustedScriptUrl(script);
  const registered = await navigator.serviceWorker.register(address, { type: 'module' }).catch(() => null);
  // The promise `ready` never settles for a page outside the worker's scope.
  if (!registered || !location.href.startsWith(registered.scope)) return false;
  await navigator.serviceWorker.ready;
  return reloadOnce();
}

if ('ServiceWorkerGlobalScope' in globalThis) serveHeaders(globalThis);
