/* flips: the whole of tests/js/store-checks.test.js's bits: so many flipped bits in a stored copy, one at a time.
 *   node tests/lab/flips.js [COUNT] [SEED]      10,000 bits unless told otherwise, every hundredth with an engine */
import { readFile } from 'node:fs/promises';
import { loadModel } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { testModel } from '../js/models.js';
import { flipRuns, storedCopy } from './flipping.js';
import { readThrough } from './reading.js';

const WITH_ENGINE = 100;

/** @param {string} url @param {{ cache: import('../../js/index.node.js').ModelCache }} place */
async function logitsOf(url, { cache }) {
  const model = await loadModel(url, { threads: 1, cache });
  const logits = await model.logits([2, 300, 310]);
  await model.dispose();
  return logits;
}

const [count = 10_000, seed = 1] = process.argv.slice(2).map(Number);
environment.tuning = {
  segment: 1 << 18,
  alone: Number.MAX_VALUE,
  journal: 1 << 14,
  backoffMs: 1,
  longestMs: 500,
  stallMs: 5000,
};
/** @type {(() => unknown)[]} */
const after = [];
const bytes = await readFile(await testModel('parity-q4_0'));
const place = await storedCopy({ after: (/** @type {() => unknown} */ f) => after.push(f) }, bytes);
const each = (/** @type {number} */ done) => {
  if (done % 1000 === 0) console.error(`${done} bits`);
};
const bytesOnly = await flipRuns(place, {
  count: count - Math.floor(count / WITH_ENGINE),
  seed,
  read: readThrough,
  expected: bytes,
  each,
});
const withEngine = await flipRuns(place, {
  count: Math.floor(count / WITH_ENGINE),
  seed: seed + 1,
  read: logitsOf,
  expected: await logitsOf(place.server.url, place),
});
for (const f of after) await f();
console.log(JSON.stringify({ bytesOnly, withEngine, bytes: bytes.length, piece: place.piece }));
