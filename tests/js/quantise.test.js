/** Compares tools/models/quantise.js, which makes test models, with ggml's bytes for the same floats
 * (tests/vectors/quantise-js.json; made by tools/vectors/quantise.py). */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { f16Of, f16To, quantise } from '../../tools/models/quantise.js';

const VECTORS = JSON.parse(fs.readFileSync(new URL('../vectors/quantise-js.json', import.meta.url), 'utf8'));
const bytes = (/** @type {string} */ hex) => Uint8Array.from(Buffer.from(hex, 'hex'));
const INPUT = new Float32Array(bytes(VECTORS.input).buffer);

for (const type of /** @type {const} */ (['F16', 'BF16', 'Q4_0', 'Q8_0'])) {
  test(`${type}: the bytes equal ggml's`, () => {
    const ours = quantise(type, INPUT);
    const theirs = bytes(VECTORS[type]);
    assert.equal(ours.length, theirs.length);
    const at = ours.findIndex((b, i) => b !== theirs[i]);
    assert.equal(at, -1, `byte ${at}: ${ours[at]}, ggml has ${theirs[at]}`);
  });
}

test('F32 is copied', () => assert.deepEqual(quantise('F32', INPUT), bytes(VECTORS.input)));

test('every F16 value survives conversion to a float and back', () => {
  for (let h = 0; h < 65536; h++) {
    const value = f16To(h);
    if (Number.isNaN(value)) assert.ok(Number.isNaN(f16To(f16Of(value))));
    else assert.equal(f16Of(value), h);
  }
});

test('a row that is not whole blocks is refused', () => {
  assert.throws(() => quantise('Q4_0', new Float32Array(33)), /not a whole number of Q4_0 blocks/);
});
