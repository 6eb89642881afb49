/**
 * An engine without a worker, for tests and tools that inspect its parts. It has read a header, and the weights only on
 * request.
 */
import { readFile } from 'node:fs/promises';
import { closeSync, openSync, readSync } from 'node:fs';
import { createEngine, LOAD } from '../../js/engine/engine.js';

/** @param {string} path of a GGUF @param {string} [variant] */
export async function bareEngine(path, variant = 'simd128') {
  const { engine } = await createEngine(
    { variant, threads: 1 },
    /** @type {any} */ ({
      compile: async (/** @type {string} */ name) => {
        return WebAssembly.compile(await readFile(new URL(`../../js/${name}`, import.meta.url)));
      },
      parallelism: () => 1,
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

/** Returns an engine with its weights loaded. @param {string} path */
export async function loadedEngine(path) {
  const engine = await bareEngine(path);
  const file = await readFile(path);
  engine.reserve(512);
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
