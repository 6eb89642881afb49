/* flips: builds engines in which one relaxed instruction is replaced by another of the same type, as a faulty compiler
 * or processor would compute. */

import { createHash } from 'node:crypto';
import { Engine, LOAD, RUN } from '../../js/engine/engine.js';
import { createMemory, imports } from '../../js/engine/heap.js';
import { feed } from './bare-engine.js';
import { idsOf } from './local.js';

/** Opcodes of relaxed SIMD instructions, and of the instructions that replace them. */
export const FLIPS = {
  'i8x16.relaxed_swizzle': { from: [253, 128, 2], to: [253, 238, 0] }, // i8x16.add
  'i16x8.relaxed_dot_i8x16_i7x16_s': { from: [253, 146, 2], to: [253, 142, 1] }, // i16x8.add
  'i32x4.relaxed_dot_i8x16_i7x16_add_s': { from: [253, 147, 2], to: [253, 210, 0] }, // v128.bitselect
};

/** An instruction of a module: `at` is its offset in the module, `code` the index of its function in the code section.
 * @typedef {{ at: number, name: keyof typeof FLIPS, code: number }} Site */

/** Decodes the LEB128 number at an offset. Returns the number and the offset of its end. @param {Uint8Array} bytes
 * @param {number} at */
function numberAt(bytes, at) {
  let value = 0;
  let shift = 0;
  let byte = 0;
  do {
    byte = bytes[at++];
    value += (byte & 127) * 2 ** shift;
    shift += 7;
  } while (byte & 128);
  return { value, at };
}

/** @param {Uint8Array} module */
function functionsOf(module) {
  for (let at = 8; at < module.length; ) {
    const id = module[at];
    const section = numberAt(module, at + 1);
    if (id === 10) {
      const count = numberAt(module, section.at);
      let next = count.at;
      return Array.from({ length: count.value }, () => {
        const size = numberAt(module, next);
        next = size.at + size.value;
        return { from: size.at, to: next };
      });
    }
    at = section.at + section.value;
  }
  throw new Error('The module has no code section.');
}

/** Finds the instructions of FLIPS by searching for their bytes. Constants with the same bytes are found, too.
 * @param {Uint8Array} module
 * @returns {Site[]} */
export function sitesOf(module) {
  const names = /** @type {(keyof typeof FLIPS)[]} */ (Object.keys(FLIPS));
  return functionsOf(module).flatMap(({ from, to }, code) => {
    const sites = [];
    for (let at = from; at < to - 2; at++) {
      for (const name of names)
        if (FLIPS[name].from.every((byte, i) => module[at + i] === byte)) sites.push({ at, name, code });
    }
    return sites;
  });
}

/** Returns a copy of the module with the instructions at the sites replaced. @param {Uint8Array} module
 * @param {Site[]} sites */
export function flipped(module, sites) {
  const bytes = module.slice();
  for (const { at, name } of sites) bytes.set(FLIPS[name].to, at);
  return bytes;
}

/* --- outcomes --- */

/** @param {WebAssembly.Module} module */
async function instantiate(module) {
  const memory = createMemory(false);
  const instance = await WebAssembly.instantiate(module, imports(memory));
  const exports = /** @type {import('../../js/engine/heap.js').Exports} */ (/** @type {unknown} */ (instance.exports));
  exports.__wasm_call_ctors?.();
  return { exports, memory, module };
}

/** Returns digests of the logits of a prompt and of two single tokens. @param {Engine} engine */
function evaluate(engine) {
  const rows = [];
  for (const n of [11, 12, 13]) {
    engine.sync(idsOf(n));
    while (engine.call('run', 0) !== RUN.DONE);
    rows.push(createHash('sha256').update(new Uint8Array(engine.logits().buffer)).digest('hex').slice(0, 16));
  }
  return rows.join();
}

/** Tries a wasm module with a model's file. Returns 'refused' if the check at the engine's start fails, the error's
 * code if the model cannot be loaded, and otherwise the logits' digests; or 'right' or 'wrong' if the `expected`
 * digests are given. @param {Uint8Array} bytes @param {Uint8Array} file @param {string} [expected] */
export async function outcome(bytes, file, expected) {
  const parts = await instantiate(await WebAssembly.compile(/** @type {BufferSource} */ (bytes)));
  if (parts.exports.gw_prove_build() < 0) return 'refused';
  try {
    const engine = new Engine(parts, []);
    feed(engine, file, LOAD.PLAN);
    engine.reserve(64);
    feed(engine, file, LOAD.READY);
    const bits = evaluate(engine);
    if (expected === undefined) return bits;
    return bits !== expected ? 'wrong' : engine.variantNote ? 'right, with a note' : 'right';
  } catch (error) {
    const { code } = /** @type {{ code?: string }} */ (error);
    if (code) return code;
    throw error;
  }
}
