/* helper: body of a helper thread: the same module on the same memory, with a stack of its own. */
import { imports } from './heap.js';
import { THREAD } from './protocol.js';

/** @type {Record<string, (...args: number[]) => void>} */
let exports;

/** @param {any} message @param {(message: any) => void} post */
export async function receive({ kind, module, memory, stack, pool, index }, post) {
  if (kind === THREAD.prepare) {
    /** @type {any} */
    const instance = await WebAssembly.instantiate(module, imports(memory));
    exports = instance.exports;
    post(true);
  } else {
    try {
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_enter(pool, index);
    } catch {
      // A trap: the engine, which waits for this thread, must hear of it.
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_fail(pool);
    }
  }
}
