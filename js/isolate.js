/* isolate: gemma-wasm/isolate, for pages of hosts that set no headers (GitHub Pages): a service worker that answers the
 * page's own requests with the headers of cross-origin isolation, which threads need.
 *
 * This one file is both: imported by the page it registers itself, and runs as that service worker. It must lie where
 * it may serve the page from: a service worker's scope is its folder. */

const HEADERS = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };
const TRIED = 'gemma-wasm-isolate';

/** @param {Request} request */
async function withHeaders(request) {
  const response = await fetch(request);
  // Of another origin without CORS: nothing of it can be changed, nor need it be.
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response([204, 205, 304].includes(status) ? null : response.body, { status, statusText, headers });
}

/** @param {any} scope a service worker's */
function serveHeaders(scope) {
  scope.addEventListener('install', () => scope.skipWaiting());
  scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(scope.clients.claim()));
  scope.addEventListener('fetch', (/** @type {any} */ event) => {
    const { request } = event;
    const own = new URL(request.url).origin === location.origin;
    // What a cache alone may answer is not ours to ask for.
    if (own && !(request.cache === 'only-if-cached' && request.mode !== 'same-origin')) {
      event.respondWith(withHeaders(request));
    }
  });
}

/** Makes the page isolated; it is loaded once more for that, the first time. Gives whether it is, and false where
 * the browser does not play along.
 * @param {string | URL} [script] this file, where the page has it @returns {Promise<boolean>} */
export async function isolate(script = import.meta.url) {
  if (globalThis.crossOriginIsolated) return true;
  if (!globalThis.isSecureContext || !('serviceWorker' in navigator)) return false;
  // Once only: a page that cannot be isolated would be loaded again and again.
  if (sessionStorage.getItem(TRIED)) return false;
  const registered = await navigator.serviceWorker.register(script, { type: 'module' }).catch(() => null);
  if (!registered) return false;
  await navigator.serviceWorker.ready;
  sessionStorage.setItem(TRIED, '1');
  location.reload();
  return new Promise(() => {});
}

if ('ServiceWorkerGlobalScope' in globalThis) serveHeaders(globalThis);
