/* A part of the laboratory of faults (tests/lab/): every third kind, without those that take long. The whole of it is
 * `node tests/lab/run.js`. A run that broke a rule says how it is made again. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { KINDS } from '../lab/faults.js';
import { experiment, planOf } from '../lab/laboratory.js';
import { NodePlace } from '../lab/place-node.js';
import { tableOf } from '../lab/table.js';
import { testModel } from './models.js';

const SLOW = /silent|never answers|later|late|slowly|connection|chunks/;

test('there are at least 60 kinds of fault, each with a name of its own', () => {
  assert.ok(KINDS.length >= 60, `${KINDS.length} kinds`);
  assert.equal(new Set(KINDS.map(({ name }) => name)).size, KINDS.length);
  assert.deepEqual(planOf(7, 3), planOf(7, 3));
});

test('each run ends with a right model or a coded error, no complete copy is lost, the next load is right', async () => {
  const bytes = await readFile(await testModel('parity-q4_0'));
  // Behind the first cycle of kinds: those are all with an engine.
  const numbers = KINDS.flatMap(({ name }, i) => (i % 3 || SLOW.test(name) ? [] : [KINDS.length + i]));
  const rows = await experiment(bytes, { place: new NodePlace(), numbers, seed: 7 });
  assert.deepEqual(
    Object.values(rows).flatMap(({ broken }) => broken),
    [],
  );
  assert.equal(Object.keys(rows).length, numbers.length);
  assert.match(tableOf(rows, { runs: numbers.length, seed: 7 }), / 0 broken rules/);
});
