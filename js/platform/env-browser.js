/* env-browser: the client's environment in a browser. */
/** @import { FromWorker, Place, ToWorker } from '../protocol.js' */
/** @import { Environment, Port } from './env.js' */
import { filesKnown } from './files.js';
import { browserPort } from './port-browser.js';
import { obstacle, startScript } from './start.js';

/** Returns the environment of a browser, to which the entry file adds the store.
 * @param {{ startWorker: () => Worker, startThread: () => Worker }} scripts
 * @returns {Omit<Environment, 'openStore'>} */
export function browserEnvironment({ startWorker, startThread }) {
  return {
    createWorker: (place) => withThreads(place, startWorker, startThread),
    obstacle,
    parallelism: () => navigator.hardwareConcurrency || 1,
    memory: () => ('deviceMemory' in navigator ? Number(navigator.deviceMemory) * 2 ** 30 : undefined),
    describe: (text) => ({ kind: 'url', url: new URL(text, location.href).href }),
    place(baseUrl) {
      const page = location.href;
      return { page, files: filesKnown(), baseUrl: baseUrl && new URL(baseUrl, page).href.replace(/\/?$/, '/') };
    },
  };
}

/** Starts a worker and, on the worker's request, its helper threads, because Firefox can hang in `new Worker` within a
 * worker. The shared memory is posted through a separate channel, because it stays alive as long as the port that
 * transferred it. @param {Place} place @param {() => Worker} startWorker @param {() => Worker} startThread
 * @returns {Port<ToWorker, FromWorker>} */
function withThreads(place, startWorker, startThread) {
  const { worker, address } = startScript(startWorker, 'worker.js', place);
  const workers = [worker];
  /** @param {MessagePort} port */
  const addThread = (port) => {
    const { worker: thread } = startScript(startThread, 'thread.js', place);
    thread.onmessage = () => thread.postMessage(port, [port]);
    thread.onerror = () => port.postMessage(false);
    workers.push(thread);
  };
  return {
    ...browserPort(worker, async () => (await import('./why-not.js')).whyNot(address)),
    onMessage(handler) {
      worker.onmessage = ({ data }) => {
        if (data.kind === 'thread') addThread(data.port);
        else if (data.kind === 'temporary') import('./left-overs.js').then((part) => part.remove(data.name));
        else handler(data);
      };
    },
    terminate: () => workers.forEach((one) => one.terminate()),
  };
}
