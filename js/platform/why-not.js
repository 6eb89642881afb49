/* why-not: finds the likely reason why a script of the package did not start as a worker. The messages are here and
 * not in errors.js, because this module is only loaded for them. */
import { missing } from './errors.js';

/** Requests the script of a worker that did not start, and returns an error with the likely reason.
 * @param {string} address URL of the script */
export async function whyNot(address) {
  /** The part of the error message after the address. */
  const reason = await fetch(address, { cache: 'no-store' }).then(
    ({ ok, status, headers }) => {
      if (!ok) return missing(` answered status ${status}`);
      const type = headers.get('content-type') ?? 'none';
      if (!/javascript/.test(type)) return missing(` has the content type ${type}`);
      return (
        ' can be downloaded, but does not start as a worker. If the page is cross-origin isolated, the file needs the' +
        ' header Cross-Origin-Embedder-Policy. A content security policy must allow the worker.'
      );
    },
    (error) =>
      ` could not be downloaded (${error.message}). ${
        globalThis.origin === 'null'
          ? 'This frame is sandboxed: it needs allow-same-origin, or the server must allow the origin null by CORS.'
          : 'CORS does not allow this page to read it, or a content security policy forbids the address.'
      }`,
  );
  return new Error(address + reason);
}
