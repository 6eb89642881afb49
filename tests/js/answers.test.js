/* Runs a part of answers.js: all answers parse, are valid according to ajv, and end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answers, modelPaths, unbounded } from './answers.js';

test('answers under random schemas parse and are valid according to ajv, at temperatures 0, 1 and 5', async () => {
  const counts = await answers(12, await modelPaths(), [
    [0, 1],
    [1, 1],
    [5, 2],
  ]);
  assert.ok(!counts.refused && counts.stop > 60, JSON.stringify(counts));
  assert.equal(counts.stop + (counts.length ?? 0), 72);
});

test('answers under schemas without bounds end, are valid according to ajv, and have only finite numbers', async () => {
  const counts = await unbounded(66, await modelPaths());
  assert.ok(counts.stop >= 60, JSON.stringify(counts));
});
