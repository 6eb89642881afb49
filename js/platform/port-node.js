/* port-node: a worker thread of Node as a Port (env.js). */

/** One that has closed its port ends much sooner; one that something keeps is terminated. */
const LEAVE_MS = 5000;

/** @template Sent, Heard @param {import('node:worker_threads').Worker} worker
 * @returns {import('./env.js').Port<Sent, Heard>} */
export function nodePort(worker) {
  // It may end in the same moment as its last message comes, before anybody waits for that.
  const ended = new Promise((resolve) => {
    worker.once('exit', resolve);
  });
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (handler) => void worker.on('message', handler),
    onFailure(handler) {
      worker.on('error', handler);
      worker.on('exit', (status) => handler(new Error(`the worker ended with status ${status}`)));
    },
    leave: () =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, LEAVE_MS);
        void ended.then(() => {
          clearTimeout(timer);
          resolve(null);
        });
      }),
    terminate: () => worker.terminate(),
    keepAlive: (on) => void (on ? worker.ref() : worker.unref()),
  };
}
