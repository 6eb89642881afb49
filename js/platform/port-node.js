/* port-node: a worker thread of Node as a Port (env.js). */

/** @template Sent, Heard @param {import('node:worker_threads').Worker} worker
 * @returns {import('./env.js').Port<Sent, Heard>} */
export function nodePort(worker) {
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (handler) => void worker.on('message', handler),
    onFailure(handler) {
      worker.on('error', handler);
      worker.on('exit', (status) => handler(new Error(`the worker ended with status ${status}`)));
    },
    terminate: () => worker.terminate(),
    keepAlive: (on) => void (on ? worker.ref() : worker.unref()),
  };
}
