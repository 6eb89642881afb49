/* start: starts the package's scripts as workers: beside the page's scripts, renamed by a bundler, or on another
 * origin. */
import { ModelError } from '../errors.js';
import { trustedScriptUrl } from './trusted.js';
/** @import { Place } from '../protocol.js' */

/** Vite up to 7, and tools based on it, bundle a package into one script during development, without the files that the
 * script names. They still serve the package itself. */
const PREBUNDLED = /^(.*?)\/(?:node_modules\/)?\.[\w-]+\/(?:[^?]*\/)?deps\/([\w.-]+)(?:\?.*)?$/;

/** The URL of this code in a classic script. */
const CLASSIC = /** @type {HTMLScriptElement | null | undefined} */ (globalThis.document?.currentScript)?.src;

/** Returns why this scope cannot run the engine, '' if it can. */
export function obstacle() {
  return globalThis.Worker
    ? ''
    : 'Service workers and shared workers cannot start the worker that runs the engine: load' +
        ' the model in a page or in a dedicated worker.';
}

/** URLs of scripts that import one of another origin, by its URL.
 * @type {Map<string, string>} */
const blobs = new Map();

/** Starts a worker. `start` contains the literal `new Worker(new URL(…))` that bundlers look for. Only that call knows the
 * URL that they insert, so `Worker` is replaced while it runs. Throws `unsupported-platform`.
 * @param {() => Worker} start @param {string} name @param {Place} place
 * @returns {{ worker: Worker, address: string }} */
export function startScript(start, name, { baseUrl, files }) {
  const Usual = globalThis.Worker;
  if (obstacle()) throw new ModelError('unsupported-platform', obstacle());
  let address = '';
  /** @param {string | URL} url @param {WorkerOptions} options */
  const Ours = function (url, options) {
    const said = baseUrl ? new URL(name, baseUrl).href : files?.[name];
    address = said ?? packaged(new URL(url, location.href).href);
    const script = ownOrigin(address);
    return new Usual(trustedScriptUrl(script), said || script !== address ? { ...options, type: 'module' } : options);
  };
  /** @type {any} */ (globalThis).Worker = Ours;
  try {
    return { worker: start(), address };
  } catch (error) {
    // A classic script has no import.meta.url: the files are beside it.
    if (address || !CLASSIC) throw error;
    return { worker: Ours(new URL(name, CLASSIC), { type: 'module' }), address };
  } finally {
    globalThis.Worker = Usual;
  }
}

/** @param {string} address */
const packaged = (address) => address.replace(PREBUNDLED, '$1/node_modules/gemma-wasm/dist/$2');

/** Returns an address of the page's own origin for a script. Browsers start workers of that origin only; a module may
 * import scripts of any origin that allows it. Only here a content security policy has to allow `worker-src blob:`.
 * A sandboxed frame has the origin 'null', unlike its `location.origin`. @param {string} address */
function ownOrigin(address) {
  if (!/^https?:/.test(address) || new URL(address).origin === globalThis.origin) return address;
  const known = blobs.get(address);
  if (known) return known;
  const code = `import ${JSON.stringify(address)};`;
  const type = 'text/javascript';
  // Chromium starts no module from a blob of the origin 'null'.
  const blob =
    globalThis.origin === 'null'
      ? `data:${type},${encodeURIComponent(code)}`
      : URL.createObjectURL(new Blob([code], { type }));
  blobs.set(address, blob);
  return blob;
}
