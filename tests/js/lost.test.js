/* Tests lost workers: however and whenever the worker or a thread dies, each call ends, the model reports
 * the loss, and a restart restores it. GW_MOMENTS is the number of random moments to test (100 in reports). */
import assert from 'node:assert/strict';
import { createReadStream, readFileSync } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { MessageChannel, Worker } from 'node:worker_threads';
import { ModelError, loadModel } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { nodePort } from '../../js/platform/port-node.js';
import { createLanguageModel } from '../../js/prompt-api.node.js';
import { randoms } from '../support/random.js';
import { essence, newFolder, open as openModel, refuses, sleep } from './helpers.js';
import { STORYTELLER, testModel } from './models.js';

const MOMENTS = Number(process.env.GW_MOMENTS ?? 7);
const LONG = { maxTokens: 100_000, seed: 2, logitBias: { 1: -Infinity, 8: -Infinity } };
const SHORT = { ...LONG, maxTokens: 20 };

// A timer keeps the process alive, because waiting for an idle worker's death does not.
const alive = setInterval(() => {}, 1000);
after(() => clearInterval(alive));

/** The newest worker, and a function that breaks this worker in the way `how`. chance: 0 to 1, chooses a thread.
 * @type {{ worker: Worker, harm: (how: string, chance?: number) => void }} */
let doomed;
environment.createWorker = () => {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL('./doomed-worker.js', import.meta.url), {
    workerData: { port: port2 },
    transferList: [port2],
  });
  port1.unref();
  const harm = (/** @type {string} */ how, chance = 0) =>
    how === 'terminate' ? void worker.terminate() : port1.postMessage({ how, chance });
  doomed = { worker, harm };
  return nodePort(worker);
};

/** @param {TestContext} t @param {LoadOptions} [options] */
const open = (t, options) => openModel(t, 'tiny', { threads: 2, ...options });

/** Returns a generator of random numbers whose seed the test reports. @param {TestContext} t */
function seeded(t) {
  const seed = Date.now();
  t.diagnostic(`seed ${seed}`);
  return randoms(seed);
}

/** Starts so much work that later calls still wait when the test breaks the worker. @param {any} model */
function busy(model) {
  for (let i = 0; i < 30; i++)
    model
      .generate('x', LONG)
      .result()
      .catch(() => {});
}

const lostAfter = (/** @type {Promise<unknown>} */ call) => refuses(call, 'worker-failed');

for (const how of ['terminate', 'exit', 'throw', 'freeze']) {
  test(`${how}: every call fails, model.lost has the reason, and restart() restores the model`, async (t) => {
    const model = await open(t);
    const expected = essence(await model.generate('x', SHORT).result());
    busy(model);
    const waiting = [
      model.generate('x', LONG).result(),
      model.generate('y', LONG).text(),
      model.debug.logits([2, 300]),
    ];
    await sleep(60);
    const { harm } = doomed;
    harm(how);
    const errors = await Promise.all(waiting.map(lostAfter));
    assert.equal(await model.lost, errors[0]);
    await lostAfter(model.tokenize('x'));
    await model.restart();
    assert.deepEqual(essence(await model.generate('x', SHORT).result()), expected);
    assert.equal(await Promise.race([model.lost, sleep(10)]), undefined);
  });
}

for (const how of ['terminate', 'exit', 'freeze']) {
  test(`${how} while no call waits: the model reports it, and with restart it serves the next call`, async (t) => {
    const model = await open(t, { restart: true });
    const expected = essence(await model.generate('x', SHORT).result());
    doomed.harm(how);
    assert.equal((await model.lost).code, 'worker-failed');
    assert.deepEqual(essence(await model.generate('x', SHORT).result()), expected);
  });
}

for (const how of ['terminate', 'freeze']) {
  test(`${how} while several answers are generated: all of them end, and a restart brings the model back`, async (t) => {
    const model = await open(t, { sequences: 3 });
    const expected = essence(await model.generate('x', SHORT).result());
    busy(model);
    const waiting = ['x', 'y', 'z'].map((prompt) => model.generate(prompt, LONG).result());
    for (const call of waiting) call.catch(() => {});
    await sleep(60);
    doomed.harm(how);
    const errors = await Promise.all(waiting.map(lostAfter));
    assert.equal(await model.lost, errors[0]);
    await model.restart();
    const again = await Promise.all([1, 2, 3].map(() => model.generate('x', SHORT).result()));
    for (const one of again) assert.deepEqual(essence(one), expected);
  });
}

test('terminate: the Prompt API loads the model again for the next session', async () => {
  const LanguageModel = createLanguageModel(STORYTELLER, { threads: 1, contextLength: 128 });
  const session = await LanguageModel.create();
  doomed.harm('terminate');
  const isUnknown = (/** @type {any} */ error) => error instanceof DOMException && error.name === 'UnknownError';
  await assert.rejects(session.prompt('Hi'), isUnknown);
  assert.equal(typeof (await (await LanguageModel.create()).prompt('Hi')), 'string');
  await doomed.worker.terminate();
});

test('a thread that dies while it works fails the calls; an idle thread that dies is not noticed', async (t) => {
  const model = await open(t, { threads: 3 });
  const random = seeded(t);
  let lost = 0;
  for (let i = 0; i < 4; i++) {
    const call = model.debug.perplexity('some words and more words '.repeat(60));
    await sleep(5 + 10 * i);
    doomed.harm(i % 2 ? 'thread' : 'threads', random());
    const error = await call.then(
      () => null,
      (error) => error,
    );
    if (error) {
      assert.equal(error.code, 'worker-failed');
      assert.equal(await model.lost, error);
      lost++;
    }
    await model.restart();
  }
  t.diagnostic(`${lost} of 4 in the middle`);
});

test('with `restart`, calls that have delivered nothing are repeated once', async (t) => {
  const model = await open(t, { restart: true });
  const [ids, logits] = [await model.tokenize('some text'), await model.debug.logits([2, 300])];
  const expected = essence(await model.generate('x', SHORT).result());
  const given = [];
  const broken = (async () => {
    for await (const piece of model.generate('y', LONG)) given.push(piece);
  })();
  while (!given.length) await sleep(5);
  const waiting = Promise.all([
    model.generate('x', SHORT).result(),
    model.tokenize('some text'),
    model.debug.logits([2, 300]),
  ]);
  doomed.harm('terminate');
  await lostAfter(broken); // A call that delivered text is not repeated.
  const [again, tokens, more] = await waiting;
  assert.deepEqual([essence(again), tokens, more], [expected, ids, logits]);
  const chat = model.chat(SHORT);
  const first = await chat.send('Hello').text();
  doomed.harm('exit');
  await model.lost;
  assert.equal(await model.chat(SHORT).send('Hello').text(), first);
  await chat.send('And now?').text();
  assert.equal(chat.messages.length, 4);
});

test('a call that kills two workers fails; abort and dispose() end calls that wait for a restart', async (t) => {
  const model = await open(t, { restart: true });
  busy(model);
  const call = model.generate('x', LONG).result();
  await sleep(30);
  const first = doomed;
  first.harm('terminate');
  while (doomed === first) await sleep(5);
  const { lost } = model;
  await Promise.race([lost, sleep(300)]);
  doomed.harm('terminate');
  await lostAfter(call);
  const controller = new AbortController();
  doomed.harm('terminate');
  // Aborts the call immediately, before the loss of the worker can end it.
  const aborted = model.call('logits', { ids: [2, 300] }, controller.signal);
  controller.abort();
  await refuses(aborted, ['aborted']);
  const left = model.call('logits', { ids: [2, 300] }).catch((/** @type {any} */ error) => error.code);
  await model.dispose();
  assert.ok(['disposed', 'worker-failed', 'aborted'].includes(await left));
  await refuses(model.restart(), 'disposed');
});

test('a stream cannot be read again after a restart, and bytes only with `restart`', async (t) => {
  const path = await testModel('tiny');
  const bytes = readFileSync(path);
  for (const [source, options, code] of /** @type {[any, LoadOptions, string][]} */ ([
    [createReadStream(path), { restart: true }, 'unsupported-source'],
    [bytes, {}, 'unsupported-source'],
    [bytes, { restart: true }, ''],
  ])) {
    const model = await loadModel(source, { threads: 1, ...options });
    t.after(() => model.dispose());
    if (code) await refuses(model.restart(), code);
    else await model.restart();
    assert.equal((await model.debug.logits([2, 300])).length, model.info.vocabSize);
  }
});

test('after a failed restart, the error of calls says to restart again', async (t) => {
  const file = join(newFolder(t), 'model.gguf');
  await copyFile(await testModel('tiny'), file);
  const model = await loadModel(file, { threads: 1 });
  t.after(() => model.dispose());
  await rm(file);
  await refuses(model.restart(), 'read-error');
  await refuses(model.tokenize('x'), 'worker-failed', /If restart\(\) failed, call it again/);
  await copyFile(await testModel('tiny'), file);
  await model.restart();
  assert.ok((await model.tokenize('x')).length);
});

test(`${MOMENTS} random moments: each call ends, and the next answer is right`, {
  timeout: MOMENTS * 15_000,
}, async (t) => {
  const model = await open(t, { restart: true, threads: 3 });
  const random = seeded(t);
  const expected = essence(await model.generate('a prompt of some length', SHORT).result());
  const harms = ['terminate', 'thread', 'exit', 'throw', 'thread', 'terminate', 'threads', 'freeze'];
  for (let i = 0; i < MOMENTS; i++) {
    const { harm } = doomed;
    const how = harms[i % harms.length];
    const calls = [
      model.generate('y', { ...LONG, maxTokens: 3000 }).result(),
      model.generate('z', SHORT).result(),
      model.debug.perplexity('some text '.repeat(30)),
    ];
    await sleep(random() * 150);
    harm(how, random());
    const before = performance.now();
    // The death of an idle thread is not noticed, so calls may also succeed.
    const ended = await Promise.all(
      calls.map((call) =>
        call.then(
          () => 0, // the call succeeded
          (error) => {
            assert.ok(error instanceof ModelError && error.code === 'worker-failed', String(error?.stack));
            return performance.now() - before;
          },
        ),
      ),
    );
    t.diagnostic(`${how}: ${ended.map((ms) => (ms ? `${Math.round(ms)} ms` : 'right')).join(', ')}`);
    assert.deepEqual(essence(await model.generate('a prompt of some length', SHORT).result()), expected);
    if (how.startsWith('thread')) await model.restart();
  }
});
