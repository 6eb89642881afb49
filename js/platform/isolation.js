/* isolation: the headers that make a page cross-origin isolated, which shared memory and so threads need; and answers
 * that get them from a service worker, for pages of hosts that send none. */

export const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
const TRIED = 'gemma-wasm-isolate';

/** @param {Response} response */
export function isolated(response) {
  // Of another origin without CORS: nothing of it can be changed, nor need it be.
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response([204, 205, 304].includes(status) ? null : response.body, { status, statusText, headers });
}

/** Loads the page once more, since only a new document can be isolated; the promise never ends then. Once a tab: a page
 * that cannot be isolated would be loaded again and again. Gives false where it has been done before. */
export async function reloadOnce() {
  try {
    if (sessionStorage.getItem(TRIED)) return false;
    sessionStorage.setItem(TRIED, '1');
  } catch {
    return false; // without storage a second reload cannot be told from the first
  }
  location.reload();
  return new Promise(() => {});
}
