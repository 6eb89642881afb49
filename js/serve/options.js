/* options: the options of the server, their defaults and checks. Their JSDoc is also the help of the command line and
 * the table of docs/serve.md. */
import { badApiKey, wrongOption } from './errors.js';

/** Options of the server. A value out of range fails with `bad-option`.
 * @typedef {object} ServeOptions
 * @property {string[]} [name] Id by which requests name a model. For several models, repeat the flag in the order of
 *   the models. Default: the file's name without its extension.
 * @property {number} [port] Port to listen on. 0 picks a free one. Default: 8080.
 * @property {string} [host] Address to listen on. Only this machine can reach a loopback address; 0.0.0.0 is reachable
 *   from the network. Default: 127.0.0.1.
 * @property {string} [apiKey] Key that requests must send as `Authorization: Bearer KEY`. Prefer the environment
 *   variable GEMMA_WASM_API_KEY, because other users of the machine can see arguments. Default: no key.
 * @property {string[]} [cors] Origin of web pages that may use the server, such as https://example.com, or * for any.
 *   Can be repeated. Default: no web pages.
 * @property {string[]} [allowHost] Further host name by which clients may address the server, besides localhost and the
 *   value of `host`. Can be repeated. Default: none.
 * @property {number} [queue] Maximum number of requests in progress, waiting ones included. Others get status 429.
 *   Default: 64.
 * @property {boolean} [quiet] Does not log requests to standard error. Default: false.
 */
/** Limits of the server. Only tests change them.
 * @typedef {object} Limits
 * @property {number} bodyBytes Maximum size of a request's body, in bytes.
 * @property {number} bodiesBytes Maximum size of all bodies in memory, in bytes.
 * @property {number} bodyMs Time in which a body must arrive, in ms.
 * @property {number} headersMs Time in which the headers must arrive, in ms.
 * @property {number} stallMs Longest time in which a client reads nothing, in ms.
 */

export const DEFAULTS = { port: 8080, host: '127.0.0.1', queue: 64 };

/** @type {Limits} */
export const LIMITS = {
  bodyBytes: 16 * 2 ** 20,
  bodiesBytes: 64 * 2 ** 20,
  bodyMs: 30_000,
  headersMs: 10_000,
  stallMs: 30_000,
};

/** @param {unknown} value @param {number} min @param {number} max */
const isWhole = (value, min, max) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max;

/** @param {string} origin */
function isOrigin(origin) {
  if (origin === '*') return true;
  // `URL.origin` is 'null' for unknown schemes such as app://obsidian.md, so a pattern checks the text.
  return /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/i.test(origin);
}

/** Checks the server's options. Throws `bad-option`. @param {ServeOptions} options */
export function checkServeOptions({ port, host, queue, apiKey, cors = [], allowHost = [] }) {
  const faults = /** @type {[wrong: boolean, expected: string, got: unknown][]} */ ([
    [port !== undefined && !isWhole(port, 0, 65535), '`port` must be an integer from 0 to 65535', port],
    [host === '', '`host` must be an address or a host name', host],
    [queue !== undefined && !isWhole(queue, 1, 100_000), '`queue` must be an integer from 1 to 100000', queue],
    ...cors.map((origin) => [!isOrigin(origin), '`cors` must be an origin such as https://example.com, or *', origin]),
    ...allowHost.map((name) => [!/^[\w.-]+$/.test(name), '`allowHost` must be a host name without a port', name]),
  ]);
  for (const [wrong, expected, got] of faults) {
    if (wrong) throw wrongOption(expected, got);
  }
  if (apiKey !== undefined && !/^[!-~]{1,1024}$/.test(apiKey)) throw badApiKey();
}
