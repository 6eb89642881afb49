/**
 * Tests weaker processors, imitated by flags of V8, and faulty ones, imitated by replacing an instruction: results are
 * the same bits as simd128's, or an error. Each processor runs in a separate process (processor-child.js).
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { features } from '../../js/platform/features.js';
import { SMALL_MODELS } from './models.js';

const run = promisify(execFile);
const { relaxed } = features();
const CHILD = fileURLToPath(new URL('./processor-child.js', import.meta.url));
/** Models to run with replaced instructions. Their weight formats differ, because each format has its own kernel. */
const FAULTY = ['tiny', 'mix-k', 'mix-q4_k_m', 'mix-iq4_xs'];

/** Test models. Each weight type and each architecture has its own code, so two architectures are tested with all
 * weight types, and the others with two. tools/check/processors.js tests all pairs. */
const TESTED = SMALL_MODELS.filter(
  (name) => !/^(gemma|gemma4|granite|llama|phi3|qwen2|qwen3|smollm3)-(outliers|b?f16|q[48]_0)$/.test(name),
);

/** Returns the output of processor-child.js, or null if this V8 does not know a flag. @param {string[]} flags
 * @param {string[]} args */
async function child(flags, args) {
  try {
    const { stdout } = await run(process.execPath, [...flags, CHILD, ...args], { maxBuffer: 2 ** 26 });
    return JSON.parse(stdout);
  } catch (error) {
    const { stderr } = /** @type {{ stderr?: string }} */ (error);
    if (stderr?.includes('bad option')) return null;
    throw error;
  }
}

/** @type {Promise<Record<string, { bits: string, variant: string }>> | undefined} */
let expected;
const simd128 = () => (expected ??= child([], ['bits', 'simd128', ...TESTED]));

/** V8 flags that imitate processors. In a Node without relaxed SIMD, an empty list of flags would compare simd128 with
 * itself. */
const PROCESSORS = [
  ...(relaxed ? [[]] : []),
  ['--no-enable-avx'],
  ['--no-enable-avx', '--liftoff-only'],
  ['--no-enable-avx', '--no-liftoff'],
  ['--no-enable-avx-vnni'],
];
for (const flags of PROCESSORS) {
  test(`${flags.join(' ') || 'no flags'}: the test models give simd128's bits`, async (t) => {
    const got = await child(flags, ['bits', 'auto', ...TESTED]);
    if (!got) return t.skip('this V8 has no such flag');
    const want = await simd128();
    for (const name of [...TESTED, 'worker']) {
      assert.match(want[name].variant, /simd128/);
      assert.equal(got[name].bits, want[name].bits, `${name}, ${got[name].variant} ${got[name].variantReason}`);
      if (relaxed && !got[name].variantReason) assert.match(got[name].variant, /relaxed/, name);
    }
  });
}

/** AVX-VNNI changes which kernels the engine uses, so the tests run with and without AVX-VNNI. */
for (const flags of [[], ['--no-enable-avx-vnni']]) {
  const processor = flags.join() || 'no flags';

  test(`${processor}: if one kind of instruction is wrong, the check at the start detects it`, async (t) => {
    if (!relaxed) return t.skip('this Node runs no relaxed SIMD; Node 22 and later do');
    const results = await child(flags, ['faults', '0', '0', ...FAULTY]);
    if (!results) return t.skip('this V8 has no such flag');
    assert.equal(results.length, 3 * FAULTY.length);
    for (const { name, model, outcome } of results) {
      const wanted = name.startsWith('i16x8') ? 'right, with a note' : 'refused';
      assert.equal(outcome, wanted, `${name}, ${model}`);
    }
  });

  test(`${processor}: a single wrong instruction never gives wrong logits`, async (t) => {
    if (!relaxed) return t.skip('this Node runs no relaxed SIMD; Node 22 and later do');
    const results = (
      await Promise.all(FAULTY.map((name, i) => child(flags, ['faults', '37', `${i * 17}`, name])))
    ).flat();
    if (!results[0]) return t.skip('this V8 has no such flag');
    /** @type {Record<string, number>} */
    const counts = {};
    for (const { outcome, ...flip } of results) {
      assert.notEqual(outcome, 'wrong', JSON.stringify(flip));
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
    t.diagnostic(JSON.stringify(counts));
    assert.ok(counts['engine-fault'] > 0, 'no fault was in a kernel that a file used, so nothing was tested');
  });
}

test('model.info says why the variant was chosen', async () => {
  assert.equal((await simd128()).worker.variantReason, '');
  const got = await child(['--no-enable-avx'], ['bits', 'auto', 'tiny']);
  const [major] = process.versions.node.split('.').map(Number);
  // Without AVX, V8 12.4 and 13.6 have a known bug (proof.h). Processors other than x86 accept the flag, but have no
  // AVX to disable.
  if (relaxed && process.arch === 'x64' && (major === 22 || major === 24)) {
    assert.match(got.worker.variantReason, /relaxed_\w+ gives wrong results/);
  }
});
