/* isolation: the headers of cross-origin isolation, which threads need, and functions with which a service worker
 * adds them for hosts that do not send them. */

export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
const TRIED = 'gemma-wasm-isolate';

/** Returns a response with the headers of cross-origin isolation. @param {Response} response */
export function isolated(response) {
  // An opaque response cannot be changed, and does not need the headers.
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response([204, 205, 304].includes(status) ? null : response.body, { status, statusText, headers });
}

/** Reloads the page, because only a new document can be isolated. The promise then stays pending. If the tab has
 * reloaded before, resolves with false instead, because a page that cannot be isolated would reload forever. */
export async function reloadOnce() {
  try {
    if (sessionStorage.getItem(TRIED)) return false;
    sessionStorage.setItem(TRIED, '1');
  } catch {
    return false; // without session storage, a second reload could not be recognised
  }
  location.reload();
  return new Promise(() => {});
}
