/* trusted: the package's Trusted Types policy. Pages with the content security policy `require-trusted-types-for
 * 'script'` start workers only from URLs that a Trusted Types policy created. */

/** Name of the package's Trusted Types policy, which a `trusted-types` directive must list. */
const NAME = 'gemma-wasm';

/** @type {{ createScriptURL: (url: string) => any } | null | undefined} */
let policy;

/** Returns a script's URL in the form that `new Worker` and `serviceWorker.register` accept in this page. Source: W3C
 * Trusted Types, section 2.2.
 * @param {string | URL} address URL of a script of this package @returns {any} */
export function trustedScriptUrl(address) {
  try {
    policy ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy(NAME, { createScriptURL: String }) ?? null;
  } catch {
    policy = null; // The page's `trusted-types` directive lacks this policy, but the page may still accept plain URLs.
  }
  return policy?.createScriptURL(String(address)) ?? address;
}
