/* Tests the life cycle of models: dispose() at any time, a worker that dies, a heap that does not grow. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { createEngine } from '../../js/engine/engine.js';
import { loadModel } from '../../js/index.node.js';
import { LazyModel } from '../../js/lazy-model.js';
import { MODULES } from '../../js/modules.js';
import { nodePort } from '../../js/platform/port-node.js';
import { faultyServer } from './faulty-server.js';
import { newFolder, open, refuses, sleep, someIds, wrong } from './helpers.js';
import { testModel } from './models.js';

const ENTRY = new URL('../../js/index.node.js', import.meta.url).href;
const OPTIONS = { maxTokens: 60, seed: 2, logitBias: { 1: -Infinity, 8: -Infinity } };

/** Runs a module in a process, and returns what it prints. @param {string} script
 * @param {number} [timeout] in milliseconds, or 0 for none @param {string[]} args */
async function printed(script, timeout = 20_000, ...args) {
  const all = ['--input-type=module', '-e', script, ...args];
  return (await promisify(execFile)(process.execPath, all, { timeout })).stdout.trim();
}

test('calls are answered in order', async (t) => {
  const model = await open(t);
  /** @type {number[]} */ const finished = [];
  await Promise.all(
    [60, 1, 20].map(async (maxTokens) => {
      await model.generate('x', { ...OPTIONS, maxTokens }).result();
      finished.push(maxTokens);
    }),
  );
  assert.deepEqual(finished, [60, 1, 20]);
});

test('a load that continues after its call was aborted is used by the next call', async () => {
  let loads = 0;
  const model = wrong({});
  const lazy = new LazyModel(async () => (loads++, await sleep(10), model), {});
  const controller = new AbortController();
  const aborted = lazy.open(controller.signal);
  controller.abort();
  await refuses(aborted, 'aborted');
  assert.equal(await lazy.open(), model);
  assert.equal(loads, 1);
});

test('the heap does not grow with use', async (t) => {
  const model = await open(t, 'tiny', { threads: 2 });
  const turn = () => model.generate(someIds(100), { ...OPTIONS, logprobs: 5 }).result();
  await turn();
  const bytes = await model.debug.heapBytes();
  for (let i = 0; i < 50; i++) await turn();
  const chat = model.chat({ ...OPTIONS, maxTokens: 4 });
  for (let i = 0; i < 8; i++) await chat.send('hi').text();
  assert.equal(await model.debug.heapBytes(), bytes);
});

for (const threads of [1, 2]) {
  test(`dispose() rejects waiting calls and later ones (${threads} threads)`, async (t) => {
    const model = await open(t, 'tiny', { threads });
    const waiting = [model.generate('x', OPTIONS).result(), model.debug.logits([2, 300]), model.tokenize('x')];
    const failures = Promise.all(waiting.map((call) => refuses(call, 'disposed')));
    const iterating = refuses(async () => {
      for await (const piece of model.generate('y', OPTIONS)) void piece;
    }, 'disposed');
    await model.dispose();
    await failures;
    await iterating;
    await refuses(model.tokenize('x'), 'disposed');
    await refuses(model.generate('x').result(), 'disposed');
    await refuses(model.chat().send('x').text(), 'disposed');
    await model.dispose();
  });
}

test('`await using` disposes of the model, if the platform supports it', { skip: !Symbol.asyncDispose }, async (t) => {
  const model = await open(t);
  await model[Symbol.asyncDispose]();
  await refuses(model.tokenize('x'), 'disposed');
});

test('a process ends by itself, whether a model was disposed of or not', async () => {
  const path = await testModel('tiny');
  for (const [last, threads] of [
    ['await model.dispose();', 2],
    ['', 1],
    ['', 2],
  ]) {
    const script = `const { loadModel } = await import('${ENTRY}');
      const model = await loadModel(${JSON.stringify(path)}, { threads: ${threads} });
      console.log((await model.generate('x', { maxTokens: 2 }).result()).finishReason.length > 0); ${last}`;
    assert.equal(await printed(script), 'true');
  }
});

test('dispose() ends a worker whose port has no close(), as in Deno, without an error', async (t) => {
  const path = await testModel('tiny');
  const script = `const { Worker, isMainThread, parentPort } = require('node:worker_threads'), { emit } = Worker.prototype;
    Worker.prototype.emit = function (name, ...rest) {
      if (name === 'error') console.error(rest[0]);
      return emit.call(this, name, ...rest);
    };
    if (!isMainThread) {
      globalThis.close = parentPort.close.bind(parentPort);
      delete Object.getPrototypeOf(parentPort).close;
      delete Object.getPrototypeOf(Object.getPrototypeOf(parentPort)).close;
    } else {
      import('${ENTRY}').then(async ({ loadModel }) => {
        await (await loadModel(${JSON.stringify(path)}, { threads: 1 })).dispose();
      });
    }`;
  const file = join(newFolder(t), 'deno.cjs');
  await writeFile(file, script);
  // Node preloads the file named in NODE_OPTIONS in workers, too.
  const env = { ...process.env, NODE_OPTIONS: `--require ${file}` };
  const { stderr } = await promisify(execFile)(process.execPath, ['-e', '0'], { timeout: 20000, env });
  assert.equal(stderr, '');
});

test('a worker exits by itself after dispose(), because terminating it while V8 compiles aborts Node 20', async (t) => {
  const file = await testModel('medium');
  const { url } = await faultyServer(t, await readFile(file));
  const script = `const { Worker } = await import('node:worker_threads');
    const { emit } = Worker.prototype, statuses = [];
    Worker.prototype.emit = function (name, ...rest) {
      if (name === 'exit') statuses.push(rest[0]);
      return emit.call(this, name, ...rest);
    };
    const { loadModel } = await import('${ENTRY}');
    const midst = {   // calls that dispose() interrupts
      generate: (model) => model.generate('x', { maxTokens: 4000 }).text(),
      perplexity: (model) => model.debug.perplexity('some words '.repeat(9000)),
    };
    for (const [source, threads, how] of ${JSON.stringify([
      [file, 1, 'generate'],
      [file, 2, 'generate'],
      [url, 1, 'generate'],
      [file, 1, 'perplexity'],
    ])}) {
      const model = await loadModel(source, { threads, cache: false });
      await model.generate('x', { maxTokens: 4 }).text();
      void midst[how](model).catch(() => {});
      await model.tokenize('x');
      await model.dispose();
    }
    console.log(statuses.join());`;
  assert.equal(await printed(script), '0,0,0,0');
});

test('dispose() frees the heap immediately, shared or not', async () => {
  const script = `const { loadModel } = await import('${ENTRY}');
    const path = ${JSON.stringify(await testModel('medium'))};
    const peaks = [];
    for (let i = 0; i < 8; i++) {
      const model = await loadModel(path, { threads: Number(process.argv[1]), contextLength: 8192 });
      peaks.push([process.memoryUsage().rss, await model.debug.heapBytes()]);
      await model.dispose();
    }
    console.log(JSON.stringify(peaks));`;
  for (const threads of ['1', '2']) {
    const peaks = JSON.parse(await printed(script, 0, threads));
    const grown = peaks[7][0] - peaks[1][0];
    // A leak would have kept six engine heaps by now, so a limit of three heaps is well above the noise.
    assert.ok(grown < 3 * peaks[0][1], `${threads} threads: grew by ${grown} bytes, a heap is ${peaks[0][1]}`);
  }
});

test('many models, one after the other, leave no workers behind', async () => {
  const path = await testModel('tiny');
  for (let i = 0; i < 12; i++) {
    const model = await loadModel(path, { threads: 3 });
    assert.equal(model.info.threads, 3);
    await model.dispose();
  }
  await sleep(50);
  // Worker threads that still run would show as open handles.
  const left = process.getActiveResourcesInfo().filter((name) => /worker|messageport/i.test(name));
  assert.deepEqual(left, []);
});

test('a missing module is named in the error, and fails only its own call', async (t) => {
  const folder = newFolder(t);
  const js = fileURLToPath(new URL('../../js/', import.meta.url));
  for (const name of ['worker.node.js', 'gemma-simd128.wasm']) await symlink(join(js, name), join(folder, name));
  const model = await open(t, 'tiny', { baseUrl: folder, variant: 'simd128', threads: 1 });
  await refuses(model.debug.matches({ regex: 'a' }, 'a'), 'engine-missing', /grammar\.js/);
  await refuses(model.debug.inside('a'), 'engine-missing');
  assert.equal((await model.generate('x', { maxTokens: 2 }).result()).tokens.length, 2);
});

test('a worker in Node keeps its event loop for a while after its last message', async () => {
  const worker = new Worker(new URL('../../js/worker.node.js', import.meta.url));
  worker.postMessage({ kind: 'dispose' });
  const [message] = await once(worker, 'message');
  const began = performance.now();
  await once(worker, 'exit');
  assert.equal(message.kind, 'disposed');
  assert.ok(performance.now() - began > 40); // V8's compiler threads may need the worker's event loop
});

test('leave() notices a worker that exited before it was called', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const worker = new EventEmitter();
  const { leave } = nodePort(/** @type {any} */ (worker));
  worker.emit('exit', 0);
  await leave?.();
});

test('helper threads that are ready leave no timer behind', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const port = () => ({
    post() {},
    onMessage: (/** @type {(message: unknown) => void} */ handler) => handler(true),
    onFailure() {},
    terminate() {},
    keepAlive() {},
  });
  const { engine } = await createEngine(
    { threads: 2 },
    wrong({
      compile: async (/** @type {string} */ name) => WebAssembly.compile(await readFile(Object(MODULES)[name])),
      load: async () => {},
      parallelism: () => 2,
      createThread: port,
    }),
  );
  assert.equal(engine.threads, 2);
  assert.equal(timers(), before);
});
