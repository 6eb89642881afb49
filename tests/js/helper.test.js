/* A helper thread that cannot start reports this, so that the engine does not wait for it. A helper thread whose code
 * traps reports that to the pool, on a fresh stack, so the pool does not wait forever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { receive } from '../../js/engine/helper.js';

/** Returns a wasm module with the functions that helper.js calls: gw_pool_enter traps, and the other functions write
 * their arguments to memory. The module is assembled by hand (WebAssembly core specification, binary format). */
function trappingModule() {
  const name = (/** @type {string} */ text) => [text.length, ...Buffer.from(text)];
  const section = (/** @type {number} */ id, /** @type {number[]} */ body) => [id, body.length, ...body];
  const store = (/** @type {number} */ at, argument = 0) => [0x41, at, 0x20, argument, 0x36, 2, 0]; // memory[at] = …
  const code = (/** @type {number[]} */ body) => [body.length + 2, 0, ...body, 0x0b];
  const exported = ['_emscripten_stack_restore', 'gw_pool_fail', 'gw_pool_enter'];
  return new WebAssembly.Module(
    Uint8Array.from([
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [2, 0x60, 1, 0x7f, 0, 0x60, 2, 0x7f, 0x7f, 0]),
      ...section(2, [1, ...name('env'), ...name('memory'), 2, 0, 1]),
      ...section(3, [3, 0, 1, 1]),
      ...section(7, [3, ...exported.flatMap((text, i) => [...name(text), 0, i])]),
      ...section(10, [3, ...code(store(0)), ...code([...store(4), ...store(8, 1)]), ...code([...store(0), 0])]),
    ]),
  );
}

test('a failed start of a helper thread is reported to the engine, and a trap in it to its pool', async () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const words = new Uint32Array(memory.buffer);
  /** @type {unknown[]} */
  const posted = [];
  await receive({ kind: 'prepare', module: trappingModule(), memory: Object({}) }, (m) => posted.push(m));
  await receive({ kind: 'prepare', module: trappingModule(), memory }, (m) => posted.push(m));
  assert.deepEqual(posted, [false, true]);
  await receive({ kind: 'enter', pool: 77, index: 1, stack: 1234 }, () => {});
  assert.equal(words[1], 77, 'gw_pool_fail was called with the pool');
  assert.equal(words[2], 1, "gw_pool_fail was called with the thread's index");
  assert.equal(words[0], 1234, 'the stack pointer was reset to the top, which gw_pool_enter had moved');
});
