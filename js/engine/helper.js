/* helper: body of a helper thread, which runs the same module on the same memory with its own stack. */
import { imports } from './heap.js';

/** @type {Record<string, (...args: number[]) => void>} */
let exports;

/** Handles a message of the engine worker. @param {import('../protocol.js').ToThread} message
 * @param {(ready: boolean) => void} post */
export async function receive(message, post) {
  if (message.kind === 'prepare') {
    const { module, memory } = message;
    /** @type {any} */
    const instance = await WebAssembly.instantiate(module, imports(memory));
    exports = instance.exports;
    post(true);
  } else {
    const { stack, pool, index } = message;
    try {
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_enter(pool, index);
    } catch {
      // A trap. The engine waits for this thread, so report it.
      exports._emscripten_stack_restore(stack);
      exports.gw_pool_fail(pool, index);
    }
  }
}
