/* env-node: the client's environment in Node. */
/** @import { Environment } from './env.js' */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { packageNotFound } from './errors.js';
import { freeLock } from './lock-node.js';
import { nodePort } from './port-node.js';

const SCRIPT = 'worker.node.js';

/** Returns the environment of Node, to which the entry file adds the store.
 * @param {() => URL} beside returns the URL of the worker's script, which is wrong
 * if a bundler moved this file
 * @returns {Omit<Environment, 'openStore'>} */
export function nodeEnvironment(beside) {
  return {
    createWorker({ baseUrl }) {
      return nodePort(freeing(new Worker(baseUrl ? new URL(SCRIPT, baseUrl) : script(beside), { execArgv: [] })));
    },
    obstacle: () => '',
    parallelism: availableParallelism,
    memory: totalmem,
    place: (baseUrl) => ({ baseUrl: baseUrl && fileUrl(baseUrl).replace(/\/?$/, '/') }),
    describe(text) {
      if (/^(https?|data|blob):/i.test(text)) return { kind: 'url', url: text };
      return { kind: 'path', path: /^file:/i.test(text) ? fileURLToPath(text) : resolve(text) };
    },
  };
}

/** Removes a worker's lock files when the worker ends, even after a crash. @param {Worker} worker */
function freeing(worker) {
  /** @type {{ path: string, owner: string }[]} */
  const locks = [];
  worker.on('message', (message) => {
    if (message.kind === 'locked') locks.push(message);
  });
  worker.on('exit', () => locks.forEach(freeLock));
  return worker;
}

/** @param {string} text */
const fileUrl = (text) => (/^file:/i.test(text) ? text : pathToFileURL(resolve(text)).href);

/** @param {() => URL} beside */
function script(beside) {
  const expected = pathOf(beside);
  // If the worker's script has another name, a bundler copied it (Turbopack in Next 15). The copy is not an ES module,
  // and the package's other files are missing beside the copy.
  if (basename(expected) === SCRIPT && existsSync(expected)) return pathToFileURL(expected);
  try {
    // If this code was bundled, the package may still be installed, so its files are looked for there.
    const entry = createRequire(join(process.cwd(), 'index.js')).resolve('gemma-wasm');
    return pathToFileURL(join(dirname(entry), SCRIPT));
  } catch (cause) {
    throw packageNotFound(expected || SCRIPT, cause);
  }
}

/** @param {() => URL} beside */
function pathOf(beside) {
  try {
    return fileURLToPath(String(beside()));
  } catch {
    return '';
  }
}
