/* why-not: finds the likely reason why a script of the package did not start as a worker. The messages are here and
 * not in errors.js, because this module is only loaded for them. */
import { missing } from './errors.js';

/** Requests the script of a worker that did not start, and returns an error with the likely reason.
 * @param {string} address URL of the script */
export async function whyNot(address) {
  const reason = await fetch(address, { cache: 'no-store' }).then(
    ({ ok, status, headers }) => {
      if (!ok) return missing(`status ${status}`);
      const type = headers.get('content-type') ?? 'none';
      if (!/javascript/.test(type)) return missing(`its content type is ${type}`);
      return (
        'The file can be downloaded, but it does not start as a worker. If the page is cross-origin isolated, the' +
        ' file needs the header Cross-Origin-Embedder-Policy. A content security policy must allow the worker.'
      );
    },
    (error) =>
      `${error.message}: ${
        globalThis.origin === 'null'
          ? 'this frame is sandboxed, so the server must allow the origin null by CORS, or the frame needs allow-same-origin.'
          : 'the server does not allow this origin by CORS, or a content security policy forbids the address.'
      }`,
  );
  return new Error(`${address}: ${reason}`);
}
