/* server: the HTTP server. Listens, and shuts down gracefully. */
/** @import { AddressInfo } from 'node:net' */
/** @import { Model } from '../model.js' */
/** @import { LogLine } from './app.js' */
/** @import { Limits, ServeOptions } from './options.js' */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { App } from './app.js';
import { DEFAULTS, LIMITS, checkServeOptions } from './options.js';

/** Time in ms added to Node's own limit for requests, so that the server's limits apply first and clients get an error
 * response. */
const MARGIN_MS = 5000;
/** Time in ms to write the last responses when the server shuts down. */
const FLUSH_MS = 1000;
const POLL_MS = 20;
/** A running server. close: rejects new requests, gives the running ones `graceMs` to finish, then aborts them.
 * @typedef {{ url: string, running: () => number, close: (graceMs: number) => Promise<void> }} RunningServer */

/** Starts a server. Throws `bad-option`; rejects with the error of `listen`.
 * @param {Record<string, Model>} models by their ids @param {ServeOptions} [options]
 * @param {{ log?: (line: LogLine) => void, limits?: Partial<Limits> }} [more] log: called after each request
 * @returns {Promise<RunningServer>} */
export async function startServer(models, options = {}, { log, limits } = {}) {
  checkServeOptions(options);
  const { port = DEFAULTS.port, host = DEFAULTS.host } = options;
  const app = new App(models, options, { ...LIMITS, ...limits }, log);
  const { headersMs, bodyMs } = app.limits;
  const server = createServer(
    // Node's own limits end requests that the server does not read, such as bodies that no route needs.
    { headersTimeout: headersMs, requestTimeout: headersMs + bodyMs + MARGIN_MS, connectionsCheckingInterval: 1000 },
    (req, res) => app.onRequest(req, res),
  );
  server.listen(port, host);
  await once(server, 'listening');
  // Without a listener, a failed accept() (too many open files) would end the process.
  server.on('error', () => {});
  const { port: taken, family, address } = /** @type {AddressInfo} */ (server.address());
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`,
    running: () => app.size,
    async close(graceMs) {
      const closed = once(server, 'close');
      const cut = () => server.closeAllConnections();
      app.stop(graceMs);
      server.close();
      // Disconnects clients that neither finish their requests nor read their responses.
      const last = setTimeout(cut, graceMs + FLUSH_MS);
      await app.idle();
      const poll = setInterval(() => server.closeIdleConnections(), POLL_MS);
      const late = setTimeout(cut, FLUSH_MS);
      await closed;
      clearInterval(poll);
      for (const timer of [last, late]) clearTimeout(timer);
    },
  };
}
