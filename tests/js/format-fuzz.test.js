/* Runs a part of the format fuzzing (format-fuzz.js), and tests regressions that longer runs found. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Unsupported, toBytes } from '../../js/grammar/index.js';
import { fuzzFormats } from './format-fuzz.js';

test('random formats compile to bytes that the engine accepts, or are rejected with an error that names the part', async () => {
  const counts = await fuzzFormats(1, (n) => n < 1500);
  assert.ok(counts.taken > 100 && counts.refused > 100, JSON.stringify(counts));
});

test('a `contains` that nothing matches, beside unevaluatedItems, compiles or is rejected', () => {
  const contains = false;
  const unevaluatedItems = { maxItems: 1 };
  assert.ok(toBytes({ schema: { contains, minContains: 0, unevaluatedItems } }).length > 0);
  assert.throws(() => toBytes({ schema: { contains, oneOf: [{ const: [[]] }], unevaluatedItems } }), Unsupported);
});
