/* What was given up may still come: a store that answers after the patience for it, a signal that fired before anybody
 * listened, a worker that is started again. Nothing of that gets in the way of what goes on meanwhile. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { checksum } from '../../js/download/checksum.js';
import { Download } from '../../js/download/download.js';
import { Entry } from '../../js/download/entry.js';
import { Remote, TUNING } from '../../js/download/http.js';
import { Shelf } from '../../js/download/shelf.js';
import { GemmaError } from '../../js/errors.js';
import { Generation } from '../../js/generation.js';
import { answersOf } from '../../js/link/answers.js';
import { Connection, charactersIn } from '../../js/link/connection.js';
import { Line } from '../../js/link/line.js';
import { faultyServer } from './faulty-server.js';
import { randoms } from '../support/random.js';
import { memoryStore } from './memory-store.js';

const LANE = 1 << 16;
const TOTAL = 1 << 20;
const random = randoms(7);
const FILE = Uint8Array.from({ length: TOTAL }, (_, i) => (i < 4 ? 'GGUF'.charCodeAt(i) : random() * 256));
const hash = (/** @type {string} */ text) => createHash('sha256').update(text).digest('hex');

/** A promise, and how it is kept. */
function gate() {
  let open = () => {};
  return {
    closed: new Promise((resolve) => {
      open = () => resolve(null);
    }),
    open: () => open(),
  };
}

/** @param {any} store @param {string[]} notices */
const around = (store, notices) =>
  /** @type {any} */ ({
    store,
    readOnly: false,
    hash,
    sum: checksum,
    room: () => undefined,
    counted() {},
    watched() {},
    hasher: () => ({ update() {}, hex: () => '' }),
    notice: (/** @type {string} */ code) => notices.push(code),
  });

/** @param {{ url: string }} server @param {any} store @param {number} [stallMs]   how long it may be silent, and the store */
async function begun(server, store, stallMs = 300) {
  const notices = /** @type {string[]} */ ([]);
  const tuning = { ...TUNING, segment: LANE, alone: Infinity, journal: 1 << 14, backoffMs: 1, stallMs };
  const download = new Download(/** @type {any} */ ({ url: server.url, tuning }), around(store, notices));
  await download.open();
  download.planned(TOTAL);
  return { download, notices };
}

test('a write that comes late has the bytes that it was given, and nothing wrong is kept with sums that fit', async (t) => {
  const memory = memoryStore();
  const late = gate();
  const done = gate();
  let held = false;
  let written = false;
  const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
    const mine = !held && at > 3 * LANE && at < TOTAL;
    held ||= mine;
    if (mine) await late.closed;
    await memory.write(name, at, bytes);
    written ||= mine;
    if (written && at > TOTAL && bytes.length >= 4096) done.open(); // what there is has been noted down
  };
  const { download, notices } = await begun(await faultyServer(t, FILE), { ...memory, write });
  let at = 0;
  for (let piece; (piece = await download.next()); at += piece.length) {
    assert.deepEqual(piece, FILE.subarray(at, at + piece.length));
  }
  assert.deepEqual([at, notices], [TOTAL, ['not-cached']]);
  late.open(); // every lane has other bytes by now
  await done.closed;
  await download.close();
  for (const name of await memory.list()) {
    const [entry] = await Entry.find(memory, name, { sum: checksum, readOnly: true });
    for (const [from, to] of entry?.journal.have ?? []) {
      const into = new Uint8Array(to - from);
      const count = await entry.read(from, into);
      assert.deepEqual(into.subarray(0, count), FILE.subarray(from, from + count));
    }
  }
});

test('a read that comes late is not put where others read by now', async (t) => {
  const memory = memoryStore();
  const late = gate();
  const done = gate();
  const server = await faultyServer(t, FILE);
  const first = await begun(server, memory, 5000);
  while (await first.download.next());
  await first.download.close();
  let reads = 0;
  const read = async (
    /** @type {string} */ name,
    /** @type {number} */ at,
    /** @type {Uint8Array} */ into,
    wanted = () => true,
  ) => {
    if (into.length === LANE && ++reads === 3) {
      await late.closed;
      done.open();
      if (!wanted()) return 0;
    }
    return memory.read(name, at, into);
  };
  const { download, notices } = await begun(server, { ...memory, read });
  const window = new Uint8Array(LANE);
  let givenUp = false;
  for (let at = 0; at < TOTAL; at += LANE) {
    for (let used = 0; used < LANE; ) {
      // as the engine's window is filled
      let count = await download.read(window.subarray(used));
      if (!count) {
        const piece = /** @type {Uint8Array} */ (await download.next());
        window.set(piece, used);
        count = piece.length;
      }
      used += count;
    }
    if (givenUp) {
      // in the range before
      late.open();
      await done.closed;
    }
    givenUp = notices.length > 0;
    assert.deepEqual(window, FILE.subarray(at, at + LANE));
  }
  assert.ok(notices.includes('not-cached'), `${notices}`);
  await download.close();
});

test('pieces that come while another lane mends one are written', async () => {
  const piece = 1 << 14;
  const memory = memoryStore();
  const slow = gate();
  const means = { sum: checksum, readOnly: false };
  const how = { journalEvery: Infinity, same: true };
  const lane = (/** @type {number} */ i, n = 1) => ({
    start: i * piece,
    bytes: FILE.slice(i * piece, (i + n) * piece),
  });
  const journal = {
    url: 'x',
    etag: '"v"',
    modified: '',
    total: 12 * piece,
    have: [],
    need: 0,
    sha256: '',
    used: 0,
    turn: 0,
    piece,
  };
  const entry = new Entry(memory, 'a.gguf', /** @type {any} */ (journal), means);
  await entry.put(lane(0, 4), 0, 4 * piece, how);
  await entry.close();
  await memory.write('a.gguf', 5, Uint8Array.of(FILE[5] ^ 1));
  let writes = 0;
  const write = async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
    if (++writes === 1) await slow.closed;
    await memory.write(name, at, bytes);
  };
  const [damaged] = await Entry.find({ ...memory, write }, 'a', means);
  await damaged.read(0, new Uint8Array(piece));
  const others = damaged.put(lane(5, 4), 5 * piece, 9 * piece, how);
  await new Promise(setImmediate); // its first piece is on its way
  await damaged.put(lane(0), 0, piece, how);
  slow.open();
  await others;
  await damaged.close();
  const [again] = await Entry.find(memory, 'a', means);
  assert.equal(await again.read(5 * piece, new Uint8Array(4 * piece)), 4 * piece);
});

for (const [what, length] of /** @type {const} */ ([
  ['all of which came', FILE.length],
  ['that fell silent', 1 << 10],
])) {
  test(`what is read of an answer ${what} ends with it, and what is asked of it later ends at once`, async (t) => {
    const server = await faultyServer(t, FILE);
    server.state.faults = () => ({ stallAt: length });
    t.mock.timers.enable({ apis: ['setTimeout'] }); // nobody's patience ends
    const answer = await new Remote({ url: server.url }, TUNING).ask();
    while (answer.at < length) await answer.read(FILE.length);
    const end = () => assert.rejects(answer.read(1), { code: 'truncated' });
    const ends = [end(), end()];
    answer.close();
    await Promise.all([...ends, end()]);
  });
}

test('a lock that comes late is freed', async () => {
  const late = gate();
  const freed = gate();
  const lock = async () => {
    await late.closed;
    return { lost: false, free: freed.open };
  };
  const shelf = new Shelf(around({ ...memoryStore(), lock }, []), 20);
  assert.equal(await shelf.lock('k', () => {}), false);
  await shelf.finish('', undefined);
  late.open();
  await freed.closed;
});

test('a kernel that is wrong here says nothing against the copy', async (t) => {
  const memory = memoryStore();
  const server = await faultyServer(t, FILE);
  const first = await begun(server, memory, 5000);
  while (await first.download.next());
  await first.download.close(new GemmaError('engine-fault', 'a kernel'));
  const before = await memory.list();
  assert.equal(before.length, 1);
  const { download } = await begun(server, memory, 5000);
  assert.equal(download.network, false, 'the copy is used');
  await download.close();
});

/** @typedef {{ sent: any[], answers: boolean, hear: (message: any) => void }} Fake */
/** @param {boolean} answers @param {any[]} [sent] */
function fakePort(answers, sent = []) {
  let hear = (/** @type {any} */ _) => {};
  return /** @type {any} */ ({
    post(/** @type {any} */ message) {
      structuredClone(message);
      sent.push(message);
      if (message.kind === 'call' && answers)
        setImmediate(() => hear({ kind: 'done', id: message.id, value: 'second' }));
    },
    onMessage(/** @type {any} */ handler) {
      hear = handler;
    },
    hear: (/** @type {any} */ message) => hear(message),
    onFailure() {},
    terminate() {},
    keepAlive() {},
  });
}

/** @param {any} connection */
const ask = (connection) => connection.call('tokenize', { text: 'x' }).answer;

test('a call that waits when the model is started again is repeated; where that fails, the next one says why', async () => {
  const line = new Line(new Connection(fakePort(false)), async () => new Connection(fakePort(true)), true);
  const waits = line.ask(ask);
  await line.restart();
  assert.equal(await waits, 'second');
  await line.close(new GemmaError('disposed', 'x'));
  const dead = new Line(
    new Connection(fakePort(false)),
    async () => {
      throw new Error('offline');
    },
    true,
  );
  await assert.rejects(dead.restart(), /offline/);
  await assert.rejects(dead.ask(ask), /offline/);
});

test('what waits for a restart, or comes later, says that the model was disposed of', async () => {
  const reopen = (/** @type {AbortSignal} */ signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new GemmaError('aborted', 'x')));
    });
  const line = new Line(new Connection(fakePort(false)), /** @type {any} */ (reopen), true);
  const disposed = (/** @type {Promise<unknown>} */ promise) => assert.rejects(promise, { code: 'disposed' });
  const ends = [disposed(line.restart()), disposed(line.ask(ask))];
  await line.close(new GemmaError('disposed', 'x'));
  await Promise.all([...ends, disposed(line.ask(ask))]);
});

test('where a restart comes by itself, who waits for `lost` again and again hears of each loss once', async () => {
  const ports = /** @type {any[]} */ ([]);
  const reopened = gate();
  const connect = () => new Connection(ports[ports.push(fakePort(true)) - 1]);
  const line = new Line(
    connect(),
    async () => {
      if (ports.length === 2) await reopened.closed;
      return connect();
    },
    true,
  );
  for (const what of ['first', 'second']) {
    const { lost } = line;
    ports.at(-1).hear({ kind: 'fatal', error: { code: 'worker-failed', what, expected: '', got: '', cause: '' } });
    assert.match((await lost).message, RegExp(what));
    assert.equal(
      await Promise.race([
        line.lost,
        new Promise((resolve) => {
          setImmediate(resolve);
        }),
      ]),
      undefined,
    );
  }
  reopened.open();
  assert.equal(await line.ask(ask), 'second');
  await line.close(new GemmaError('disposed', 'x'));
});

test('a signal that fired before ends the wait for a new worker', async () => {
  let fail = (/** @type {Error} */ _) => {};
  const connection = /** @type {any} */ ({
    broken: false,
    lost: new Promise(() => {}),
    kill() {},
    close: async () => {},
  });
  const line = new Line(connection, () => new Promise(() => {}), true);
  const control = new AbortController();
  const asked = line.ask(
    () =>
      new Promise((_, reject) => {
        fail = reject;
      }),
    control.signal,
  );
  control.abort(); // a frozen worker does not hear it
  connection.broken = true;
  fail(new GemmaError('worker-failed', 'frozen'));
  await assert.rejects(asked, { code: 'aborted' });
});

test('an answer that is aborted while a worker is started again says so, and is no error', async () => {
  const connection = /** @type {any} */ ({
    broken: false,
    lost: new Promise(() => {}),
    kill() {},
    close: async () => {},
  });
  const line = new Line(connection, () => new Promise(() => {}), true);
  void line.restart();
  const prepare = () => /** @type {any} */ ({ prompt: {}, format: null, seed: 1, logprobs: null });
  const control = new AbortController();
  const answer = new Generation(/** @type {any} */ ({ line, prepare, signal: control.signal }));
  const late = new Generation(/** @type {any} */ ({ line, prepare, signal: AbortSignal.abort() }));
  control.abort();
  for (const { finishReason, text } of [await answer, await late])
    assert.deepEqual([finishReason, text], ['aborted', '']);
});

test('what waits for a worker that is started again is told when the model is disposed of', async () => {
  const connection = /** @type {any} */ ({
    broken: false,
    lost: new Promise(() => {}),
    kill() {},
    close: async () => {},
  });
  const opening = (/** @type {AbortSignal} */ signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new GemmaError('aborted', 'x')));
    });
  const line = new Line(connection, /** @type {any} */ (opening), true);
  const again = line.restart();
  const prepare = () => /** @type {any} */ ({ prompt: {}, format: null, seed: 1, logprobs: null });
  const answer = new Generation(/** @type {any} */ ({ line, prepare })).result();
  const ended = [again, answer, line.ask(ask)].map((call) => assert.rejects(call, { code: 'disposed' }));
  await line.close(new GemmaError('disposed', 'x'));
  await Promise.all(ended);
});

test('steps that somebody has are not given again by the next worker', async () => {
  const step = (/** @type {number} */ id) => ({ text: '', ids: [id], forced: false }); // a part of a character
  const worker = (/** @type {number[]} */ ids, /** @type {boolean} */ dies) => {
    let broke = (/** @type {Error} */ _) => {};
    const connection = {
      broken: false,
      lost: new Promise((resolve) => {
        broke = resolve;
      }),
      kill() {},
      close: async () => {},
      abort() {},
      ack() {},
      call(
        /** @type {any} */ _method,
        /** @type {any} */ _args,
        /** @type {any} */ _signal,
        /** @type {any} */ onEvent,
      ) {
        const answer = (async () => {
          for (const id of ids) onEvent({ kind: 'steps', id: 1, steps: [step(id)] });
          await new Promise(setImmediate);
          if (!dies) return { text: '', tokens: ids, finishReason: 'stop' };
          connection.broken = true;
          const error = new GemmaError('worker-failed', 'died');
          broke(error);
          throw error;
        })();
        return { id: 1, answer };
      },
    };
    return /** @type {any} */ (connection);
  };
  const line = new Line(worker([7, 8], true), async () => worker([7, 8, 9], false), true);
  const prepare = () => /** @type {any} */ ({ prompt: {}, format: null, seed: 1, logprobs: null });
  const generation = new Generation(/** @type {any} */ ({ line, prepare }));
  /** @type {number[]} */
  const seen = [];
  await assert.rejects(
    (async () => {
      for await (const { ids } of generation.steps()) seen.push(...ids);
    })(),
    { code: 'worker-failed' },
  );
  assert.deepEqual(seen, [7, 8]);
});

test("what a store of one's own gives and cannot be posted is told as an error", async () => {
  /** @type {any[]} */
  const sent = [];
  const port = fakePort(false, sent);
  const connection = new Connection(port);
  const answers = answersOf(
    /** @type {any} */ ({ next() {} }),
    /** @type {any} */ ({ ...memoryStore(), write: async () => ({ f() {} }) }),
  );
  connection.open(/** @type {any} */ ([]), /** @type {any} */ ({}), answers, () => {}).catch(() => {});
  port.hear({ kind: 'ask', question: 2, method: 'write', args: ['a', 0, new Uint8Array(1)] });
  await new Promise(setImmediate);
  const [answer] = sent.filter(({ kind }) => kind === 'answer');
  assert.equal(answer.question, 2);
  assert.equal(answer.error.name, 'DataCloneError');
  connection.kill(new GemmaError('disposed', 'x'));
});

test('characters are counted in lists that begin with a number too', () => {
  assert.equal(charactersIn({ ids: [1, 2, 3] }), 'ids'.length);
  assert.equal(charactersIn([{ content: [1, 'xyz', { a: ['xy', 2] }] }]), 'contentxyzaxy'.length);
});
