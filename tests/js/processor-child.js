/**
 * processor-child: the child process of processors.test.js, whose V8 imitates another processor. Prints a JSON object.
 *
 *   node [V8 FLAGS] processor-child.js bits VARIANT MODEL…
 *     prints digests of each model's logits after a prompt, evaluated in one batch and token by token, and those of the
 *     first model from a worker with two threads
 *   node [V8 FLAGS] processor-child.js faults STEP FIRST MODEL…
 *     prints the outcomes of engines in which one instruction is replaced (every STEP-th from FIRST on) or, if STEP is
 *     0, all instructions of one kind
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { FLIPS, flipped, outcome, sitesOf } from './flips.js';
import { loadModel } from '../../js/index.node.js';
import { barePlatform, bitsOf, digestsOf } from './local.js';
import { testModel } from './models.js';

const JS = new URL('../../js/', import.meta.url);

/** Yields copies of a wasm module in which one relaxed SIMD instruction is replaced, or all instructions of one kind if
 * `step` is 0. @param {Uint8Array} module @param {number} step @param {number} first */
function* faulty(module, step, first) {
  const sites = sitesOf(module);
  const groups = step
    ? sites.filter((_, i) => i % step === first % step).map((site) => [site])
    : Object.keys(FLIPS).map((name) => sites.filter((site) => site.name === name));
  for (const group of groups) yield { ...group[0], bytes: flipped(module, group) };
}

/** @param {number} step @param {number} first @param {string[]} names */
async function faults(step, first, names) {
  const module = new Uint8Array(readFileSync(new URL('gemma-relaxed.wasm', JS)));
  const results = [];
  for (const name of names) {
    const file = new Uint8Array(readFileSync(await testModel(name)));
    const expected = await outcome(module, file);
    for (const { bytes, ...flip } of faulty(module, step, first)) {
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
  const [variant, ...names] = /** @type {['auto', ...string[]]} */ (rest);
  const platform = barePlatform(async (name) => WebAssembly.compile(await readFile(new URL(name, JS))));
  /** @type {Record<string, unknown>} */
  const all = {};
  for (const name of names) all[name] = await bitsOf(readFileSync(await testModel(name)), platform, variant);
  const model = await loadModel(await testModel(names[0]), { threads: 2, contextLength: 64, variant });
  all.worker = { ...model.info, bits: await digestsOf((ids, rows) => model.debug.logits(ids, { all: rows })) };
  await model.dispose();
  console.log(JSON.stringify(all));
}
