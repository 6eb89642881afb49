/* If a model finds the relaxed build's kernels to be wrong while it loads, the simd128 build replaces it automatically.
 * The fault is a replaced instruction in an engine on this thread. */
import assert from 'node:assert/strict';
import { closeSync, createReadStream, openSync, readFileSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { before, describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Replay } from '../../js/engine/replay.js';
import { features } from '../../js/platform/features.js';
import { openStore } from '../../js/download/store-node.js';
import { ModelError, loadModel } from '../../js/index.node.js';
import { nodePort } from '../../js/platform/port-node.js';
import { faultyServer } from './faulty-server.js';
import { flipped, outcome, sitesOf } from './flips.js';
import { newFolder, refuses, serveWith } from './helpers.js';
import { barePlatform, idsOf, openLocal } from './local.js';
import { testModel } from './models.js';
import { splitModel } from './split.js';

const JS = new URL('../../js/', import.meta.url);
const THREAD = new URL('thread.node.js', JS);
const { relaxed } = features();

/** Returns the indices of kernel instructions that the engine's checks at start do not cover. The test replaces all of
 * them, because the engine could use another kernel instead of a single wrong one. @param {Uint8Array} file */
async function faultySites(file) {
  const module = new Uint8Array(readFileSync(new URL('gemma-relaxed.wasm', JS)));
  const sites = sitesOf(module);
  const refused = new Set();
  for (const code of new Set(sites.map((site) => site.code))) {
    const own = sites.filter((site) => site.code === code);
    if ((await outcome(flipped(module, own), file)) === 'refused') refused.add(code);
  }
  assert.ok(refused.size > 0, "the engine's checks at start detect some");
  const left = sites.flatMap(({ code }, i) => (refused.has(code) ? [] : [i]));
  assert.equal(
    await outcome(
      flipped(
        module,
        left.map((i) => sites[i]),
      ),
      file,
    ),
    'engine-fault',
  );
  return left;
}

/** Returns a platform whose relaxed modules have wrong instructions at the indices `faulty`.
 * @param {number[]} faulty */
function faultyPlatform(faulty) {
  const threads = { started: 0, ended: 0 };
  const createThread = () => {
    const port = nodePort(new Worker(THREAD, { execArgv: [] }));
    const { terminate } = port;
    threads.started++;
    return Object.assign(port, { terminate: () => (threads.ended++, terminate()) });
  };
  const platform = barePlatform(async (name) => {
    const bytes = new Uint8Array(await readFile(new URL(name, JS)));
    const sites = sitesOf(bytes);
    return WebAssembly.compile(
      /relaxed/.test(name)
        ? flipped(
            bytes,
            faulty.map((i) => sites[i]),
          )
        : bytes,
    );
  });
  const openFile = (/** @type {string} */ path) => {
    const file = openSync(path, 'r');
    return {
      read: (/** @type {Uint8Array} */ into) => readSync(file, into, 0, into.length, null),
      close() {
        closeSync(file);
      },
    };
  };
  return { platform: { ...platform, createThread, openFile }, threads };
}

describe('a wrong kernel is found while a model loads', {
  skip: !relaxed && 'this Node runs no relaxed SIMD',
}, () => {
  let path = '';
  let bytes = new Uint8Array(0);
  /** @type {number[]} */ let faulty;
  /** @type {Float32Array} */ let expected;

  before(async () => {
    path = await testModel('tiny');
    bytes = new Uint8Array(readFileSync(path));
    faulty = await faultySites(bytes);
    const model = await loadModel(path, { variant: 'simd128', threads: 1 });
    expected = await model.debug.logits(idsOf(20));
    await model.dispose();
  });

  /** @param {any} source @param {import('../../js/options.js').LoadOptions} [options] */
  async function load(source, options = {}) {
    const { platform, threads } = faultyPlatform(faulty);
    const { info, logits, close } = await openLocal(source, platform, { threads: 1, ...options });
    try {
      return { info, logits: await logits(idsOf(20)), threads: { ...threads } };
    } finally {
      await close();
    }
  }

  /** @param {Awaited<ReturnType<typeof load>>} loaded */
  function isPlain({ info, logits }) {
    assert.match(info.variant, /^simd128/);
    assert.match(
      info.variantReason,
      /^The self-test of the relaxed build failed: products with Q\d_\d gave wrong results/,
    );
    assert.deepEqual(logits, expected);
  }

  it('auto falls back to simd128 and says why, with a file', async () => isPlain(await load(path)));
  it('with bytes', async () => isPlain(await load(bytes)));
  it('with a stream, which can be read only once', async () => isPlain(await load(createReadStream(path))));
  it('with a draft model', async () => {
    const draftModel = /** @type {any} */ ([{ kind: 'path', path }]);
    isPlain(await load(createReadStream(path), { draftModel }));
  });
  it('with a server', async (t) => {
    const url = await serveWith(t, (/** @type {unknown} */ _, /** @type {HttpResponse} */ response) =>
      response.end(bytes),
    );
    isPlain(await load(`${url}/tiny.gguf`));
  });
  it('with streams of the parts of a split file', async () => {
    isPlain(await load(splitModel(Buffer.from(bytes), 3).map((part) => new Blob([new Uint8Array(part)]).stream())));
  });

  it('with threads, and the threads of the faulty engine end', async () => {
    const loaded = await load(path, { threads: 2 });
    isPlain(loaded);
    assert.deepEqual(loaded.threads, { started: 2, ended: 1 });
  });

  it('after a fault during autotuning, the load of the other build has the lock of the cached copy', async (t) => {
    const { platform } = faultyPlatform([]);
    const table = await readFile(await testModel('gemma4-table'));
    const server = await faultyServer(t, table);
    let tuned = 0;
    const autotune = () => {
      if (!tuned++) throw new ModelError('engine-fault', 'The self-test of the relaxed build failed.');
    };
    const tuning = {
      ...platform,
      parallelism: () => 3,
      load: async (/** @type {any} */ part) => (part === 'autotune' ? { autotune } : platform.load(part)),
      openStore: (/** @type {string} */ folder) => openStore(folder),
    };
    const options = { rowsOnDisk: true, contextLength: 64 };
    const { info, close } = await openLocal(server.url, /** @type {any} */ (tuning), options, { folder: newFolder(t) });
    const codes = info.notices.map(({ code }) => code);
    assert.deepEqual([tuned, codes], [2, ['rows-later']]);
    assert.match(info.variant, /^simd128/);
    await close();
  });

  it('an explicit request for the relaxed variant fails with engine-fault', async () => {
    await refuses(load(path, { variant: 'relaxed' }), 'engine-fault', /relaxed build/);
  });
});

it('a fault after the bytes of a stream were freed can be repaired only if the model has other sources', async () => {
  const replay = new Replay(async () => null);
  const read = replay.reader(0);
  replay.forget();
  assert.ok(replay.possible);
  await read();
  assert.ok(!replay.possible);
});
