/* helper: body of a helper thread: the same module on the same memory, its own stack. */
import { imports } from './heap.js';
import { THREAD } from './protocol.js';

/** @param {(message: any) => void} post @returns {(message: any) => Promise<void>} */
export function helper(post) {
  /** @type {Record<string, (...args: number[]) => void>} */
  let exports;
  return async (message) => {
    if (message.kind === THREAD.prepare) {
      /** @type {WebAssembly.Module} */
      const module = message.module;
      const instance = await WebAssembly.instantiate(module, imports(message.memory));
      exports = /** @type {any} */ (instance.exports);
      post(null);
    } else if (message.kind === THREAD.enter) {
      exports._emscripten_stack_restore(message.stack);
      exports.gw_pool_enter(message.pool, message.index);
    }
  };
}
