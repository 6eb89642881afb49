/* port-node: wraps a worker thread of Node as a Port (env.js). */
import { workerEnded } from './errors.js';

/** Time in ms that a worker has to end after it closed its port, before it is terminated. */
const LEAVE_MS = 5000;
/** Tolerated number of heartbeats without a message (30 s). A worker thread that ends is reported by events, so a silent
 * one only waits for a processor, or hangs. */
const SILENT_BEATS = 120;

/** Wraps a worker thread. Every exit, even an expected one, is reported to onFailure().
 * @template Sent, Heard @param {import('node:worker_threads').Worker} worker
 * @returns {import('./env.js').Port<Sent, Heard>} */
export function nodePort(worker) {
  // Listens for the exit early, because the worker may exit together with its last message, before leave() is called.
  const ended = new Promise((resolve) => {
    worker.once('exit', resolve);
  });
  return {
    silentBeats: SILENT_BEATS,
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (handler) => void worker.on('message', handler),
    onFailure(handler) {
      worker.on('error', handler);
      worker.on('exit', (status) => handler(workerEnded(status)));
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
