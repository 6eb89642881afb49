/* port-browser: wraps a browser's Worker or MessagePort as a Port (env.js). */

/** @import { Port } from './env.js' */

/** Wraps a worker. If its script cannot be loaded, reports the error that `whyNot` finds.
 * @template Sent, Heard @param {Worker} worker
 * @param {() => Promise<Error>} whyNot finds the reason why the worker did not start
 * @returns {Port<Sent, Heard>} */
export function browserPort(worker, whyNot) {
  return {
    ...channelPort(worker, () => worker.terminate()),
    onFailure(handler) {
      worker.onerror = (event) => {
        event.preventDefault?.();
        // Browsers report no message if a worker's script cannot be loaded.
        if (event.message) handler(new Error(event.message));
        else void whyNot().then(handler, handler); // the module of whyNot() may fail to load, too
      };
    },
  };
}

/** Wraps a port, or a worker whose failures are not reported: onFailure() never calls its handler.
 * @template Sent, Heard @param {{ postMessage: Function, onmessage: any }} port
 * @param {() => void} terminate @returns {Port<Sent, Heard>} */
export function channelPort(port, terminate) {
  return {
    post: (message, transfer = []) => port.postMessage(message, transfer),
    onMessage(handler) {
      port.onmessage = (/** @type {MessageEvent} */ event) => handler(event.data);
    },
    onFailure() {},
    terminate,
    keepAlive() {},
  };
}
