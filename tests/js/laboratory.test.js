/* Runs a part of the fault-injection tests (case `faults` of tests/lab/): every third kind of fault, except slow ones.
 * A failed run prints the command that repeats it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Faults, planOf, tryFaults } from '../lab/faults.js';
import { run as compareHeads } from '../lab/head.js';
import { KINDS } from '../lab/inject.js';
import { closeAll } from '../support/closing.js';
import { testModel } from './models.js';

const SLOW = /silent|never answers|pause|late|slowly|connection|chunks/;

test('there are at least 105 kinds of fault, each with its own name', () => {
  assert.ok(KINDS.length >= 105, `${KINDS.length} kinds`);
  assert.equal(new Set(KINDS.map(({ name }) => name)).size, KINDS.length);
  assert.deepEqual(planOf(7, 3), planOf(7, 3));
});

test('each run ends with the right model or an error with a code, no complete copy is lost, and the next load is right', async () => {
  const faults = new Faults(await readFile(await testModel('parity-q4_0')), { side: 'node' });
  // Run n injects a fault of kind n modulo the number of kinds. Skips the first run of each kind, which loads an engine
  // and is slow.
  const numbers = KINDS.flatMap(({ name }, i) => (i % 3 || SLOW.test(name) ? [] : [KINDS.length + i]));
  const rows = await tryFaults(faults, 7, numbers);
  assert.deepEqual(
    Object.values(rows).flatMap(({ broken }) => broken),
    [],
  );
  assert.equal(Object.keys(rows).length, numbers.length);
  for (const { tried, right, coded } of Object.values(rows)) assert.deepEqual([tried, right + coded], [1, 1]);
});

test('closeAll() calls every function, even after one that fails, and throws the first error', async () => {
  /** @type {number[]} */
  const called = [];
  const fails = async (/** @type {number} */ n) => {
    called.push(n);
    throw new Error(`failed: ${n}`);
  };
  await assert.rejects(closeAll([() => fails(1), () => called.push(2), () => fails(3), () => called.push(4)]), {
    message: 'failed: 1',
  });
  assert.deepEqual(called, [1, 2, 3, 4]);
  await closeAll([]);
});

test('the case `head` compares answers for `count` seeds, even if `first` is not 0', async () => {
  const asked = { side: /** @type {const} */ ('node'), seed: 1, kind: '', after: () => {} };
  const { counts, broken } = await compareHeads({ ...asked, count: 2, first: 5 });
  assert.deepEqual([counts.answers, broken], [2 * 2, []], 'two models');
});
