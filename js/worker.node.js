/* worker.node: entry of the engine worker in Node. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Worker, parentPort } from 'node:worker_threads';
import { Host } from './engine/host.js';
import { MODULES } from './modules.js';
import { notFound } from './platform/errors.js';
import { Files } from './platform/files.js';
import { nodePort } from './platform/port-node.js';
import { openStore } from './download/store-node.js';
import { createTemporary } from './download/temporary-node.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
/** In Deno, only the worker's global scope has close(), not parentPort. @type {{ close: () => void }} */
const closing = 'close' in port ? port : globalThis;
const files = new Files(MODULES);

/** Polling interval of an empty pipe, in milliseconds. */
const LOOK_MS = 5;
/** Number of timers, of TIMER_MS milliseconds each, that this worker awaits before it ends. */
const LAST_TIMERS = 5;
const TIMER_MS = 10;

/** Opens a file or a named pipe. Never blocks in a system call, because a worker cannot be terminated there.
 * @param {string} path */
function openFile(path) {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  const stat = fstatSync(file);
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let begun = !lstatSync(path).isFIFO(); // a pipe opened through a symbolic link (/dev/stdin) has had a writer already
  return {
    size: stat.isFile() ? stat.size : undefined,
    unchanged() {
      const { size, mtimeMs } = fstatSync(file);
      return size === stat.size && mtimeMs === stat.mtimeMs;
    },
    read(/** @type {Uint8Array} */ into, /** @type {number | null} */ at = null) {
      for (; ; Atomics.wait(cell, 0, 0, LOOK_MS)) {
        try {
          const count = readSync(file, into, 0, into.length, at);
          if (!count && !begun) continue; // no process has opened the pipe for writing yet
          begun = true;
          return count;
        } catch (error) {
          if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error;
        }
      }
    },
    close: () => closeSync(file),
  };
}

/** @param {string} name */
async function compile(name) {
  try {
    return await WebAssembly.compile(await readFile(new URL(files.address(name))));
  } catch (cause) {
    throw notFound(cause);
  }
}

const host = new Host((message, transfer = []) => port.postMessage(message, transfer), {
  compile,
  load: (part) => files.load(part),
  parallelism: availableParallelism,
  createThread: () => nodePort(new Worker(new URL('./thread.node.js', import.meta.url), { execArgv: [] })),
  yield: () => setImmediate(),
  openFile,
  createTemporary,
  openStore: (where) => openStore(where, (lock) => port.postMessage({ kind: 'locked', ...lock })),
});
port.on('message', async (message) => {
  if (message.kind === 'open') files.settle(message.options.place);
  await host.receive(message);
  if (message.kind === 'dispose') await end();
});

/** Ends this worker after V8's compiler threads have finished. In Node 20, a worker without an event loop waits for
 * them forever if they wait for a garbage collection by the worker (nodejs/node#54918). Timers instead of one longer
 * delay, because on a busy machine each of them also gives the compiler threads a turn. */
async function end() {
  for (let i = 0; i < LAST_TIMERS; i++) await sleep(TIMER_MS);
  closing.close();
}
