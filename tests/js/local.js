/* local: runs the engine worker's host and its client on one thread, in Node and in browsers, so that tests need no
 * worker. Builds with threads work too, but without helper threads. */
import { answersOf } from '../../js/rpc/answers.js';
import { Connection } from '../../js/rpc/connection.js';
import { Feeders } from '../../js/download/feeder.js';
import { describeSource } from '../../js/download/describe.js';
import { Host } from '../../js/engine/host.js';
import { ModelError } from '../../js/errors.js';

/** @typedef {import('../../js/engine/engine.js').Platform} Platform */

/** The worker's lazily loaded modules, as imports that a bundler finds. @type {Record<string, () => Promise<any>>} */
const PARTS = {
  autotune: () => import('../../js/autotune.js'),
  drafts: () => import('../../js/drafts.js'),
  grammar: () => import('../../js/grammar.js'),
  look: () => import('../../js/look.js'),
  rows: () => import('../../js/rows.js'),
  template: () => import('../../js/template.js'),
};

/** Returns a platform that compiles each wasm module only once, so that the next model reuses optimised code.
 * @param {(name: string) => Promise<WebAssembly.Module>} compile @returns {Platform} */
export function barePlatform(compile) {
  /** @type {Map<string, Promise<WebAssembly.Module>>} */
  const compiled = new Map();
  return {
    compile(name) {
      const module = compiled.get(name) ?? compile(name);
      compiled.set(name, module);
      return module;
    },
    load: (part) => PARTS[part](),
    parallelism: () => 2,
    createThread() {
      throw new Error('This platform has no helper threads.');
    },
    yield: async () => {},
    openStore() {
      throw new Error('This platform has no store.');
    },
  };
}

/** Loads a model. `close` must be called at the end.
 * @param {any} source as in loadModel(); a string is a URL or, if the platform opens files, a path
 * @param {Platform} platform @param {import('../../js/options.js').LoadOptions} [options]
 * @param {import('../../js/protocol.js').OpenOptions['cache']} [cache] */
export async function openLocal(source, platform, options = {}, cache = undefined) {
  /** @type {(message: any) => void} */
  let receive = () => {};
  const host = new Host((message) => queueMicrotask(() => receive(message)), platform);
  const connection = new Connection({
    post: (message) => host.receive(message),
    onMessage: (f) => {
      receive = f;
    },
    onFailure() {},
    keepAlive() {},
    terminate() {},
  });
  const close = () => connection.close(new ModelError('disposed', 'done'));
  const parts = describeSource(source, (text) =>
    /^https?:/.test(text) ? { kind: 'url', url: text } : { kind: 'path', path: text },
  );
  try {
    const info = await connection.open(
      parts.map(({ descriptor }) => descriptor),
      /** @type {any} */ ({ ...options, cache }),
      answersOf(new Feeders(parts)),
      () => {},
    );
    const logits = (/** @type {number[]} */ ids, all = false) => connection.call('logits', { ids, all }).answer;
    return { info, logits, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns n token ids that all test models have. @param {number} n */
export const idsOf = (n) => Array.from({ length: n }, (_, i) => (i ? 3 + ((i * 37) % 250) : 2));

/** @param {Float32Array} rows */
async function digest(rows) {
  const hash = await crypto.subtle.digest('SHA-256', /** @type {BufferSource} */ (rows));
  return Array.from(new Uint8Array(hash, 0, 8), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns digests of the logits of several prompts: equal strings mean equal bits.
 * @param {(ids: number[], all?: boolean) => Promise<Float32Array>} logits */
export async function digestsOf(logits) {
  const ids = idsOf(37);
  const rows = [await digest(await logits(ids, true))];
  for (let n = 1; n <= 6; n++) rows.push(await digest(await logits(ids.slice(0, n))));
  return rows.join(' ');
}

/** Loads a model, and returns the digests of its logits with the variant that it chose. @param {Uint8Array} file
 * @param {Platform} platform @param {'auto' | 'relaxed' | 'simd128'} variant */
export async function bitsOf(file, platform, variant) {
  const { info, logits, close } = await openLocal(file, platform, { contextLength: 64, variant });
  const bits = await digestsOf(logits);
  await close();
  return { variant: info.variant, variantReason: info.variantReason, bits };
}
