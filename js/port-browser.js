/* port-browser: a browser's Worker or MessagePort as a Port (env.js). */

/** @param {Worker} worker @returns {import('./env.js').Port} */
export function browserPort(worker) {
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage(handler) {
      worker.onmessage = (event) => handler(event.data);
    },
    onFailure(handler) {
      worker.onerror = (event) => {
        event.preventDefault?.();
        handler(new Error(event.message || 'the worker script could not be loaded'));
      };
    },
    terminate: () => worker.terminate(),
    keepAlive() {},
  };
}

/** @param {MessagePort} port @returns {import('./env.js').Port} */
export function channelPort(port) {
  return {
    post: (message, transfer = []) => port.postMessage(message, transfer),
    onMessage(handler) {
      port.onmessage = (event) => handler(event.data);
    },
    onFailure() {},
    terminate: () => port.close(),
    keepAlive() {},
  };
}
