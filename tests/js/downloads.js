/* downloads: for tests of downloads and of the model cache, a model, another model of the same shape, and the logits of
 * both. Importing this module sets the tuning of downloads. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { loadModel } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { TUNING as USUAL } from '../lab/place.js';
import { someIds } from './helpers.js';
import { testModel } from './models.js';

export const TUNING = { ...USUAL, longestMs: 2000 };
environment.tuning = TUNING;

/** Changes the tuning of downloads until the test ends. @param {TestContext} t @param {Partial<Tuning>} changes */
export function tune(t, changes) {
  environment.tuning = { ...environment.tuning, ...changes };
  t.after(() => {
    environment.tuning = TUNING;
  });
}

/** Loads a model, and disposes of it. Returns its logits after a prompt, and what the load reported.
 * @param {ModelSource} source @param {LoadOptions} [options] */
export async function load(source, options) {
  /** @type {Progress[]} */ const events = [];
  const model = await loadModel(source, { threads: 1, onProgress: (event) => events.push(event), ...options });
  try {
    const logits = await model.debug.logits(someIds(6, 320));
    const { info } = model;
    const codes = info.notices.map(({ code }) => code);
    return { logits, info, kept: info.cache, codes, events, last: events[events.length - 1] };
  } finally {
    await model.dispose();
  }
}

/** Returns the digest as a hexadecimal string, as the option `sha256` expects it.
 * @param {import('node:crypto').BinaryLike} data */
export const sha256Of = (data) => createHash('sha256').update(data).digest('hex');

export const bytes = await readFile(await testModel('parity-q4_0'));
export const other = Buffer.from(bytes);
for (let at = bytes.length >> 1; at < bytes.length; at += 977) other[at] ^= 1;
export const { logits: expected } = await load(new Uint8Array(bytes));
export const { logits: expectedOther } = await load(new Uint8Array(other));
assert.notDeepEqual(expected, expectedOther);
