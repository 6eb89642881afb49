/* Tests sources by name: files of a Hugging Face repository by their quantisation, from a mirror and offline; entries
 * of the cache's list; and probe(), which predicts the chosen wasm module before anything is loaded. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { inspectModel, loadModel, openCache, probe } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { listen } from '../support/listen.js';
import { newFolder, refuses } from './helpers.js';
import { memoryStore } from './memory-store.js';
import { testModel } from './models.js';

const FILES = [
  'README.md',
  'mmproj-Q8_0.gguf',
  'tiny-Q4_K_M.gguf',
  'tiny-Q4_K.gguf',
  'big/tiny-q8_0.gguf',
  'tiny-F16-00002-of-00002.gguf',
];

/** Starts a fake Hugging Face hub with one repository, whose files are all the same model. Records the requests.
 * @param {TestContext} t */
async function hub(t) {
  const bytes = await readFile(await testModel('tiny'));
  /** @type {string[]} */
  const asked = [];
  const { close, address } = await listen(t, ({ url = '', headers }, response) => {
    asked.push(`${url}${headers.authorization ? ` ${headers.authorization}` : ''}`);
    if (url.startsWith('/api/models/a/b/revision/')) {
      return void response.end(JSON.stringify({ siblings: FILES.map((rfilename) => ({ rfilename })) }));
    }
    if (url.startsWith('/api/models/a/silent/')) return;
    if (!url.startsWith('/a/b/resolve/main/')) return void response.writeHead(404).end();
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const piece = first ? bytes.subarray(Number(first), Number(last) + 1) : bytes;
    const from = Number(first ?? 0);
    response.setHeader('etag', '"one"');
    if (first) response.setHeader('content-range', `bytes ${from}-${from + piece.length - 1}/${bytes.length}`);
    response.writeHead(first ? 206 : 200, { 'content-length': piece.length }).end(piece);
  });
  return { asked, close, address };
}

test('a repository and a quantisation name a file of a mirror, even offline once it is cached', async (t) => {
  const { asked, close, address } = await hub(t);
  const cache = openCache(newFolder(t));
  const options = { hub: `${address}/`, cache, threads: 1, token: 'secret' };
  await (await loadModel({ repo: 'a/b', quant: 'Q4_K' }, options)).dispose();
  assert.equal(asked[0], '/api/models/a/b/revision/main Bearer secret');
  assert.equal(asked[1], '/a/b/resolve/main/tiny-Q4_K.gguf Bearer secret');
  await inspectModel({ repo: 'a/b', quant: 'q8_0' }, options);
  assert.equal(asked.at(-1)?.split(' ')[0], '/a/b/resolve/main/big/tiny-q8_0.gguf');
  const none = await refuses(loadModel({ repo: 'a/b', quant: 'IQ1_S' }, options), 'unsupported-source');
  assert.match(none.message, /with IQ1_S\. The repository has tiny-Q4_K_M\.gguf, tiny-Q4_K\.gguf, tiny-q8_0\.gguf\.$/);
  await refuses(loadModel({ repo: 'x/y', quant: 'Q4_K' }, options), 'http-error', /status 404/);
  await refuses(loadModel({ repo: 'a/b' }, options), 'unsupported-source');
  await (await loadModel(`${address}/a/b/resolve/main/mmproj-Q8_0.gguf`, options)).dispose();
  await close();
  const again = await loadModel({ repo: 'a/b', quant: 'Q4_K' }, options);
  assert.equal(again.info.cache, 'cached');
  await again.dispose();
  await refuses(
    loadModel({ repo: 'a/b', quant: 'Q8_0' }, options),
    'unsupported-source',
    /The repository has tiny-Q4_K\.gguf\./,
  );
  await refuses(loadModel({ repo: 'a/b', quant: 'Q4_K' }, { ...options, cache: false }), 'network-error');
});

test('if neither the hub nor the cache can be read, the error is that of the hub', async (t) => {
  const { address } = await hub(t);
  const cache = openCache(memoryStore({ list: () => Promise.reject(new Error('no storage')) }));
  await refuses(loadModel({ repo: 'x/y', quant: 'Q4_K' }, { hub: address, cache }), 'http-error', /status 404/);
});

test('a request to a hub that does not answer fails after a time limit', async (t) => {
  const { address } = await hub(t);
  environment.tuning = { stallMs: 100 };
  t.after(() => {
    environment.tuning = undefined;
  });
  const loading = loadModel({ repo: 'a/silent', quant: 'Q4_K' }, { hub: address, cache: false });
  await refuses(loading, 'network-error', /the server did not answer within 100 ms/);
});

test('an entry of the cache can be loaded, even offline', async (t) => {
  const { close, address } = await hub(t);
  const cache = openCache(newFolder(t));
  const options = { cache, threads: 1 };
  await (await loadModel(`${address}/a/b/resolve/main/tiny-Q4_K.gguf`, options)).dispose();
  await close();
  const [entry] = await cache.list();
  const model = await loadModel(entry, options);
  assert.equal(model.info.cache, 'cached');
  await model.dispose();
});

test('an abort during the request to the hub has the error name of the platform', async (t) => {
  const { address } = await hub(t);
  const error = await refuses(
    loadModel({ repo: 'a/b', quant: 'Q4_K' }, { hub: address, signal: AbortSignal.abort() }),
    'aborted',
  );
  assert.equal(error.name, 'AbortError');
  const stop = new AbortController();
  const late = loadModel({ repo: 'a/b', quant: 'Q4_K' }, { hub: address, signal: stop.signal });
  stop.abort();
  assert.equal((await refuses(late, 'aborted')).name, 'AbortError');
  const slow = loadModel({ repo: 'a/b', quant: 'Q4_K' }, { hub: address, signal: AbortSignal.timeout(0) });
  assert.equal((await refuses(slow, 'aborted')).name, 'TimeoutError');
});

test('probe() predicts what loadModel() uses', async () => {
  const here = probe();
  const model = await loadModel(await testModel('tiny'));
  assert.equal(model.info.variant, `${here.variant}${here.threads > 1 ? '+threads' : ''}`);
  assert.equal(model.info.threadsMeasured, here.threads > 2);
  assert.ok(model.info.threads === here.threads || (here.threads > 2 && model.info.threads < here.threads));
  assert.deepEqual([here.reason, here.isolated], [model.info.reason, model.info.isolated]);
  assert.ok(Number(here.memory) > 1e8);
  await model.dispose();
});
