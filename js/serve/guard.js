/* guard: decides which requests may be answered. Checks the request target, the Host header (against DNS rebinding),
 * the Origin header (against requests of foreign web pages) and the API key. */
/** @import { IncomingMessage } from 'node:http' */
/** @import { ServeOptions } from './options.js' */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { badTarget, severalHosts, targetTooLong, unknownHost, unknownOrigin, wrongKey } from './errors.js';
import { DEFAULTS } from './options.js';

const MAX_TARGET = 2048;
/** Time for which browsers may cache the result of a CORS preflight, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** Paths that need no API key, because their responses disclose nothing. */
const OPEN = ['/', '/health'];

/** Returns the host of a Host header, without the port and in lower case. @param {string} host */
const nameOf = (host) =>
  host
    .toLowerCase()
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

/** Returns whether an address is a loopback address, which only this machine can reach. @param {string} name host name
 * or IP address */
export const isLoopback = (name) => /^(localhost|.*\.localhost|127(\.\d+){3}|::1|::ffff:127(\.\d+){3})$/.test(name);

/** @param {string} text */
const digest = (text) => createHash('sha256').update(text).digest();

/** Returns host and path of a request target, which is a path or a URL (RFC 9112, section 3.2). Rejects paths with dot
 * segments, because `new URL()` would resolve them. @param {string} target @param {string} [host] the Host header */
function partsOf(target, host) {
  const [, authority, path] = /^(?:http:\/\/([^/?#]*))?(\/.*)?$/i.exec(target) ?? [];
  const [plain, search = ''] = (path ?? (authority && '/') ?? '').split(/(?=\?)/, 2);
  const isBad = !plain || /[\\#\s]|%(?![0-9a-f]{2})|(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i.test(plain);
  if (isBad) throw badTarget();
  return { host: authority ?? host ?? '', path: plain, search };
}

/** The access rules of one server. */
export class Guard {
  #names;
  #open;
  #origins;
  #key;

  /** @param {ServeOptions} options */
  constructor({ host = DEFAULTS.host, apiKey, cors = [], allowHost = [] }) {
    const listens = nameOf(isIP(host) === 6 ? `[${host}]` : host);
    /** Whether the server listens on an address that other machines can reach. */
    this.#open = !isLoopback(listens);
    this.#names = new Set(
      [listens, ...(this.#open ? [hostname()] : []), ...allowHost].map((name) => name.toLowerCase()),
    );
    this.#origins = new Set(cors.map((origin) => origin.toLowerCase()));
    this.#key = apiKey === undefined ? null : digest(apiKey);
  }

  /** Returns path and query of a request. Throws a RequestError if the request may not be answered.
   * @param {IncomingMessage} request */
  admit({ url = '', headers, rawHeaders }) {
    if (url.length > MAX_TARGET) throw targetTooLong(MAX_TARGET);
    const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length;
    if (hosts > 1) throw severalHosts();
    const { host, path, search } = partsOf(url, headers.host);
    if (!this.#knows(nameOf(host))) throw unknownHost();
    const { origin } = headers;
    if (origin !== undefined && !this.#trusts(origin, host)) throw unknownOrigin();
    return { path, search };
  }

  /** Throws a RequestError if the API key is missing or wrong. Compares digests in constant time.
   * @param {string} path @param {string} [authorization] value of the header */
  checkKey(path, authorization = '') {
    if (!this.#key || OPEN.includes(path)) return;
    const [, given = ''] = /^Bearer +(\S+) *$/i.exec(authorization) ?? [];
    if (timingSafeEqual(digest(given), this.#key)) return;
    throw wrongKey();
  }

  /** Returns the CORS headers that let a page of an allowed origin read the response.
   * @param {string} [origin] @returns {Record<string, string>} */
  corsHeaders(origin) {
    /** @type {Record<string, string>} */
    const some = this.#origins.size ? { vary: 'Origin' } : {};
    if (origin === undefined || !this.#lists(origin)) return some;
    return {
      ...some,
      'access-control-allow-origin': origin,
      'access-control-expose-headers': 'retry-after, x-request-id',
    };
  }

  /** Returns the response to a CORS preflight. @param {IncomingMessage['headers']} headers */
  preflight(headers) {
    const asked = headers['access-control-request-headers'] ?? 'authorization, content-type';
    const isPrivate = headers['access-control-request-private-network'] === 'true';
    return new Response(null, {
      status: 204,
      headers: {
        'access-control-allow-methods': 'GET, POST, DELETE',
        'access-control-allow-headers': /^[\w ,-]{0,2048}$/.test(asked) ? asked : 'authorization, content-type',
        'access-control-max-age': String(PREFLIGHT_SECONDS),
        ...(isPrivate && { 'access-control-allow-private-network': 'true' }),
      },
    });
  }

  /** Returns whether requests may use a host name. IP addresses are safe from DNS rebinding, so any is allowed if other
   * machines can connect. @param {string} name */
  #knows(name) {
    return isLoopback(name) || this.#names.has(name) || (this.#open && isIP(name) !== 0);
  }

  /** @param {string} origin */
  #lists(origin) {
    return this.#origins.has('*') || this.#origins.has(origin.toLowerCase());
  }

  /** Returns whether pages of an origin may use the server: the origins of --cors and the server's own origin may.
   * @param {string} origin @param {string} host */
  #trusts(origin, host) {
    return this.#lists(origin) || origin.toLowerCase() === `http://${host.toLowerCase()}`;
  }
}
