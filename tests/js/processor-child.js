/**
 * What processors.test.js runs in processes of their own, whose V8 imitates another processor. Prints one JSON object.
 *
 *   node [V8 FLAGS] processor-child.js bits VARIANT MODEL…   bits of logits, by name: of a prompt and step by step
 *   node [V8 FLAGS] processor-child.js faults STEP FIRST MODEL…   what becomes of engines with an instruction flipped:
 *                                                            each STEP-th, from FIRST on; all of one kind if STEP is 0
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Engine, LOAD, RUN } from '../../js/engine/engine.js';
import { createMemory, imports } from '../../js/engine/heap.js';
import { loadModel } from '../../js/index.node.js';
import { testModel } from './models.js';

/** Ids that all test models have. @param {number} n */
const idsOf = (n) => Array.from({ length: n }, (_, i) => (i ? 3 + i * 37 % 250 : 2));

/** @param {Float32Array} rows */
const digest = (rows) => {
  const bytes = new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength);
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
};

/** A prompt in one go, then token by token. @param {string} name @param {string} variant */
async function bitsOf(name, variant) {
  const model = await loadModel(await testModel(name), { threads: 2, contextLength: 64, variant });
  const ids = idsOf(37), rows = [digest(await model.logits(ids, { all: true }))];
  for (let n = 1; n <= 6; n++) rows.push(digest(await model.logits(ids.slice(0, n))));
  const { tokens } = await model.generate(ids, { maxTokens: 6, temperature: 0 }).result();
  const { info } = model;
  await model.dispose();
  return { variant: info.variant, variantReason: info.variantReason, bits: [...rows, tokens.join()].join(' ') };
}

/** Relaxed instructions as a module has them, and what is put in their place: another one of the same type. */
const FLIPS = {
  'i8x16.relaxed_swizzle': { from: [253, 128, 2], to: [253, 238, 0] },                  // i8x16.add
  'i16x8.relaxed_dot_i8x16_i7x16_s': { from: [253, 146, 2], to: [253, 142, 1] },        // i16x8.add
  'i32x4.relaxed_dot_i8x16_i7x16_add_s': { from: [253, 147, 2], to: [253, 210, 0] },    // v128.bitselect
};

/** Where a module's code begins: behind the id and size of section 10. @param {Uint8Array} module */
function codeOf(module) {
  for (let at = 8; at < module.length;) {
    const id = module[at++];
    let size = 0, shift = 0, byte = 0;
    do {
      byte = module[at++];
      size += (byte & 127) * 2 ** shift;
      shift += 7;
    } while (byte & 128);
    if (id === 10) return { from: at, to: at + size };
    at += size;
  }
  throw new Error('no code');
}

/** @param {Uint8Array} module */
function sitesOf(module) {
  const { from, to } = codeOf(module), sites = [];
  for (let at = from; at < to - 2; at++) {
    for (const [name, flip] of Object.entries(FLIPS)) {
      if (flip.from.every((byte, i) => module[at + i] === byte)) sites.push({ at, name });
    }
  }
  return sites;
}

/** Copies of the module with one instruction flipped, or all of one kind.
 * @param {Uint8Array} module @param {number} step @param {number} first */
function* flipped(module, step, first) {
  const sites = sitesOf(module);
  const groups = step ? sites.filter((_, i) => i % step === first % step).map((site) => [site])
    : Object.keys(FLIPS).map((name) => sites.filter((site) => site.name === name));
  for (const group of groups) {
    const bytes = module.slice();
    for (const { at, name } of group) bytes.set(FLIPS[/** @type {keyof typeof FLIPS} */ (name)].to, at);
    yield { name: group[0].name, at: group[0].at, bytes };
  }
}

/** An engine of these bytes, on this thread. @param {WebAssembly.Module} module */
async function instantiate(module) {
  const memory = createMemory(false);
  const instance = await WebAssembly.instantiate(module, imports(memory));
  const exports = /** @type {import('../../js/engine/engine.js').Exports} */ (/** @type {unknown} */ (instance.exports));
  exports.__wasm_call_ctors?.();
  return { exports, memory };
}

/** @param {Engine} engine @param {Uint8Array} file */
function load(engine, file) {
  for (let at = 0, state = 0; state !== LOAD.READY;) {
    const piece = engine.window().subarray(0, file.length - at);
    piece.set(file.subarray(at, at + piece.length));
    at += piece.length;
    state = engine.call('load_commit', piece.length);
    if (state === LOAD.PLAN) engine.reserve(64);
  }
}

/** Logits of a prompt and of two tokens, one by one. @param {Engine} engine */
function evaluate(engine) {
  const rows = [];
  for (const n of [11, 12, 13]) {
    engine.sync(idsOf(n));
    while (engine.call('run', 0) !== RUN.DONE);
    rows.push(digest(engine.logits()));
  }
  return rows.join();
}

/** 'refused' (at the start), 'engine-fault' (at load), or the bits, as 'right' or 'wrong' where they are known;
 * anything that stops the module is no wrong text either.
 * @param {Uint8Array} bytes @param {Uint8Array} file @param {string} [expected] */
async function outcome(bytes, file, expected) {
  const { exports, memory } = await instantiate(await WebAssembly.compile(/** @type {BufferSource} */ (bytes)));
  if (exports.gw_prove_build() < 0) return 'refused';
  try {
    const engine = new Engine(exports, memory, []);
    load(engine, file);
    const bits = evaluate(engine);
    if (expected === undefined) return bits;
    return bits !== expected ? 'wrong' : engine.variantNote ? 'right, with a note' : 'right';
  } catch (error) {
    const { code } = /** @type {{ code?: string }} */ (error);
    if (code) return code;
    throw error;
  }
}

/** @param {number} step @param {number} first @param {string[]} names */
async function faults(step, first, names) {
  const module = new Uint8Array(readFileSync(new URL('../../js/gemma-relaxed.wasm', import.meta.url)));
  const results = [];
  for (const name of names) {
    const file = new Uint8Array(readFileSync(await testModel(name))), expected = await outcome(module, file);
    for (const { bytes, ...flip } of flipped(module, step, first)) {
      results.push({ model: name, ...flip, outcome: await outcome(bytes, file, expected) });
    }
  }
  return results;
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'faults') {
  const [step, first, ...names] = rest;
  console.log(JSON.stringify(await faults(Number(step), Number(first), names)));
} else {
  /** @type {Record<string, unknown>} */
  const all = {};
  const [variant, ...names] = rest;
  for (const name of names) all[name] = await bitsOf(name, variant);
  console.log(JSON.stringify(all));
}
