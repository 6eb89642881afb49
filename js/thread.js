/* thread: a helper thread: the same module on the same memory, with its own stack. The entry in
 * browsers; thread.node.js borrows its body. */
import { imports } from './heap.js';
import { THREAD } from './protocol.js';

/** @type {Record<string, (...args: number[]) => void>} */
let exports;

/** @param {any} message @param {(message: any) => void} post */
export async function receive({ kind, module, memory, stack, pool, index }, post) {
  if (kind === THREAD.prepare) {
    const instance = await WebAssembly.instantiate(/** @type {WebAssembly.Module} */ (module), imports(memory));
    exports = /** @type {any} */ (instance.exports);
    post(null);
  } else {
    exports._emscripten_stack_restore(stack);
    exports.gw_pool_enter(pool, index);
  }
}

globalThis.onmessage = (/** @type {MessageEvent} */ { data }) => {
  receive(data, (message) => globalThis.postMessage(message));
};
