/**
 * An engine without a worker, for tests and tools that inspect its parts. bareEngine() reads only the header,
 * loadedEngine() also loads the weights.
 */
import { readFile } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { createEngine, LOAD } from '../../js/engine/engine.js';
import { nodePort } from '../../js/platform/port-node.js';

const JS = new URL('../../js/', import.meta.url);

/** @typedef {import('../../js/engine/engine.js').Engine} Engine */
/** modules: folder of the wasm modules; output: how the output matrix is multiplied (gw_load_option)
 * @typedef {{ threads?: number, modules?: URL, output?: string }} Options */

/** Feeds a model's file to an engine, up to its memory plan or to its end.
 * @param {Engine} engine @param {Uint8Array} file @param {number} until LOAD.PLAN or LOAD.READY */
export function feed(engine, file, until) {
  for (let state = engine.call('load_commit', 0); state !== until; ) {
    const window = engine.window();
    const bytes = file.subarray(engine.call('load_offset')).subarray(0, window.length);
    window.set(bytes);
    if (!bytes.length) engine.call('load_end');
    state = engine.call('load_commit', bytes.length);
  }
}

/** Returns an engine that knows a file's metadata and vocabulary, but cannot evaluate.
 * @param {Uint8Array} file @param {string} [variant] @param {Options} [options] */
export async function planned(file, variant = 'simd128', { threads = 1, modules = JS } = {}) {
  const { engine } = await createEngine(
    { variant, threads },
    /** @type {any} */ ({
      compile: async (/** @type {string} */ name) => WebAssembly.compile(await readFile(new URL(name, modules))),
      createThread: () => nodePort(new Worker(new URL('thread.node.js', JS))),
      parallelism: () => threads,
    }),
  );
  feed(engine, file, LOAD.PLAN);
  return engine;
}

/** Reads a file, and returns an engine as planned() does. @param {string} path of a GGUF file @param {string} [variant]
 * @param {Options} [options] */
export const bareEngine = async (path, variant, options) => planned(await readFile(path), variant, options);

/** Returns an engine with weights. The context length is 512 by default, or the file's if that is shorter. The caller
 * must close the engine.
 * @param {string} path @param {string} [variant]
 * @param {Options & { context?: number }} [options] context: context length in tokens */
export async function loadedEngine(path, variant, options) {
  const file = await readFile(path);
  const engine = await planned(file, variant, options);
  engine.loadOption('output', options?.output ?? 'auto');
  engine.reserve(Math.min(options?.context ?? 512, engine.number('context_length')));
  feed(engine, file, LOAD.READY);
  return engine;
}
