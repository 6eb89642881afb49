/* helpers: functions that several package tests share. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelError, loadModel } from '../../js/index.node.js';
import { listen } from '../support/listen.js';
import { modelBytes, testModel } from './models.js';

// Gives each test process its own model cache.
process.env.XDG_CACHE_HOME = mkdtempSync(join(tmpdir(), 'gemma-wasm-test-'));
process.on('exit', () => rmSync(/** @type {string} */ (process.env.XDG_CACHE_HOME), { recursive: true, force: true }));

/** Returns a new folder, which is removed when the test ends. @param {TestContext} t */
export function newFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Returns a loaded test model that is disposed of when the test ends. @param {TestContext} t
 * @param {string | ModelSpec} [model] name or specification @param {LoadOptions} [options] */
export async function open(t, model = 'tiny', options = {}) {
  const source = await (typeof model === 'string' ? testModel(model) : modelBytes(model));
  const loaded = await loadModel(source, { threads: 1, ...options });
  t.after(() => loaded.dispose());
  return loaded;
}

/** Asserts that f (a promise or a function) fails with a ModelError of this code and a message that matches, and
 * returns the error. @param {PromiseLike<unknown> | (() => unknown)} f @param {string | string[]} code
 * @param {RegExp} [message] @returns {Promise<ModelError & { expected: string, got: string }>} */
export async function refuses(f, code, message = /./) {
  const codes = [code].flat();
  /** @type {any} */ let error;
  try {
    await (typeof f === 'function' ? f() : f);
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `expected the code ${codes.join(' or ')}, but there was no error`);
  assert.ok(error instanceof ModelError, `expected a ModelError, got ${error?.stack}`);
  assert.ok(codes.includes(error.code), `expected ${codes.join(' or ')}, got ${error.code}: ${error.message}`);
  assert.match(error.message, message);
  return /** @type {any} */ (error);
}

/** Starts a server that closes when the test ends. Returns its address. @param {TestContext} t
 * @param {import('node:http').RequestListener} handler */
export const serveWith = async (t, handler) => (await listen(t, handler)).address;

/** Returns n token ids for a prompt: the first one is that of <bos>, the others are ordinary tokens.
 * @param {number} n */
export const someIds = (n, vocabSize = 1024) => [
  2,
  ...Array.from({ length: n - 1 }, (_, i) => 300 + ((i * 37) % (vocabSize - 300))),
];

export { sleep };

/** Waits until a condition holds. Returns the milliseconds that this took.
 * @param {() => unknown} condition @param {number} [limit] in milliseconds */
export async function until(condition, limit = 60_000) {
  const began = performance.now();
  while (!(await condition())) {
    assert.ok(performance.now() - began < limit, `not within ${limit} ms: ${condition}`);
    await sleep(5);
  }
  return performance.now() - began;
}

/** Returns a value as `any`, to pass it where the API's types reject it. @param {unknown} value
 * @returns {any} */
export const wrong = (value) => value;

/** Returns the fields of a result that a repeated call reproduces. @param {GenerateResult} result */
export function essence({ text, tokens, finishReason, seed }) {
  return { text, tokens, finishReason, seed };
}
