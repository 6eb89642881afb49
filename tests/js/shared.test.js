/* Tests tabs that share a model, in one process: calls while the owner leaves, hangs or restarts. Workers, locks and
 * channels are fakes; tests/e2e/shared.test.js uses the real ones of browsers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { ModelError } from '../../js/errors.js';
import { Connection } from '../../js/rpc/connection.js';
import { SharedModel } from '../../js/shared/load.js';
import { Peer } from '../../js/shared/peer.js';
import { PendingCall } from '../../js/shared/pending-call.js';
import { Relay } from '../../js/shared/relay.js';
import { refuses, until } from './helpers.js';

/** @typedef {{ f: (lock: object | null) => any, resolve: (value: any) => void, reject: (error: any) => void }} Request */
/** @type {Map<string, Request>} */
const held = new Map();
/** @type {Map<string, Request[]>} */
const queues = new Map();

/** @param {string} name */
function grant(name) {
  const next = held.has(name) ? undefined : queues.get(name)?.shift();
  if (!next) return;
  held.set(name, next);
  Promise.resolve({ name })
    .then(next.f)
    .then(next.resolve, next.reject)
    .finally(() => {
      if (held.get(name) !== next) return;
      held.delete(name);
      grant(name);
    });
}

/** @param {string} name @param {any[]} rest */
const request = (name, ...rest) =>
  new Promise((resolve, reject) => {
    const f = rest.pop();
    const { signal, ifAvailable, steal } = rest[0] ?? {};
    const one = { f, resolve, reject };
    const queue = queues.get(name) ?? [];
    queues.set(name, queue);
    if (ifAvailable && held.has(name)) return resolve(f(null));
    if (steal) {
      held.get(name)?.reject(new DOMException('', 'AbortError'));
      held.delete(name);
    }
    queue[steal ? 'unshift' : 'push'](one);
    signal?.addEventListener('abort', () => {
      const at = queue.indexOf(one);
      if (at >= 0) reject(queue.splice(at, 1) && signal.reason);
    });
    return grant(name);
  });
Object.defineProperty(globalThis, 'navigator', { value: { locks: { request } }, configurable: true });

/** @type {Set<Channel>} */
const channels = new Set();

/** A fake BroadcastChannel. As in browsers, messages arrive in the order of posting across all channels. */
class Channel {
  /** @type {((event: { data: any }) => void) | null} */
  onmessage = null;

  /** @param {string} name */
  constructor(name) {
    this.name = name;
    channels.add(this);
  }

  /** @param {any} message */
  postMessage(message) {
    const data = structuredClone(message);
    const others = [...channels].filter((one) => one !== this && one.name === this.name);
    for (const one of others) setImmediate(() => channels.has(one) && one.onmessage?.({ data }));
  }

  close() {
    channels.delete(this);
  }
}
globalThis.BroadcastChannel = /** @type {any} */ (Channel);

function playedEngine() {
  const asked = /** @type {number[]} */ ([]);
  let hear = (/** @type {any} */ _) => {};
  let fail = (/** @type {any[]} */ ..._) => {};
  const connection = new Connection(
    /** @type {any} */ ({
      post(/** @type {any} */ message) {
        if (message.kind === 'call') asked.push(message.id);
        if (message.kind === 'beat') setImmediate(() => hear(message));
        if (message.kind === 'dispose') setImmediate(() => hear({ kind: 'disposed' }));
      },
      onMessage(/** @type {any} */ handler) {
        hear = handler;
      },
      onFailure(/** @type {any} */ handler) {
        fail = handler;
      },
      terminate() {},
      keepAlive() {},
    }),
  );
  const answer = (/** @type {any} */ value) => {
    for (const id of asked.splice(0)) hear({ kind: 'done', id, value });
  };
  const die = () => fail(new Error('boom'), asked.splice(0));
  return { connection, asked, answer, die };
}

const left = new ModelError('disposed', 'left');
let keys = 0;
/** Opens fake tabs, the first of which is the owner. Returns the tabs and the engines that they start. @param {any} t
 * @param {number} count */
async function opened(t, count) {
  const key = `test ${++keys}`;
  const engines = /** @type {ReturnType<typeof playedEngine>[]} */ ([]);
  const peers = Array.from(
    { length: count },
    () =>
      new Peer(
        key,
        async () => {
          const engine = playedEngine();
          engines.push(engine);
          return { connection: engine.connection, info: /** @type {any} */ ({}) };
        },
        () => {},
      ),
  );
  t.after(async () => {
    // The owner leaves last, so that no peer takes over the engine.
    for (const peer of [...peers].sort((a, b) => Number(a.owns) - Number(b.owns))) await peer.leave(left);
  });
  for (const peer of peers) await peer.enter();
  const next = async () => {
    await until(() => engines.at(-1)?.asked.length);
    return /** @type {ReturnType<typeof playedEngine>} */ (engines.at(-1));
  };
  return { key, peers, engines, next };
}

const asks = (/** @type {Peer} */ peer) => peer.router.call('tokenize', { text: 'x' }).answer;

test('an owner that leaves or restarts, however often, does not count as a dead engine, and calls continue', async (t) => {
  const {
    peers: [a, b, c],
    engines,
    next,
  } = await opened(t, 3);
  const call = asks(c);
  for (const go of [() => b.restart(), () => c.restart(), () => a.leave(left), () => b.leave(left)]) {
    await next();
    void go();
    const count = engines.length;
    await until(() => engines.length > count);
  }
  (await next()).answer([7]);
  assert.deepEqual(await call, [7]);
  assert.equal(c.owns, true);
});

test('a call during which two engines died fails in each tab', async (t) => {
  const { peers, next } = await opened(t, 2);
  const ends = peers.map((peer) => refuses(asks(peer), 'worker-failed'));
  for (let i = 0; i < 2; i++) {
    const engine = await next();
    await until(() => engine.asked.length === 2);
    engine.die();
  }
  for (const { message } of await Promise.all(ends)) assert.match(message, /boom/);
});

test('messages of a former owner that hung and wakes up do not draw tabs away from the current engine', async (t) => {
  const {
    key,
    peers: [owner, other],
    next,
  } = await opened(t, 2);
  const heard = /** @type {any[]} */ ([]);
  const [hall, witness] = [0, 0].map(() => new BroadcastChannel(`gemma-wasm shared ${key}`));
  t.after(() => [hall, witness].forEach((channel) => channel.close()));
  witness.onmessage = (/** @type {any} */ { data }) => heard.push(data);
  hall.postMessage({ kind: 'who' });
  await until(() => heard.some(({ kind }) => kind === 'owner'));
  const { epoch } = heard.find(({ kind }) => kind === 'owner');
  await owner.restart();
  let call = asks(other);
  (await next()).answer([1]);
  await call;
  heard.length = 0;
  hall.postMessage({ kind: 'owner', epoch });
  await until(() => heard.some((message) => message.epoch === epoch));
  call = asks(other);
  (await next()).answer([2]);
  assert.deepEqual(await call, [2]);
  assert.ok(!heard.some(({ kind }) => kind === 'join'));
});

test('messages that other code posts on the channels are ignored', async (t) => {
  const {
    key,
    peers: [, other],
    next,
  } = await opened(t, 2);
  const names = new Set([
    `gemma-wasm shared ${key}`,
    ...[...channels].map(({ name }) => name).filter((name) => name.includes(key)),
  ]);
  const strangers = [...names].map((name) => new BroadcastChannel(name));
  t.after(() => strangers.forEach((channel) => channel.close()));
  for (const channel of strangers) for (const message of [null, undefined, 7, 'text', {}]) channel.postMessage(message);
  const call = asks(other);
  (await next()).answer([3]);
  assert.deepEqual(await call, [3]);
});

test('a tab that left cannot start the model again', async (t) => {
  const { peers } = await opened(t, 2);
  for (const peer of peers) {
    await peer.leave(left);
    await assert.rejects(peer.restart(), left);
  }
});

test('`lost` is about the engine in use or the next one, and reports each loss once in each tab', async (t) => {
  const { peers, engines } = await opened(t, 2);
  const models = peers.map((peer) => new SharedModel(peer, /** @type {any} */ ({})));
  for (let i = 0; i < 2; i++) {
    const lost = models.map((model) => model.lost);
    engines[i].die();
    for (const error of await Promise.all(lost)) assert.match(error.message, /boom/);
    for (const model of models) assert.equal(await Promise.race([model.lost, immediate()]), undefined);
    for (const peer of peers) {
      const call = asks(peer);
      await until(() => engines[i + 1]?.asked.length);
      engines[i + 1].answer([i]);
      assert.deepEqual(await call, [i]);
    }
  }
});

for (const [finishReason, code] of [
  ['stop', 'worker-failed'],
  ['aborted', ''],
]) {
  test(`the next engine's answer is shorter than what was already delivered (${finishReason})`, async () => {
    const step = (/** @type {number} */ id) => ({ text: `${id}`, ids: [id], forced: false });
    const says = (/** @type {number[]} */ ids, /** @type {any} */ answer) =>
      /** @type {any} */ ({
        call(/** @type {any} */ _method, /** @type {any} */ _args, /** @type {any} */ { onEvent }) {
          onEvent({ kind: 'steps', id: 1, steps: ids.map(step) });
          return { answer, abort() {}, ack() {} };
        },
      });
    const pending = new PendingCall({ method: 'generate', args: { seed: 1, logprobs: null }, onEvent() {} });
    pending.send(says([7, 8], new Promise(() => {})));
    pending.lose(new ModelError('worker-failed', 'gone'), false);
    pending.send(says([7], Promise.resolve({ text: '7', tokens: [7], usage: {}, finishReason })));
    if (code) return void (await refuses(pending.answer, code));
    assert.deepEqual((await pending.answer).tokens, [7, 8]);
  });
}

test('a repeated call that is aborted in the queue of the next engine returns what was delivered', async () => {
  const steps = [{ text: '7', ids: [7], forced: false, kind: 'text' }];
  const says = (/** @type {any[]} */ given, /** @type {Promise<any>} */ answer) =>
    /** @type {any} */ ({
      call(/** @type {any} */ _method, /** @type {any} */ _args, /** @type {any} */ { onEvent }) {
        if (given.length) onEvent({ kind: 'steps', id: 1, steps: given });
        return { answer, abort() {}, ack() {} };
      },
    });
  const aborted = () => Promise.reject(new ModelError('aborted', 'The call was aborted.'));
  const pending = new PendingCall({ method: 'generate', args: { seed: 1, logprobs: null }, onEvent() {} });
  pending.send(says(steps, new Promise(() => {})));
  pending.lose(new ModelError('worker-failed', 'gone'), true);
  pending.send(says([], aborted()));
  const { text, tokens, finishReason } = await pending.answer;
  assert.deepEqual([text, tokens, finishReason], ['7', [7], 'aborted']);
  const other = new PendingCall({ method: 'generate', args: { seed: 1, logprobs: null } });
  other.send(says([], aborted()));
  await refuses(other.answer, 'aborted');
});

test('a call of another tab before the model is loaded fails with a code', () => {
  /** @type {any[]} */
  const posted = [];
  const direct = /** @type {any} */ ({ postMessage: (/** @type {any} */ message) => posted.push(message), close() {} });
  const relay = new Relay(direct, () => {});
  direct.onmessage({ data: { kind: 'call', id: 3, method: 'embed', args: [] } });
  const { kind, id, error } = posted.at(-1);
  assert.deepEqual([kind, id, error.code], ['failed', 3, 'bad-state']);
  assert.equal(error.message, 'Cannot call embed(): the shared model is still loading. Try again.');
  relay.close();
});
