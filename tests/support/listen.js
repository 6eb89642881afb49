/* listen: HTTP servers of tests. */
import { once } from 'node:events';
import { createServer } from 'node:http';

/** Starts a server on a free port of this machine. It closes when the test ends.
 * @param {{ after: (end: () => unknown) => void }} t @param {import('node:http').RequestListener} handler */
export async function listen(t, handler) {
  const server = createServer(handler);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const close = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  t.after(close);
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { server, close, address: `http://127.0.0.1:${port}` };
}
