/* worker.node: entry of the engine worker in Node. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { Worker, parentPort } from 'node:worker_threads';
import { Host } from './engine/host.js';
import { MODULES } from './modules.js';
import { Files } from './platform/files.js';
import { nodePort } from './platform/port-node.js';
import { openStore } from './download/store-node.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const files = new Files(MODULES);

/** @param {string} path */
function openFile(path) {
  const file = openSync(path, 'r');
  const stat = fstatSync(file);
  return {
    size: stat.isFile() ? stat.size : undefined,
    read: (/** @type {Uint8Array} */ into) => readSync(file, into, 0, into.length, null),
    close: () => closeSync(file),
  };
}

const host = new Host((message, transfer = []) => port.postMessage(message, transfer), {
  compile: async (name) => WebAssembly.compile(await readFile(new URL(files.address(name)))),
  load: (part) => files.load(part),
  parallelism: availableParallelism,
  createThread: () => nodePort(new Worker(new URL('./thread.node.js', import.meta.url), { execArgv: [] })),
  breathe: () =>
    new Promise((resolve) => {
      setImmediate(resolve);
    }),
  openFile,
  openStore: (where) => openStore(where, (lock) => port.postMessage({ kind: 'locked', ...lock })),
});
port.on('message', (message) => {
  if (message.kind === 'open') files.settle(message.options.place);
  host.receive(message);
  if (message.kind === 'dispose') port.close();
});
