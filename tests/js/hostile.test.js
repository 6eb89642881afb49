/* Tests hostile files (tests/vectors/malformed.md, and the damaged models of models.js): each is rejected with its own
 * error code, and afterwards the same process loads and runs a valid model as before. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { CODES } from '../../js/errors.js';
import { refuses } from './helpers.js';
import { BAD_MODELS, badModel, testModel } from './models.js';

const path = (/** @type {string} */ name) => new URL(`../${name}`, import.meta.url);
const EXPECTED = JSON.parse(readFileSync(path('vectors/malformed.json'), 'utf8'));

async function sound() {
  const model = await loadModel(await testModel('tiny'), { threads: 1, cache: false });
  try {
    return Array.from(await model.debug.logits([2, 300, 301, 302]));
  } finally {
    await model.dispose();
  }
}

test('each malformed file gives its error, and a valid model loads afterwards', async (t) => {
  const before = await sound();
  let n = 0;
  for (const [name, code] of Object.entries(EXPECTED)) {
    await t.test(`${name}: ${code}`, async () => {
      assert.ok(code in CODES);
      const bytes = readFileSync(path(`fuzz/corpus/malformed/${name}.gguf`));
      await refuses(loadModel(bytes, { threads: 1 }), code, /^[A-Z].*\.$/);
      if (n++ % 16 === 0) assert.deepEqual(await sound(), before);
    });
  }
  assert.deepEqual(await sound(), before);
});

test('damaged models are rejected, from a file of known size and from a stream of pieces of odd sizes', async (t) => {
  for (const name of Object.keys(BAD_MODELS)) {
    await t.test(name, async () => {
      const { bytes, codes } = await badModel(name);
      const pieces = (function* cut() {
        for (let at = 0, n = 1; at < bytes.length; at += n, n = ((n * 3) % 7919) + 1) yield bytes.slice(at, at + n);
      })();
      for (const source of [new Blob([new Uint8Array(bytes)]), pieces]) {
        await refuses(loadModel(source, { threads: 1 }), codes, /^[A-Z].*\.$/);
      }
    });
  }
});
