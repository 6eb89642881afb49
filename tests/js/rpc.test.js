/* Tests calls to a worker, without a worker: ids, replies and aborts (Rpc), failure detection (Heartbeat), both over a
 * port (Connection), and restarts (ReconnectingConnection). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { ModelError } from '../../js/errors.js';
import { Generation } from '../../js/generation.js';
import { browserPort } from '../../js/platform/port-browser.js';
import { answersOf } from '../../js/rpc/answers.js';
import { Connection, charactersIn } from '../../js/rpc/connection.js';
import { Heartbeat } from '../../js/rpc/heartbeat.js';
import { ReconnectingConnection } from '../../js/rpc/reconnecting.js';
import { Rpc } from '../../js/rpc/rpc.js';
import { deferred } from '../../js/rpc/signals.js';
import { refuses, wrong } from './helpers.js';
import { memoryStore } from './memory-store.js';

const DISPOSED = new ModelError('disposed', 'over');
const CALL = /** @type {const} */ (['tokenize', { text: 'x' }]);
const never = () => new Promise(() => {});

const MESSAGE = wrong({ kind: 'call', method: 'tokenize', args: { text: 'x' } });

function fakeRpc() {
  const sent = /** @type {any[]} */ ([]);
  const beats = /** @type {number[]} */ ([]);
  const post = (/** @type {any} */ message, /** @type {any} */ transfer) => {
    sent.push(structuredClone(message, { transfer }));
  };
  const rpc = new Rpc({ post }, { begin: (n) => beats.push(n), end: (n) => beats.push(-n) });
  const receive = (/** @type {any} */ message) => rpc.receive(message);
  return { rpc, receive, sent, beats };
}

test('replies and events find their calls, in any order', async () => {
  const { rpc, receive, sent, beats } = fakeRpc();
  const events = /** @type {any[]} */ ([]);
  const first = rpc.send(MESSAGE, { onEvent: (event) => events.push(event) }, 3);
  const second = rpc.send(MESSAGE, {}, 1);
  const [a, b] = sent.map(({ id }) => id);
  assert.notEqual(a, b);
  receive({ kind: 'steps', id: a, steps: [] });
  receive({ kind: 'steps', id: b, steps: [] });
  receive({ kind: 'done', id: b, value: 'second' });
  const error = { code: 'bad-token', message: 'no', expected: '', got: '', cause: '' };
  receive({ kind: 'failed', id: a, error });
  assert.equal(await second.answer, 'second');
  await refuses(first.answer, 'bad-token');
  receive({ kind: 'done', id: a, value: 'late' });
  assert.deepEqual([events.length, beats], [1, [3, 1, -1, -3]]);
});

test('aborts and acknowledgements are sent only while the call waits; a signal aborts once, even if aborted before', async () => {
  const { rpc, receive, sent } = fakeRpc();
  const control = new AbortController();
  const call = rpc.send(MESSAGE, { signal: control.signal });
  const { answer } = rpc.send(MESSAGE, { signal: AbortSignal.abort() });
  call.ack(4);
  control.abort();
  receive({ kind: 'done', id: 1, value: 1 });
  receive({ kind: 'done', id: 2, value: 2 });
  call.ack(5);
  call.abort();
  assert.deepEqual([await call.answer, await answer], [1, 2]);
  assert.deepEqual(sent, [
    { ...MESSAGE, id: 1 },
    { ...MESSAGE, id: 2 },
    { kind: 'abort', id: 2 },
    { kind: 'ack', id: 1, count: 4 },
    { kind: 'abort', id: 1 },
  ]);
});

test('buffers are transferred; a callback that throws aborts its call; after end(), every call fails', async () => {
  const { rpc, receive, sent } = fakeRpc();
  const bytes = new Uint8Array(3);
  const given = rpc.send(MESSAGE, { transfer: [bytes.buffer] });
  assert.equal(bytes.length, 0);
  const onEvent = () => {
    throw new Error('mine');
  };
  const broken = rpc.send(MESSAGE, { onEvent });
  receive({ kind: 'steps', id: 2, steps: [] });
  await refuses(broken.answer, 'bad-option', /mine/);
  assert.deepEqual(sent.at(-1), { kind: 'abort', id: 2 });
  rpc.end(DISPOSED);
  await refuses(given.answer, 'disposed');
  await refuses(rpc.send(MESSAGE).answer, 'disposed');
  assert.equal(sent.length, 3);
});

/** @param {any} t @param {boolean} loading @param {number} [silentBeats] */
function beating(t, loading, silentBeats) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  t.after(() => t.mock.timers.reset());
  const seen = { sent: 0, busy: /** @type {boolean[]} */ ([]), silent: /** @type {ModelError | null} */ (null) };
  const onSilent = (/** @type {ModelError} */ error) => {
    seen.silent = error;
    heartbeat.stop();
  };
  const port = {
    post: () => seen.sent++,
    keepAlive: (/** @type {boolean} */ on) => seen.busy.push(on),
    ...(silentBeats && { silentBeats }),
  };
  const heartbeat = new Heartbeat(port, onSilent, loading);
  const pass = (/** @type {number} */ beats, ms = 250) => {
    for (let i = 0; i < beats; i++) t.mock.timers.tick(ms);
    return seen.silent !== null;
  };
  return { heartbeat, seen, pass };
}

test('a worker counts as lost after a number of silent heartbeats: more while it loads, in Node, and for long texts', async (t) => {
  for (const [loading, extra, limit, silentBeats] of /** @type {[boolean, number, number, number?][]} */ ([
    [true, 0, 120],
    [false, 0, 16],
    [false, 20, 36],
    [false, 0, 30, 30],
  ])) {
    await t.test(`${limit}`, (t) => {
      const { heartbeat, seen, pass } = beating(t, loading, silentBeats);
      heartbeat.begin(extra);
      for (let i = 0; i < 10; i++) {
        pass(1);
        heartbeat.heard();
      }
      assert.equal(seen.sent, 10);
      assert.deepEqual([pass(limit), pass(1)], [false, true]);
      assert.match(String(seen.silent), /did not respond/);
    });
  }
});

test('an idle worker gets fewer heartbeats; a stopped heartbeat sends none', (t) => {
  const { heartbeat, seen, pass } = beating(t, false);
  heartbeat.begin(0);
  heartbeat.end(0);
  assert.deepEqual([pass(4, 750), seen.sent, pass(1, 750)], [false, 4, true]);
  assert.equal(pass(9, 750) && seen.sent, 4);
  assert.deepEqual(seen.busy, [true, false]);
});

test('a worker that was slow while loading gets more time afterwards, up to a limit', async (t) => {
  for (const [gap, limit] of [
    [1, 16],
    [2, 16],
    [5, 30],
    [100, 48],
  ]) {
    await t.test(`${gap}`, (t) => {
      const { heartbeat, pass } = beating(t, true);
      heartbeat.begin(0);
      pass(gap);
      heartbeat.heard();
      heartbeat.loaded();
      heartbeat.end(0);
      heartbeat.begin(0);
      assert.deepEqual([pass(limit), pass(1)], [false, true]);
    });
  }
});

test('a thread that was busy itself does not count its worker as lost, because the reply is still queued', (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const { heartbeat, pass } = beating(t, false);
  heartbeat.begin(0);
  heartbeat.end(0);
  const busy = () => {
    now += 3000;
    return pass(1, 750);
  };
  for (let i = 0; i < 3; i++) {
    assert.deepEqual([busy(), busy()], [false, false]);
    heartbeat.heard();
  }
  for (let i = 0; i < 4; i++) busy();
  assert.equal(busy(), true);
});

/** Returns a port whose worker answers each call with `value`. @param {any} [value] */
function fakePort(value) {
  const port = {
    sent: /** @type {any[]} */ ([]),
    ended: false,
    held: false,
    hear: (/** @type {any} */ message) => void message,
    fail: (/** @type {any} */ reason) => void reason,
    post(/** @type {any} */ message) {
      port.sent.push(structuredClone(message));
      if (message.kind === 'call' && value) setImmediate(() => port.hear({ kind: 'done', id: message.id, value }));
    },
    onMessage: (/** @type {any} */ handler) => {
      port.hear = handler;
    },
    onFailure: (/** @type {any} */ handler) => {
      port.fail = handler;
    },
    terminate: () => {
      port.ended = true;
    },
    keepAlive: (/** @type {boolean} */ on) => {
      port.held = on;
    },
  };
  return port;
}

/** @param {string} message */
const fatal = (message) => ({
  kind: 'fatal',
  error: { code: 'worker-failed', message, expected: '', got: '', cause: '' },
});

test('if the worker dies, all calls fail, including later ones', async () => {
  for (const kill of [
    (/** @type {ReturnType<typeof fakePort>} */ port) => port.fail(new Error('boom')),
    (/** @type {ReturnType<typeof fakePort>} */ port) => port.hear(fatal('boom')),
  ]) {
    const port = fakePort();
    const connection = new Connection(port);
    const calls = [connection.call(...CALL), connection.call(...CALL)];
    kill(port);
    for (const { answer } of [...calls, connection.call(...CALL)]) {
      await refuses(answer, 'worker-failed', /boom/);
    }
    assert.equal(port.ended, true);
  }
});

test('long texts give the worker more time', (t) => {
  for (const [text, limit] of /** @type {const} */ ([
    ['short', 16],
    ['x'.repeat(1_000_000), 36],
  ])) {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const port = fakePort();
    const connection = new Connection(port, { loads: false });
    connection.call('tokenize', { text }).answer.catch(() => {});
    for (let i = 0; i < limit; i++) t.mock.timers.tick(250);
    assert.equal(connection.broken, false);
    assert.ok(port.sent.some(({ kind }) => kind === 'beat'));
    t.mock.timers.tick(250);
    assert.equal(connection.broken, true);
    t.mock.timers.reset();
  }
});

test('a message that cannot be posted fails its call, and does not keep the process alive', async () => {
  const port = fakePort();
  await refuses(new Connection(port).call('tokenize', { text: wrong(Symbol('x')) }).answer, 'bad-option');
  assert.equal(port.held, false);
});

test('close() waits for the end of the worker, even when called twice, and leaves no timer', async () => {
  const port = fakePort();
  const connection = new Connection(port);
  const closing = [connection.close(DISPOSED), connection.close(DISPOSED)];
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const during = timers();
  port.hear({ kind: 'disposed' });
  assert.equal(timers(), during - 1);
  await closing[1];
  assert.equal(port.ended, true);
  await closing[0];
});

test('close() aborts running calls, because a worker thread ends only when its work does', async () => {
  const port = fakePort();
  const connection = new Connection(port);
  const call = assert.rejects(connection.call(...CALL).answer, DISPOSED);
  const closed = connection.close(DISPOSED);
  assert.deepEqual(
    port.sent.map(({ kind }) => kind),
    ['call', 'abort', 'dispose'],
  );
  port.hear({ kind: 'disposed' });
  await Promise.all([call, closed]);
});

test('a result of a custom store that cannot be posted is sent as an error', async () => {
  const port = fakePort();
  const connection = new Connection(port);
  const answers = answersOf(wrong({ next() {} }), wrong(memoryStore({ write: async () => ({ f() {} }) })));
  connection.open([], {}, answers, () => {}).catch(() => {});
  port.hear({ kind: 'ask', question: 2, method: 'write', args: ['a', 0, new Uint8Array(1)] });
  await immediate();
  const [answer] = port.sent.filter(({ kind }) => kind === 'answer');
  assert.deepEqual([answer.question, answer.error.name], [2, 'DataCloneError']);
  connection.kill(DISPOSED);
});

test('a call that waits during a restart is repeated; if the restart fails, the next call says why', async () => {
  const model = new ReconnectingConnection(
    new Connection(fakePort()),
    async () => new Connection(fakePort('second')),
    true,
  );
  const { answer } = model.call(...CALL);
  await model.restart();
  assert.equal(await answer, 'second');
  await model.close(DISPOSED);
  const offline = async () => {
    throw new Error('offline');
  };
  const dead = new ReconnectingConnection(new Connection(fakePort()), offline, true);
  await assert.rejects(dead.restart(), /offline/);
  await assert.rejects(dead.call(...CALL).answer, /offline/);
});

test('with automatic restarts `lost` reports each loss once', async () => {
  const ports = /** @type {ReturnType<typeof fakePort>[]} */ ([]);
  const restart = deferred();
  const connect = () => new Connection(ports[ports.push(fakePort('answer')) - 1]);
  const reopen = async () => {
    if (ports.length === 2) await restart.promise;
    return connect();
  };
  const model = new ReconnectingConnection(connect(), reopen, true);
  for (const what of ['first', 'second']) {
    const { lost } = model;
    ports.at(-1)?.hear(fatal(what));
    assert.match((await lost).message, RegExp(what));
    assert.equal(await Promise.race([model.lost, immediate()]), undefined);
  }
  restart.resolve(null);
  assert.equal(await model.call(...CALL).answer, 'answer');
  await model.close(DISPOSED);
});

/** @param {object} [more] */
function fakeConnection(more) {
  return wrong({ broken: false, lost: never(), kill() {}, close: async () => {}, ...more });
}

/** @param {ReconnectingConnection} connection @param {AbortSignal} [signal] */
function generate(connection, signal) {
  const prepare = () => wrong({ prompt: {}, format: null, seed: 1, logprobs: null });
  return new Generation({ connection, prepare, signal });
}

test('an abort ends the wait for a new worker', async () => {
  const { promise: answer, reject } = deferred();
  const connection = fakeConnection({ call: () => ({ answer }) });
  const model = new ReconnectingConnection(connection, wrong(never), true);
  const control = new AbortController();
  const asked = model.call(...CALL, { signal: control.signal }).answer;
  control.abort(); // A frozen worker receives no message.
  connection.broken = true;
  reject(new ModelError('worker-failed', 'frozen'));
  await assert.rejects(asked, { code: 'aborted' });
});

test('an answer that is aborted during a restart has the finish reason `aborted`, and is not an error', async () => {
  const model = new ReconnectingConnection(fakeConnection(), wrong(never), true);
  void model.restart();
  const control = new AbortController();
  const answers = [generate(model, control.signal), generate(model, AbortSignal.abort())];
  control.abort();
  for (const { finishReason, text } of await Promise.all(answers.map((answer) => answer.result()))) {
    assert.deepEqual([finishReason, text], ['aborted', '']);
  }
});

test('calls and answers that wait for a restart, and later ones, fail when the model is disposed of', async () => {
  const reopen = (/** @type {AbortSignal} */ signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new ModelError('aborted', 'x')));
    });
  const model = new ReconnectingConnection(fakeConnection(), wrong(reopen), true);
  const disposed = (/** @type {Promise<unknown>} */ promise) => assert.rejects(promise, { code: 'disposed' });
  const ends = [model.restart(), generate(model).result(), model.call(...CALL).answer].map(disposed);
  await model.close(DISPOSED);
  await Promise.all([...ends, disposed(model.call(...CALL).answer)]);
});

test('steps that the caller has received are not delivered again by the next worker', async () => {
  const worker = (/** @type {number[]} */ ids, /** @type {boolean} */ dies) => {
    const { promise: lost, resolve: lose } = deferred();
    const answer = async (/** @type {any} */ onEvent) => {
      // A step has no text if its token is only a part of a UTF-8 character.
      for (const id of ids) onEvent({ kind: 'steps', id: 1, steps: [{ text: '', ids: [id], forced: false }] });
      await immediate();
      if (!dies) return { text: '', tokens: ids, finishReason: 'stop' };
      connection.broken = true;
      const error = new ModelError('worker-failed', 'died');
      lose(error);
      throw error;
    };
    const connection = fakeConnection({
      lost,
      call: (/** @type {any} */ _method, /** @type {any} */ _args, /** @type {any} */ { onEvent }) => ({
        answer: answer(onEvent),
        ack() {},
      }),
    });
    return connection;
  };
  const model = new ReconnectingConnection(worker([7, 8], true), async () => worker([7, 8, 9], false), true);
  const seen = /** @type {number[]} */ ([]);
  const iterate = async () => {
    for await (const { ids } of generate(model).steps()) seen.push(...ids);
  };
  await assert.rejects(iterate(), { code: 'worker-failed' });
  assert.deepEqual(seen, [7, 8]);
});

test('a worker that does not start fails even if the reason cannot be found', async () => {
  const worker = wrong({});
  const failed = new Promise((resolve) => {
    browserPort(worker, () => Promise.reject(new Error('offline'))).onFailure(resolve);
  });
  worker.onerror({});
  assert.match(Object(await failed).message, /offline/);
});

test('charactersIn() also counts characters in lists that begin with a number', () => {
  assert.equal(charactersIn({ ids: [1, 2, 3] }), 'ids'.length);
  assert.equal(charactersIn([{ content: [1, 'xyz', { a: ['xy', 2] }] }]), 'contentxyzaxy'.length);
});
