/* helper: the code of a helper thread, which runs the engine's module on the same memory with a separate stack. */
import { imports } from './heap.js';

/** @type {Record<string, (...args: number[]) => void>} */
let exports;

/** Handles a message of the engine: instantiates the module, or computes until the pool is stopped.
 * @param {import('../protocol.js').ToThread} message
 * @param {(ready: boolean) => void} post reports whether the module could be instantiated */
export async function receive(message, post) {
  if (message.kind === 'prepare') {
    const { module, memory } = message;
    /** @type {any} */
    const instance = await WebAssembly.instantiate(module, imports(memory)).catch(() => {});
    exports = instance?.exports;
    post(Boolean(exports));
  } else {
    const { stack, pool, index } = message;
    try {
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_enter(pool, index);
    } catch {
      // The wasm module trapped. The helper thread reports that, because the engine waits for the thread.
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_fail(pool, index);
    }
  }
}
