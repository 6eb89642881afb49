/**
 * Runs a model of every architecture natively under AddressSanitizer and UndefinedBehaviorSanitizer (run_file.c), and
 * one under ThreadSanitizer, because the C tests (tests/c) only make files of Gemma 3. The logits must have the same
 * bits as in WebAssembly.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { open } from '../js/helpers.js';
import { testModel } from '../js/models.js';

const N = 44; // longer than the attention windows
/** Number of ids after which run_file.c writes logits. */
const ENDS = [N - 4, N - 3, N - 2, N - 1, N, N];
const ids = Array.from({ length: N }, (_, i) => (i * i + 5) % 320);
const MODELS = [
  ...'gemma gemma2 mqa gemma4 gpt2 granite llama phi3 qwen2 qwen3 smollm3'.split(' ').map((name) => `${name}-q4_0`),
  'mix-q4_k_m',
  'gemma4-values-f32',
];
/** ThreadSanitizer takes five times as long, and this model has the most steps that threads share. */
const THREADED = 'gemma4-q4_0';

for (const name of MODELS) {
  test(`${name}: gives the same logits natively under the sanitizers`, async (t) => {
    const file = await testModel(name);
    const model = await open(t, name, { variant: 'simd128', contextLength: 128 });
    const expected = Buffer.concat(
      await Promise.all(ENDS.map(async (end) => new Uint8Array((await model.debug.logits(ids.slice(0, end))).buffer))),
    );
    for (const build of name === THREADED ? ['asan', 'tsan'] : ['asan']) {
      const program = fileURLToPath(new URL(`../../build/${build}/gw_run_file`, import.meta.url));
      const threads = build === 'tsan' ? '2' : '1';
      const options = /** @type {const} */ ({ encoding: 'buffer', maxBuffer: 1 << 26 });
      const { stdout } = await promisify(execFile)(program, [file, threads, String(N)], options);
      assert.ok(expected.equals(stdout), `${build}: other logits`);
    }
  });
}
