/* start: starts the package's scripts as workers, whether they are beside the page's scripts, renamed by a bundler,
 * or on another origin. */
import { NO_WORKERS, noWorkers } from './errors.js';
import { trustedScriptUrl } from './trusted.js';
/** @import { Place } from '../protocol.js' */

/** Matches the folder in which Vite up to 7, and tools based on it, bundle packages during development. The bundle
 * lacks the files that the script refers to, but the package itself is served, too. */
const PREBUNDLED = /^(.*?)\/(?:node_modules\/)?\.[\w-]+\/(?:[^?]*\/)?deps\/([\w.-]+)(?:\?.*)?$/;

/** The URL of the script that contains this code, if it is a classic script. */
const CLASSIC = /** @type {HTMLScriptElement | null | undefined} */ (globalThis.document?.currentScript)?.src;

/** Returns the reason why this global scope cannot run the engine, or '' if it can. */
export function obstacle() {
  return globalThis.Worker ? '' : NO_WORKERS;
}

/** Blob URLs of scripts that import a script of another origin, by the URL of that script.
 * @type {Map<string, string>} */
const blobs = new Map();

/** Starts a worker. `start` contains the literal `new Worker(new URL(…))` that bundlers look for. They insert the
 * URL only there, so the global `Worker` is replaced during the call to intercept the URL. Throws
 * `unsupported-platform`. @param {() => Worker} start @param {string} name @param {Place} place
 * @returns {{ worker: Worker, address: string }} */
export function startScript(start, name, { baseUrl, files }) {
  const Usual = globalThis.Worker;
  if (obstacle()) throw noWorkers();
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
    // A classic script has no import.meta.url; the package's files are in the folder of the script.
    if (address || !CLASSIC) throw error;
    return { worker: Ours(new URL(name, CLASSIC), { type: 'module' }), address };
  } finally {
    globalThis.Worker = Usual;
  }
}

/** @param {string} address */
const packaged = (address) => address.replace(PREBUNDLED, '$1/node_modules/gemma-wasm/dist/$2');

/** Returns a URL from which the page may start a script as a worker. Browsers require the page's own origin, but a
 * module may import scripts of any origin that allows it. So for another origin, returns a blob URL, which a content
 * security policy must allow (`worker-src blob:`). Compares with `globalThis.origin`, which is 'null'
 * in a sandboxed frame, unlike `location.origin`. @param {string} address */
function ownOrigin(address) {
  if (!/^https?:/.test(address) || new URL(address).origin === globalThis.origin) return address;
  const known = blobs.get(address);
  if (known) return known;
  const code = `import ${JSON.stringify(address)};`;
  const type = 'text/javascript';
  // Chromium cannot start a module worker from a blob URL of the origin 'null', but it can from a data URL.
  const blob =
    globalThis.origin === 'null'
      ? `data:${type},${encodeURIComponent(code)}`
      : URL.createObjectURL(new Blob([code], { type }));
  blobs.set(address, blob);
  return blob;
}
