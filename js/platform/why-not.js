/* why-not: finds the likely reason why a script of the package did not start as a worker. */
import { missing } from './files.js';

/** Requests the script of a worker that did not start, and returns an error with the likely reason.
 * @param {string} address URL of the script */
export async function whyNot(address) {
  const reason = await fetch(address, { cache: 'no-store' }).then(
    ({ ok, status, headers }) => {
      if (!ok) return missing(`status ${status}`);
      const type = headers.get('content-type') ?? 'none';
      if (!/javascript/.test(type)) return missing(`its content type is ${type}`);
      return (
        'The file is there. Either the page is isolated and the file lacks the header Cross-Origin-Embedder-Policy, or a' +
        ' content security policy forbids workers.'
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
