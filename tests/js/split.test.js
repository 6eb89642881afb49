/* Tests split models: as arrays, with Files in any order; by the name of the first file, as a path or URL; from a
 * server that fails. Incomplete models are rejected. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { byteRange } from '../../tools/serve.js';
import { environment } from '../../js/platform/env.js';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { describeSource } from '../../js/download/describe.js';
import { TUNING, bytes, expected, load, sha256Of } from './downloads.js';
import { newFolder, refuses, serveWith } from './helpers.js';
import { splitModel } from './split.js';

const NAMES = [1, 2, 3].map((i) => `tiny-0000${i}-of-00003.gguf`);

const parts = splitModel(bytes, 3);
environment.tuning = { ...TUNING, segment: 1 << 16 };

/** @param {ModelSource} source @param {LoadOptions} [options] */
const logitsOf = async (source, options) => (await load(source, { cache: false, ...options })).logits;

test('arrays may have bytes, streams and iterables in order, and Files in any order', async () => {
  const file = (/** @type {number} */ i) => new File([parts[i]], NAMES[i]);
  const sources = [
    parts,
    parts.map((part) => new Blob([part])),
    parts.map((part) => new Blob([part]).stream()),
    [file(2), file(0), file(1)],
    [parts[0], new Blob([parts[1]]), [parts[2]].values()],
  ];
  for (const source of sources) assert.deepEqual(await logitsOf(source), expected);
});

test('the path of the first file stands for all files', async (t) => {
  const folder = newFolder(t);
  for (const [i, part] of parts.entries()) await writeFile(join(folder, NAMES[i]), part);
  const { logits, last } = await load(join(folder, NAMES[0]));
  assert.deepEqual(logits, expected);
  const { loaded, total, phase } = last;
  assert.deepEqual([phase, loaded], ['ready', total]);
  assert.ok(Number(total) <= parts.reduce((sum, part) => sum + part.length, 0));
  const { info, tensors } = await inspectModel(join(folder, NAMES[0]));
  assert.equal(info.fileBytes, total);
  assert.ok(tensors.some((tensor) => Object(tensor).part === 2));
  await refuses(loadModel(join(folder, NAMES[1])), 'bad-split');
  await refuses(loadModel([join(folder, NAMES[0]), join(folder, NAMES[1])]), 'bad-split');
  await rm(join(folder, NAMES[2]));
  await refuses(loadModel(join(folder, NAMES[0])), 'read-error', /00003-of-00003/);
});

test('sha256 must have as many digests as there are files', async () => {
  const sha256 = parts.map(sha256Of);
  const [first] = sha256;
  for (const wrong of [first, [first], [], [...sha256, first]]) {
    const message = new RegExp(`must have 3 digests.*got ${[wrong].flat().length}`);
    await refuses(loadModel(parts, { threads: 1, sha256: wrong }), 'bad-option', message);
  }
  const whole = Buffer.concat(parts);
  const other = sha256Of(whole);
  for (const wrong of [[], [other, other]])
    await refuses(loadModel(whole, { threads: 1, sha256: wrong }), 'bad-option');
  assert.deepEqual(await logitsOf(parts, { sha256 }), expected);
});

test('the URL of the first file, or its name on Hugging Face, stands for all files', () => {
  const urls = (/** @type {ModelSource} */ source) =>
    describeSource(source, (url) => ({ kind: 'url', url })).map(({ descriptor }) => Object(descriptor).url);
  assert.deepEqual(urls('https://x.org/a-00001-of-00002.gguf?download=true'), [
    'https://x.org/a-00001-of-00002.gguf?download=true',
    'https://x.org/a-00002-of-00002.gguf?download=true',
  ]);
  assert.deepEqual(
    urls({ repo: 'a/b', file: 'q/m-00001-of-00003.gguf' }).map((url) => url.slice(-24)),
    ['/q/m-00001-of-00003.gguf', '/q/m-00002-of-00003.gguf', '/q/m-00003-of-00003.gguf'],
  );
  for (const one of ['a-00002-of-00002', 'a-00001-of-00000']) {
    assert.equal(urls(`https://x.org/${one}.gguf`).length, 1);
  }
});

/** Serves the parts. Every seventh request, beginning with the fourth, gets only nine bytes. @param {TestContext} t */
async function server(t) {
  const state = { requests: 0 };
  const base = await serveWith(t, (request, response) => {
    const part = parts[NAMES.indexOf(String(request.url).slice(1))];
    if (!part) {
      response.writeHead(404).end();
      return;
    }
    const [first, last] = /** @type {[number, number]} */ (byteRange(request.headers.range, part.length));
    response.writeHead(206, {
      'Content-Range': `bytes ${first}-${last}/${part.length}`,
      ETag: '"x"',
      'Content-Length': last + 1 - first,
    });
    if (state.requests++ % 7 === 3)
      response.write(part.subarray(first, first + 9), () => response.socket?.destroySoon());
    else response.end(part.subarray(first, last + 1));
  });
  return { base, state };
}

test('a split model loads from a server that breaks connections, and from the cache, with a digest of each part', async (t) => {
  const { base, state } = await server(t);
  const cache = openCache(newFolder(t));
  const sha256 = parts.map(sha256Of);
  const url = `${base}/${NAMES[0]}`;
  assert.deepEqual(await logitsOf(url, { cache, sha256 }), expected);
  assert.deepEqual(
    (await cache.list()).map(({ complete }) => complete),
    [true, true, true],
  );
  state.requests = 4;
  assert.deepEqual(await logitsOf(url, { cache, sha256 }), expected);
  assert.equal(state.requests, 7);
  const error = await refuses(
    loadModel(url, { threads: 1, cache: false, sha256: [sha256[0], sha256[0], sha256[2]] }),
    'sha256-mismatch',
  );
  assert.equal(error.got, sha256[1]);
  await refuses(loadModel(`${base}/more-00001-of-00002.gguf`, { threads: 1 }), 'http-error');
});

test('the phase of the progress is that of the part being read', async (t) => {
  const { base } = await server(t);
  const cache = openCache(newFolder(t));
  const phases = async () => {
    const { logits, events } = await load(`${base}/${NAMES[0]}`, { cache });
    assert.deepEqual(logits, expected);
    return events.map(({ phase }) => phase).filter((phase, i, all) => phase !== all[i - 1]);
  };
  assert.deepEqual(await phases(), ['fetch', 'ready']);
  assert.deepEqual(await phases(), ['load', 'ready']);
  const second = (await cache.list()).find(({ url }) => url.endsWith(NAMES[1]));
  await cache.delete(String(second?.key));
  // First come the headers of all parts, then the rest of each part.
  assert.deepEqual(await phases(), ['load', 'fetch', 'load', 'fetch', 'load', 'ready']);
});
