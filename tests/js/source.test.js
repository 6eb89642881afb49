/* Tests loading: every kind of source, HTTP and its failures, progress, sha256, aborts. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { Engine, LOAD } from '../../js/engine/engine.js';
import { imports } from '../../js/engine/heap.js';
import { describeSource } from '../../js/download/describe.js';
import { feed } from './bare-engine.js';
import { essence, open, refuses, serveWith, sleep, until, wrong } from './helpers.js';
import { testModel } from './models.js';

const OPTIONS = { maxTokens: 8, seed: 3 };

/** @param {ModelSource} source @param {LoadOptions} [options] */
async function answer(source, options) {
  const model = await loadModel(source, { threads: 1, ...options });
  try {
    return essence(await model.generate('Hello', OPTIONS).result());
  } finally {
    await model.dispose();
  }
}

const path = await testModel('tiny');
const bytes = new Uint8Array(await readFile(path));
const expected = await answer(path);

test('every kind of source gives the same model', async (t) => {
  const url = await serveWith(t, (request, response) => response.end(bytes));
  async function* pieces(/** @type {number} */ step) {
    for (let i = 0; i < bytes.length; i += step) yield bytes.subarray(i, i + step);
  }
  /** @type {Record<string, ModelSource>} */
  const sources = {
    'file: URL': pathToFileURL(path),
    'file: URL as a string': pathToFileURL(path).href,
    'URL string': `${url}/model.gguf`,
    'URL object': new URL(`${url}/model.gguf`),
    Blob: await openAsBlob(path),
    'Blob in memory': new Blob([bytes]),
    ArrayBuffer: new Uint8Array(bytes).buffer,
    Uint8Array: bytes,
    ReadableStream: new Blob([bytes]).stream(),
    'async iterable': pieces(1 << 16),
    'async iterable of few bytes': pieces(997),
    iterable: [bytes.subarray(0, 5000), bytes.subarray(5000)].values(),
    'array of one': [path],
  };
  for (const [name, source] of Object.entries(sources)) {
    assert.deepEqual(await answer(source), expected, name);
  }
});

test("the caller's bytes stay intact", async () => {
  const own = new Uint8Array(bytes);
  await answer(own);
  assert.equal(Buffer.compare(own, bytes), 0);
});

test('Hugging Face sources become URLs, each part escaped', () => {
  const describe = (/** @type {ModelSource} */ source) =>
    Object(describeSource(source, () => assert.fail('not a string'))[0].descriptor).url;
  assert.equal(
    describe({ repo: 'google/x', file: 'a b?.gguf' }),
    'https://huggingface.co/google/x/resolve/main/a%20b%3F.gguf',
  );
  assert.equal(
    describe({ repo: 'google/x', file: 'd/f.gguf', revision: 'refs/pr/1' }),
    'https://huggingface.co/google/x/resolve/refs%2Fpr%2F1/d/f.gguf',
  );
});

test('an invalid source is rejected', async () => {
  for (const source of [5, null, undefined, {}, { repo: 'x', file: 'y' }, { repo: 'a/b' }, true]) {
    await refuses(loadModel(wrong(source)), 'unsupported-source');
  }
  await refuses(loadModel([]), 'unsupported-source', /Pass at least one file/);
  const stream = new ReadableStream();
  await refuses(loadModel([stream, wrong(5)]), 'unsupported-source');
  assert.equal(stream.locked, false);
  await refuses(loadModel(''), 'unsupported-source', /must be a valid path or URL/);
  await refuses(loadModel(new Blob(['a']).stream().pipeThrough(wrong(new TextDecoderStream()))), 'read-error');
  await refuses(loadModel('/no/such/file.gguf'), 'read-error', /^\/no\/such\/file\.gguf could not be read: ENOENT/);
});

test('progress goes from 0 to the size of the file, and ends with ready', async (t) => {
  const url = await serveWith(t, (request, response) => {
    response.setHeader('content-length', bytes.length);
    response.end(bytes);
  });
  for (const [source, phase] of /** @type {[ModelSource, string][]} */ ([
    [path, 'load'],
    [url, 'fetch'],
    [new Uint8Array(bytes), 'load'],
  ])) {
    /** @type {Progress[]} */ const events = [];
    const model = await loadModel(source, { threads: 1, onProgress: (event) => events.push(event) });
    await model.dispose();
    assert.deepEqual([events[0].phase, events[0].loaded, events[0].total], [phase, 0, bytes.length]);
    const [last] = events.slice(-1);
    assert.deepEqual([last.phase, last.loaded, last.total], ['ready', bytes.length, bytes.length]);
    assert.equal(events.filter((event) => event.phase === 'ready').length, 1);
    for (let i = 1; i < events.length; i++) assert.ok(events[i].loaded >= events[i - 1].loaded);
    assert.ok(events.every((event) => Number(event.bytesPerSecond) >= 0));
  }
});

test('without a Content-Length the load is ready once and reports no retry', async (t) => {
  /** @type {Progress[]} */ const events = [];
  const url = await serveWith(t, (request, response) => {
    response.write(bytes.subarray(0, 5000));
    setTimeout(() => response.end(bytes.subarray(5000)), 30);
  });
  const model = await loadModel(url, { threads: 1, cache: false, onProgress: (event) => events.push(event) });
  await model.dispose();
  assert.ok(!events.some(({ notice }) => notice), JSON.stringify(events));
  assert.equal(events.filter(({ phase }) => phase === 'ready').length, 1);
});

test('HTTP errors name the status and a reason, and no secret of the request', async (t) => {
  const url = await serveWith(t, (request, response) => {
    response.statusCode = Number(request.url?.slice(1, 4));
    response.end('no');
  });
  const words = { 401: /access token/, 403: /not allowed/, 404: /does not exist/, 503: /failed/ };
  for (const [status, pattern] of Object.entries(words)) {
    const error = await refuses(
      loadModel(`${url}/${status}?token=SECRET1`, { headers: { Authorization: 'Bearer SECRET2' } }),
      'http-error',
    );
    assert.match(error.message, pattern);
    assert.match(error.message, new RegExp(status));
    assert.doesNotMatch(`${error.message} ${error.stack} ${error.cause}`, /SECRET/);
  }
  const unreachable = /^http:\S+ could not be reached.* \(\S.*\)\. Check the connection/;
  await refuses(loadModel('http://127.0.0.1:9/model.gguf', { threads: 1 }), 'network-error', unreachable);
});

test('headers are sent with the request for the model', async (t) => {
  let seen = '';
  const url = await serveWith(t, (request, response) => {
    seen = String(request.headers.authorization);
    response.end(bytes);
  });
  assert.deepEqual(await answer(url, { headers: { Authorization: 'Bearer abc' } }), expected);
  assert.equal(seen, 'Bearer abc');
});

test('a connection that closes early and a body that is too short are reported as truncated', async (t) => {
  const url = await serveWith(t, (request, response) => {
    if (request.url === '/short') {
      response.end(bytes.subarray(0, bytes.length - 1000));
      return;
    }
    response.setHeader('content-length', bytes.length);
    response.write(bytes.subarray(0, 100_000), () => response.destroy());
  });
  const early = await refuses(loadModel(`${url}/early`, { threads: 1 }), 'truncated');
  assert.equal(early.expected, `${bytes.length} bytes`);
  const short = /truncated: it has \d+ bytes.*Download it again/;
  await refuses(loadModel(`${url}/short`, { threads: 1 }), 'truncated', short);
});

test('a source that fails halfway is reported as read-error', async () => {
  async function* failing() {
    yield bytes.subarray(0, 50_000);
    throw new Error('disk on fire');
  }
  await refuses(loadModel(failing()), 'read-error', /disk on fire/);
  async function* strings() {
    yield 'text';
  }
  await refuses(loadModel(wrong(strings())), 'read-error');
});

test('an iterator is read only as far as needed, and closed', async () => {
  let given = 0;
  let closed = false;
  async function* endless() {
    try {
      for (; ; given += 4096) yield bytes.subarray(given % bytes.length, (given % bytes.length) + 4096);
    } finally {
      closed = true;
    }
  }
  const model = await loadModel(endless(), { threads: 1 });
  await model.dispose();
  assert.ok(given <= bytes.length + 8192, `${given} of ${bytes.length} bytes were read`);
  await sleep(10);
  assert.equal(closed, true);
});

test('a stream is cancelled if loading fails before the worker reads it', async () => {
  let cancelled = false;
  const cancel = () => {
    cancelled = true;
  };
  const stream = new ReadableStream({ cancel });
  await refuses(loadModel(stream, { sha256: ['0'.repeat(64), '0'.repeat(64)] }), 'bad-option', /1 digests/);
  await sleep(10);
  assert.deepEqual([cancelled, stream.locked], [true, false]);
});

test('sha256: accepts the right digest, rejects a wrong one', async () => {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  assert.deepEqual(await answer(path, { sha256: sha256.toUpperCase() }), expected);
  assert.deepEqual(await answer(new Blob([bytes]).stream(), { sha256 }), expected);
  const error = await refuses(loadModel(path, { sha256: '0'.repeat(64) }), 'sha256-mismatch');
  assert.equal(error.got, sha256);
  // A file's digest covers bytes after the last tensor, too.
  await refuses(loadModel(new Blob([bytes, 'x']), { sha256 }), 'sha256-mismatch');
  assert.deepEqual(await answer(new Blob([bytes, 'behind'])), expected);
});

test('loading can be aborted at any time, ends immediately, and closes the connection', async (t) => {
  let [asked, closed] = [0, 0];
  const url = await serveWith(t, (request, response) => {
    asked++;
    response.on('close', () => {
      closed++;
    });
    response.setHeader('content-length', bytes.length);
    response.write(bytes.subarray(0, 100_000));
  });
  await refuses(loadModel(path, { signal: AbortSignal.abort() }), 'aborted');
  for (const wait of [0, 20, 'until bytes came']) {
    const controller = new AbortController();
    let loaded = 0;
    const loading = loadModel(url, {
      signal: controller.signal,
      onProgress: (event) => {
        loaded = event.loaded;
      },
    });
    if (typeof wait === 'number') await sleep(wait);
    else await until(() => loaded);
    const at = performance.now();
    controller.abort(new Error('changed my mind'));
    const error = await refuses(loading, 'aborted');
    assert.match(Object(error.cause).message, /changed my mind/);
    t.diagnostic(`abort after ${wait} (ms) took ${(performance.now() - at).toFixed(1)} ms`);
  }
  assert.ok(asked >= 1);
  await until(() => closed === asked, 5000);
  assert.deepEqual(await answer(path), expected);
});

test('inspectModel() reads only the header', async () => {
  let given = 0;
  async function* counted() {
    for (; given < bytes.length; given += 4096) yield bytes.subarray(given, given + 4096);
  }
  const found = await inspectModel(counted());
  assert.ok(given < bytes.length / 2 || bytes.length < 500_000, `${given} of ${bytes.length} bytes were read`);
  assert.equal(found.info.architecture, 'gemma3');
  assert.equal(found.info.fileBytes, bytes.length);
  assert.ok(found.metadata.some((m) => m.key === 'gemma3.block_count' && m.value === 6));
  assert.ok(found.tensors.some((x) => x.name === 'blk.5.attn_q.weight' && x.type === 'Q4_0'));
  assert.ok(found.info.memory.total >= found.info.memory.weights + found.info.memory.kv);
});

test('no part of an error has the secrets of a URL', async () => {
  for (const [source, code] of /** @type {[string | URL, string][]} */ ([
    ['http://user:hunter2@127.0.0.1:1/x.gguf?token=SECRET', 'unsupported-source'],
    [new URL('http://hunter2@127.0.0.1:1/x.gguf'), 'unsupported-source'],
    ['http://[hunter2/x.gguf?token=SECRET', 'unsupported-source'],
    ['http://127.0.0.1:1/x.gguf?token=SECRET', 'network-error'],
  ])) {
    const error = await refuses(loadModel(source), code);
    const told = `${error.stack} ${error.cause} ${Object(error.cause).stack} ${JSON.stringify(error)}`;
    assert.doesNotMatch(told, /hunter2|SECRET/);
  }
});

test('an abort cancels a stream immediately; a signal that was aborted before leaves the stream untouched', async () => {
  let cancelled = false;
  const stream = new ReadableStream({
    cancel: () => {
      cancelled = true;
    },
  });
  await refuses(loadModel(stream, { signal: AbortSignal.abort() }), 'aborted');
  assert.equal(stream.locked, false);
  const controller = new AbortController();
  const loading = loadModel(stream, { signal: controller.signal });
  await sleep(300);
  controller.abort();
  await refuses(loading, 'aborted');
  assert.deepEqual([cancelled, stream.locked], [true, false]);
});

test('inspectModel() can be aborted before it begins, while the server is silent, and while bytes arrive; model.inspect(), too', async (t) => {
  let asked = 0;
  const url = await serveWith(t, (request, response) => {
    asked++;
    if (request.url === '/silent') return;
    response.setHeader('content-length', bytes.length);
    response.write(bytes.subarray(0, 1000));
  });
  await refuses(inspectModel(url, { signal: AbortSignal.abort() }), 'aborted');
  assert.equal(asked, 0);
  for (const address of [new URL('/silent', url), url]) {
    const before = asked;
    const controller = new AbortController();
    const reading = inspectModel(address, { signal: controller.signal });
    reading.catch(() => {});
    await until(() => asked > before);
    controller.abort(new Error('changed my mind'));
    assert.match(Object((await refuses(reading, 'aborted')).cause).message, /changed my mind/);
  }
  const model = await open(t);
  await refuses(model.inspect({ signal: AbortSignal.abort() }), 'aborted');
});

test('an iterator that throws in return() does no harm', async () => {
  /** @type {any} */
  const iterator = {
    [Symbol.iterator]: () => iterator,
    next: () => ({ done: false, value: new Uint8Array(100) }),
    return() {
      throw new Error('clean-up');
    },
  };
  await refuses(loadModel(iterator), 'bad-magic');
  // Node reports unhandled rejections within this time, which would fail the test.
  await sleep(10);
});

test('sources that throw when they are inspected are rejected with a code', async () => {
  const locked = new ReadableStream();
  locked.getReader();
  for (const source of [locked, 'file://host/x.gguf', { repo: 'a/b', file: '\ud800.gguf' }]) {
    await refuses(loadModel(source), 'unsupported-source');
  }
});

test('a model that exceeds the memory is rejected with the bytes needed, the limit, and a context that fits', async () => {
  const files = (/** @type {string} */ threads) =>
    readFile(new URL(`../../js/gemma-simd128${threads}.wasm`, import.meta.url));
  const instance = async (/** @type {number} */ maximum) => {
    const memory = new WebAssembly.Memory({ initial: 16, maximum });
    const {
      module,
      instance: { exports },
    } = await WebAssembly.instantiate(await files(''), wrong(imports(memory)));
    Object(exports).__wasm_call_ctors?.();
    return new Engine(wrong({ exports, memory, module }), []);
  };
  const file = await readFile(await testModel('medium'));
  const planned = async (/** @type {number} */ pages) => {
    const engine = await instance(pages);
    feed(engine, file, LOAD.PLAN);
    return engine;
  };
  const [bytesNeeded, kv] = await planned(5000).then((engine) =>
    ['heap', 'kv'].map((part) => engine.planBytes(8192, part)),
  );
  const pages = Math.floor((bytesNeeded - kv / 2) / 65536);
  const error = async (/** @type {number} */ most) =>
    refuses(async () => (await planned(most)).reserve(8192), 'no-memory');
  const { expected: needed, message } = await error(pages);
  assert.equal(needed, `${bytesNeeded} bytes`);
  const [, most, context] = /allows (\d+)\. Set contextLength to (\d+) or less\.$/.exec(message) ?? [];
  assert.equal(Number(most), pages * 65536);
  (await planned(pages)).reserve(Number(context));
  assert.match((await error(100)).message, /Use a smaller model\.$/);
});

test('an onProgress callback that throws fails the load', async () => {
  const onProgress = () => {
    throw new Error('oh no');
  };
  const error = await refuses(loadModel(path, { threads: 1, onProgress }), 'bad-option');
  assert.equal(Object(error.cause).message, 'oh no');
});
