/* trusted: the package's Trusted Types policy. Pages with the content security policy `require-trusted-types-for 'script'`
 * start workers only from addresses that a policy made. */

/** Name of the policy, which a `trusted-types` directive must list. */
const NAME = 'gemma-wasm';

/** @type {{ createScriptURL: (url: string) => any } | null | undefined} */
let policy;

/** Returns an address in the form that `new Worker` and `serviceWorker.register` take in this page.
 * Source: W3C Trusted Types, section 2.2.
 * @param {string | URL} address of a script of this package @returns {any} */
export function trustedScriptUrl(address) {
  try {
    policy ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy(NAME, { createScriptURL: String }) ?? null;
  } catch {
    policy = null; // The page lists other policies only; it may still accept plain addresses.
  }
  return policy?.createScriptURL(String(address)) ?? address;
}
