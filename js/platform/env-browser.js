/* env-browser: the client's side in a browser. */
/** @import { FromWorker, ToWorker } from '../link/protocol.js' */
/** @import { Environment, Port } from './env.js' */
import { browserPort } from './port-browser.js';

/** @param {{ startWorker: () => Worker, startThread: () => Worker }} scripts
 * @returns {Pick<Environment, 'createWorker' | 'describe'>} */
export function browserEnvironment({ startWorker, startThread }) {
  return {
    createWorker: () => withThreads(startWorker(), startThread),
    describe: (text) => ({ kind: 'url', url: new URL(text, location.href).href }),
  };
}

/** Helper threads start here, since Firefox can hang in `new Worker` within a worker. Their memory
 * goes by a channel of their own: who holds it keeps it from being freed.
 * @param {Worker} worker @param {() => Worker} startThread @returns {Port<ToWorker, FromWorker>} */
function withThreads(worker, startThread) {
  /** @type {Worker[]} */
  const threads = [];
  /** @param {MessagePort} port */
  const addThread = (port) => {
    const thread = startThread();
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
