/* doomed-worker: Node's engine worker, with code that breaks it on command. The commands arrive at workerData.port. */
import threads, { workerData } from 'node:worker_threads';
import { syncBuiltinESMExports } from 'node:module';

/** @type {import('node:worker_threads').Worker[]} */
const helpers = [];
threads.Worker = class extends threads.Worker {
  /** @param {[any, any]} how */
  constructor(...how) {
    super(...how);
    helpers.push(this);
  }
};
syncBuiltinESMExports();

const HARM = {
  thread: (/** @type {number} */ chance) => void helpers[Math.floor(chance * helpers.length)].terminate(),
  threads: () => helpers.forEach((helper) => void helper.terminate()),
  freeze: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  exit: () => process.exit(3),
  throw: () => {
    throw new Error('thrown on purpose');
  },
};
workerData.port.on('message', (/** @type {{ how: keyof typeof HARM, chance: number }} */ { how, chance }) => {
  HARM[how](chance);
});
workerData.port.unref();
await import('../../js/worker.node.js');
