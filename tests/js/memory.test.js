/* Compares the peak memory of the engine's process with the memory plan, for a 720 MB file shaped like a 1B model. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { testModel } from './models.js';

const ENTRY = fileURLToPath(new URL('../../js/index.node.js', import.meta.url));

/* The program runs in a separate process, so that the peak memory is the engine's and not the test runner's. */
const PROGRAM = `
  import { readFileSync } from 'node:fs';
  const [entry, path, contextLength, repeats] = process.argv.slice(1);
  const { loadModel } = await import(entry);
  const model = await loadModel(path, { contextLength: Number(contextLength), threads: 2 });
  const text = 'A history of the world in one sentence: '.repeat(repeats);
  const { usage } = await model.generate(text, { maxTokens: 8, temperature: 0 }).result();
  const { memory } = model.info;
  await model.dispose();
  const peak = Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;
  console.log(JSON.stringify({ memory, usage, peak }));
`;

/** Runs PROGRAM. Returns the memory plan, the usage and the peak memory of its process. @param {number} contextLength
 * @param {number} repeats of a sentence in the prompt */
async function run(contextLength, repeats) {
  const path = await testModel('oneb-q4_0');
  const args = ['--input-type=module', '-e', PROGRAM, ENTRY, path, String(contextLength), String(repeats)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

const skip = existsSync('/proc/self/status') ? false : 'the peak of a process is read from /proc (Linux)';
const mb = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(0);

test('1B Q4_0: the process never takes more than 1.15 x (weights + KV + scratch)', { skip }, async (t) => {
  const { memory, peak, usage } = await run(4096, 20);
  const { weights, kv, scratch } = memory;
  const planned = weights + kv + scratch;
  t.diagnostic(
    `weights ${mb(weights)} MB, KV ${mb(kv)} MB, scratch ${mb(scratch)} MB; ` +
      `peak of the process ${mb(peak)} MB = ${(peak / planned).toFixed(3)} x`,
  );
  assert.ok(usage.completionTokens > 0);
  assert.ok(peak <= 1.15 * planned, `peak ${peak}, planned ${planned}`);
});

test('1B Q4_0: a context of 32768 tokens has a KV cache below 200 MB', { skip }, async (t) => {
  const { memory, peak } = await run(32768, 1);
  t.diagnostic(`KV ${mb(memory.kv)} MB; peak of the process ${mb(peak)} MB`);
  assert.ok(memory.kv < 200e6, `KV ${memory.kv}`);
});
