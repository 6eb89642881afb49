/* inject: the faults of the fault-injection tests, the same in Node and in pages. Kinds of fault in KINDS:
 *   server   a faulty response (tests/js/faulty-server.js). With `garbage`, it contains no model; with `other`, it
 *            contains another model, which a load may return
 *   store    a method of the store that fails in some way (WAYS)
 *   rest     a change of a cached file between two loads
 *   client   a call that is made while the load runs
 * HARM breaks workers. place.js and place-browser.js kill Node processes and tabs. */

/** @typedef {{ name: string, server?: (facts: Facts) => Fault, store?: { method: string, way: string },
 *   rest?: (copy: Uint8Array, facts: Facts) => Uint8Array | null, client?: string, garbage?: boolean, other?: boolean }} Kind */
/** The model that a fault affects, another model of the same size (`other`), and random numbers.
 * @typedef {{ bytes: Uint8Array, other: Uint8Array, random: (n?: number) => number }} Facts */

const textBytes = (/** @type {string} */ text) => new TextEncoder().encode(text);
/** Waits with setTimeout(), because pages have no `node:timers`. */
export const sleep = (/** @type {number} */ ms) =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
const PORTAL = textBytes('<!doctype html><title>Welcome to our hotel</title>'.repeat(40));
const NO_VERSION = { ETag: '', 'Last-Modified': '' };
const STATUSES = [400, 401, 402, 403, 404, 407, 408, 410, 416, 418, 425, 429, 451, 500, 502, 503, 504, 511, 204, 304];
/** Size in bytes of the journal at the end of a cached file. */
export const JOURNAL_BYTES = 16384;
const somewhere = (/** @type {Facts} */ { bytes, random }) => random(bytes.length);
const joined = (/** @type {Uint8Array} */ a, /** @type {Uint8Array} */ b) => Uint8Array.from([...a, ...b]);

/** @type {Record<string, (facts: Facts) => Fault>} */
const ANSWERS = {
  'demands a pause of a second (Retry-After)': () => ({ status: 503, headers: { 'Retry-After': '1' } }),
  'demands a pause of a day (Retry-After)': () => ({ status: 429, headers: { 'Retry-After': '86400' } }),
  'redirects to itself': () => ({ status: 302, headers: { Location: '/model.gguf' } }),
  'redirects to a closed port': () => ({ status: 302, headers: { Location: 'http://127.0.0.1:9/x' } }),
  'redirects without a Location': () => ({ status: 302 }),
  'ends the connection at once': () => ({ killAt: 0 }),
  'ends the connection in the middle': (facts) => ({ killAt: facts.random(60_000) }),
  'is silent from the start': () => ({ wait: 60_000 }),
  'is silent in the middle': (facts) => ({ stallAt: facts.random(60_000) }),
  'answers late': () => ({ wait: 200 }),
  'sends slowly': () => ({ slow: 5 }),
  'ignores ranges': () => ({ noRanges: true }),
  'sends another range than the requested one': () => ({ shift: 1000 }),
  'compresses the response': () => ({ gzip: true }),
  'promises more bytes than it sends': () => ({ lie: 5000 }),
  'sends no Content-Range': () => ({ headers: { 'Content-Range': '' } }),
  'sends a malformed Content-Range': () => ({ headers: { 'Content-Range': 'bytes x-y/z' } }),
  'sends another size in Content-Range': (facts) => ({ headers: { 'Content-Range': `bytes 0-9/${somewhere(facts)}` } }),
  'sends neither ETag nor Last-Modified': () => ({ headers: NO_VERSION }),
  'sends Last-Modified only': () => ({ headers: { ETag: '' } }),
  'sends a weak ETag': () => ({ etag: 'W/"one"' }),
  'sends the ETag of a compressed response': () => ({ etag: '"one-gzip"' }),
  'sends a long ETag': () => ({ etag: `"${'v'.repeat(5000)}"` }),
  'sends an ETag that is not ASCII': () => ({ etag: '"\u00fc\u00df"' }),
  'sends a response that is not HTTP': () => ({ raw: 'I am not a server\r\n\r\n' }),
  'ends the response within the headers': () => ({ raw: 'HTTP/1.1 200 OK\r\nContent-Le' }),
  'sends malformed chunks': () => ({ raw: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nGGUF' }),
  'sends a negative Content-Length': () => ({ raw: 'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nGGUF' }),
};

/** @type {Record<string, (facts: Facts) => Fault>} */
const GARBAGE = {
  'sends the page of a captive portal': () => ({ bytes: PORTAL, etag: '"portal"', noRanges: true }),
  'sends the page of a captive portal, without an ETag': () => ({ bytes: PORTAL, noRanges: true, headers: NO_VERSION }),
  'sends an empty body': () => ({ bytes: new Uint8Array(0), etag: '"nothing"', noRanges: true }),
  'sends a page that begins like a model': ({ bytes }) => ({
    bytes: joined(bytes.subarray(0, 4), PORTAL),
    etag: '"x"',
  }),
  'sends a truncated model': (facts) => ({ bytes: facts.bytes.subarray(0, somewhere(facts)), etag: '"cut"' }),
  'sends zeros of the same size': ({ bytes }) => ({ bytes: new Uint8Array(bytes.length), etag: '"zeros"' }),
};

const METHODS = ['list', 'size', 'read', 'write', 'flush', 'close', 'remove', 'estimate'];
/** Ways in which methods of the store fail, each with the affected methods.
 * @type {Record<string, [methods: string[], (call: Function, args: any[]) => unknown]>} */
const WAYS = {
  throws: [
    METHODS,
    () => {
      throw new Error('EIO');
    },
  ],
  'rejects with undefined': [METHODS, () => Promise.reject()],
  'never answers': [METHODS, () => new Promise(() => {})],
  'returns a part': [
    ['read'],
    (call, [name, at, into]) => call(name, at, into.subarray(0, Math.ceil(into.length / 3))),
  ],
  'returns 0 bytes': [['read'], () => 0],
  'returns NaN': [['read'], () => NaN],
  'returns wrong bytes': [
    ['read'],
    async (call, [name, at, into]) => {
      const count = await call(name, at, into);
      into[count >> 1] ^= 8;
      return count;
    },
  ],
  'writes nothing': [['write'], () => {}],
  'writes a half': [['write'], (call, [name, at, bytes]) => call(name, at, bytes.subarray(0, bytes.length >> 1))],
  'has no room': [
    ['write'],
    () => {
      throw new DOMException('no', 'QuotaExceededError');
    },
  ],
  'takes long': [['flush'], (call, args) => sleep(100).then(() => call(...args))],
};

/** A fault of the store: the method, a key of WAYS, the number of calls before it, and whether it lasts. With `inside`,
 * only reads and writes in this byte range count; with `over`, the fault has ended.
 * @typedef {{ method: string, way: string, moment: number, lasting: boolean, inside?: [number, number],
 *   over?: boolean }} StoreFault */
/** Returns the store with one method replaced by a failing one; without a fault, the store itself. @param {any} store
 * @param {StoreFault} [fault] */
export function faultyStore(store, fault) {
  if (!fault) return store;
  const { method, way, moment, lasting, inside: [from, to] = [0, Infinity] } = fault;
  const call = store[method].bind(store);
  let calls = 0;
  const active = (/** @type {number} */ n) => !fault.over && (lasting ? n >= moment : n === moment);
  return {
    ...store,
    [method]: (/** @type {any[]} */ ...args) => {
      const { 1: at = from } = args;
      return at >= from && at < to && active(calls++) ? WAYS[way][1](call, args) : call(...args);
    },
  };
}

/** @param {Uint8Array} copy @param {number} at @param {number} count */
const zeros = (copy, at, count) => new Uint8Array(copy).fill(0, at, Math.min(at + count, copy.length));
/** Returns a copy with one bit inverted. @param {Uint8Array} bytes @param {number} bit */
export function flipped(bytes, bit) {
  const copy = new Uint8Array(bytes);
  copy[Math.floor(bit / 8)] ^= 1 << (bit & 7);
  return copy;
}

/** @type {Record<string, (copy: Uint8Array, facts: Facts) => Uint8Array | null>} */
const AT_REST = {
  'a bit was flipped': (copy, { bytes, random }) => flipped(copy, random(8 * bytes.length)),
  'a sector is zeros': (copy, facts) => zeros(copy, somewhere(facts) & ~511, 512),
  'a tenth is zeros': (copy, facts) => zeros(copy, somewhere(facts), facts.bytes.length / 10),
  'two sectors are swapped': (copy, facts) => {
    const broken = new Uint8Array(copy);
    const [a, b] = [somewhere(facts), somewhere(facts)].map((at) => Math.min(at, facts.bytes.length - 512) & ~511);
    broken.set(copy.subarray(b, b + 512), a);
    broken.set(copy.subarray(a, a + 512), b);
    return broken;
  },
  'the checksums are zeros': (copy, { bytes }) => zeros(copy, bytes.length, copy.length - JOURNAL_BYTES - bytes.length),
  'a checksum was flipped': (copy, { bytes, random }) =>
    flipped(copy, 8 * (bytes.length + random(copy.length - JOURNAL_BYTES - bytes.length)) + 4),
  'a quarter of the journal is zeros': (copy, { random }) =>
    zeros(copy, copy.length - (JOURNAL_BYTES / 4) * (1 + random(4)), JOURNAL_BYTES / 4),
  'the journal is zeros': (copy) => zeros(copy, copy.length - JOURNAL_BYTES, JOURNAL_BYTES),
  'the file was truncated': (copy, { random }) => copy.subarray(0, random(copy.length)),
  'bytes were appended': (copy) => joined(copy, textBytes('more')),
  'the file is empty': () => new Uint8Array(0),
  'the file is missing': () => null,
};

const CLIENT = [
  'aborts',
  'aborts and loads again at once',
  'loads the model twice at once',
  'inspects the model during the load',
  'lists the cache and its size during the load',
  'clears the cache during the load',
];

/** @type {Kind[]} */
export const KINDS = [
  ...STATUSES.map((status) => ({ name: `server: status ${status}`, server: () => ({ status }) })),
  ...Object.entries(ANSWERS).map(([name, server]) => ({ name: `server: ${name}`, server })),
  ...Object.entries(GARBAGE).map(([name, server]) => ({ name: `server: ${name}`, server, garbage: true })),
  { name: 'server: sends another model', server: ({ other }) => ({ bytes: other, etag: '"two"' }), other: true },
  ...Object.entries(WAYS).flatMap(([way, [methods]]) =>
    methods.map((method) => ({ name: `store: ${method} ${way}`, store: { method, way } })),
  ),
  ...Object.entries(AT_REST).map(([name, rest]) => ({ name: `at rest: ${name}`, rest })),
  ...CLIENT.map((client) => ({ name: `client: ${client}`, client })),
];

/** Starts a load and disturbs it with another call after 15 ms times `moment`. Returns the result of the last load.
 * @param {{ load: (options?: object) => Promise<any>, inspect: () => Promise<unknown>, cache: any }} member
 * @param {string} what @param {number} moment */
export async function disturbed({ load, inspect, cache }, what, moment) {
  const control = new AbortController();
  const first = load({ signal: control.signal });
  first.catch(() => {});
  await sleep(moment * 15);
  if (what.startsWith('aborts')) control.abort();
  if (what === 'aborts and loads again at once' || what === 'loads the model twice at once') {
    const second = load();
    await first.catch(() => {});
    return second;
  }
  for (let i = 0; i < 5; i++) {
    if (what.startsWith('inspects')) await inspect();
    if (what.startsWith('lists')) await Promise.all([cache.list(), cache.estimate()]);
    if (what.startsWith('clears')) await cache.clear();
  }
  return first;
}

/** Code that is prepended to a worker's script: the worker breaks itself when a message requests it. The bytes are a
 * wasm module whose only function is `unreachable`. */
export const HARM = `addEventListener('message', ({ data }) => ({
  exit: () => close(),
  freeze: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  throw: () => { throw new Error('thrown on purpose'); },
  trap: () => new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96,
    0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 5, 1, 3, 0, 0, 11]))).exports.f(),
})[data?.harm]?.());
`;
