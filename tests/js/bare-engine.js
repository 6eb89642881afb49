/**
 * An engine without a worker, for tests and tools that inspect its parts. bareEngine() reads only the header,
 * loadedEngine() also loads the weights.
 */
import { readFile } from 'node:fs/promises';
import { closeSync, openSync, readSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { createEngine, LOAD } from '../../js/engine/engine.js';
import { nodePort } from '../../js/platform/port-node.js';

const JS = new URL('../../js/', import.meta.url);

/** @param {string} path of a GGUF file @param {string} [variant]
 * @param {{ threads?: number, modules?: URL }} [options] modules: folder of the wasm modules */
export async function bareEngine(path, variant = 'simd128', { threads = 1, modules = JS } = {}) {
  const { engine } = await createEngine(
    { variant, threads },
    /** @type {any} */ ({
      compile: async (/** @type {string} */ name) => WebAssembly.compile(await readFile(new URL(name, modules))),
      createThread: () => nodePort(new Worker(new URL('thread.node.js', JS))),
      parallelism: () => threads,
    }),
  );
  const file = openSync(path, 'r');
  try {
    for (let state = 0; state !== LOAD.PLAN; ) {
      const window = engine.window();
      const bytes = Buffer.alloc(Math.min(window.length, 1 << 20));
      const n = readSync(file, bytes, 0, bytes.length, null);
      window.set(bytes.subarray(0, n));
      state = engine.call('load_commit', n);
      if (!n) engine.call('load_end');
    }
  } finally {
    closeSync(file);
  }
  return engine;
}

/** @param {string} path @param {string} [variant]
 * @param {{ threads?: number, modules?: URL, context?: number }} [options] context: context length in tokens */
export async function loadedEngine(path, variant, options) {
  const engine = await bareEngine(path, variant, options);
  const file = await readFile(path);
  engine.reserve(options?.context ?? 512);
  for (
    let state = engine.call('load_commit', 0), count;
    state !== LOAD.READY;
    state = engine.call('load_commit', count)
  ) {
    const window = engine.window();
    const bytes = file.subarray(engine.call('load_offset')).subarray(0, window.length);
    window.set(bytes);
    count = bytes.length;
    if (!count) engine.call('load_end');
  }
  return engine;
}
