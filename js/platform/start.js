/* start: starts the package's scripts as workers, wherever they lie: beside the page's scripts, hashed by a bundler, on
 * another origin. */
/** @import { Place } from './files.js' */
import { missing } from './files.js';

/** Where Vite (up to 7) and those that use it keep what they bundled of packages while one develops: one script alone,
 * without the files that it names. They still serve the package itself. */
const PREBUNDLED = /^(.*?)\/(?:node_modules\/)?\.[\w-]+\/(?:[^?]*\/)?deps\/([\w.-]+)(?:\?.*)?$/;

/** Where this code lies, in a script that is no module. */
const CLASSIC = /** @type {HTMLScriptElement | null | undefined} */ (globalThis.document?.currentScript)?.src;

/** By address: scripts that import one of another origin.
 * @type {Map<string, string>} */
const blobs = new Map();

/** `start` holds the literal `new Worker(new URL(…))` that bundlers look for. What address they made of it only
 * that call tells: so `Worker` is ours while it runs.
 * @param {() => Worker} start @param {string} name @param {Place} place
 * @returns {{ worker: Worker, address: string }} */
export function startScript(start, name, { assets, files }) {
  const Usual = globalThis.Worker;
  let address = '';
  /** @param {string | URL} url @param {WorkerOptions} options */
  const Ours = function (url, options) {
    const said = assets ? new URL(name, assets).href : files?.[name];
    address = said ?? packaged(new URL(url, location.href).href);
    const script = ownOrigin(address);
    return new Usual(script, said || script !== address ? { ...options, type: 'module' } : options);
  };
  /** @type {any} */ (globalThis).Worker = Ours;
  try {
    return { worker: start(), address };
  } catch (error) {
    // A classic script does not know its address as import.meta.url: files lie beside it.
    if (address || !CLASSIC) throw error;
    return { worker: Ours(new URL(name, CLASSIC), { type: 'module' }), address };
  } finally {
    globalThis.Worker = Usual;
  }
}

/** @param {string} address */
const packaged = (address) => address.replace(PREBUNDLED, '$1/node_modules/gemma-wasm/dist/$2');

/** Browsers start workers of the page's own origin only; modules they import from any origin that allows it. A policy
 * has to allow `worker-src blob:` then, and only then. @param {string} address */
function ownOrigin(address) {
  if (!/^https?:/.test(address) || new URL(address).origin === location.origin) return address;
  const known = blobs.get(address);
  if (known) return known;
  const code = new Blob([`import ${JSON.stringify(address)};`], { type: 'text/javascript' });
  const blob = URL.createObjectURL(code);
  blobs.set(address, blob);
  return blob;
}

/** Why a script did not start, as far as one can find out. @param {string} address */
export async function whyNot(address) {
  const reason = await fetch(address, { cache: 'no-store' }).then(
    ({ ok, status, headers }) => {
      if (!ok) return `status ${status}`;
      const type = headers.get('content-type') ?? 'none';
      if (!/javascript/.test(type)) return `its content type is ${type}`;
      return 'it is there; the page is isolated and it has no Cross-Origin-Embedder-Policy header, or a policy forbids it';
    },
    (error) => `${error.message}, as without CORS, or where a policy forbids it`,
  );
  return new Error(`${address}: ${missing(reason)}`);
}
