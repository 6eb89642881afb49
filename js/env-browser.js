/* env-browser: the client's side in a browser. */
import { browserPort } from './port-browser.js';
import { openStore } from './store-browser.js';

/** Helper threads start here, since Firefox can hang in `new Worker` within a worker. Their memory
 * goes by a channel of their own: who holds it keeps it from being freed.
 * @returns {import('./env.js').Port} */
function createWorker() {
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  /** @type {Worker[]} */
  const threads = [];
  /** @param {MessagePort} port */
  const addThread = (port) => {
    const thread = new Worker(new URL('./thread.js', import.meta.url), { type: 'module' });
    thread.onmessage = () => thread.postMessage(port, [port]);
    thread.onerror = () => port.postMessage(false);
    threads.push(thread);
  };
  return {
    ...browserPort(worker),
    onMessage(handler) {
      worker.onmessage = ({ data }) => {
        if (data.kind === 'thread') addThread(data.port);
        else handler(data);
      };
    },
    terminate: () => [worker, ...threads].forEach((one) => one.terminate()),
  };
}

/** @type {import('./env.js').Environment} */
export const browserEnvironment = {
  createWorker,
  openStore,
  describe: (text) => ({ kind: 'url', url: new URL(text, location.href).href }),
};
