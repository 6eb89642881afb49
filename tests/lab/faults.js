/* faults: what the laboratory breaks (laboratory.js), as data: a row a kind.
 *   server   what a server does instead (tests/js/faulty-server.js), from some request on, or once; `wrong`: what it
 *            gives is the other model, which may be loaded; `garbage`: no model: it must not be
 *   store    a method of the store (js/platform/env.js) that fails in some way, from some call on, or once
 *   rest     what happens to a copy while nobody looks at it: given its bytes, where the model ends, and random numbers
 *   client   what the caller does while the load runs */

/** @typedef {import('../js/faulty-server.js').Fault} Fault */
/** @typedef {{ name: string, server?: (lab: Facts) => Fault, store?: { method: string, way: string },
 *   rest?: (copy: Uint8Array, facts: Facts) => Uint8Array | null, client?: string, garbage?: boolean, other?: boolean }} Kind */
/** other: another model of the same size; random: numbers below 1.
 * @typedef {{ bytes: Uint8Array, other: Uint8Array, random: () => number }} Facts */

const textBytes = (/** @type {string} */ text) => new TextEncoder().encode(text);
const PORTAL = textBytes('<!doctype html><title>Welcome to our hotel</title>'.repeat(40));
const NO_VERSION = { ETag: '', 'Last-Modified': '' };
const STATUSES = [400, 401, 402, 403, 404, 407, 408, 410, 416, 418, 425, 429, 451, 500, 502, 503, 504, 511, 204, 304];
const somewhere = (/** @type {Facts} */ { bytes, random }) => Math.floor(random() * bytes.length);

/** @param {Uint8Array[]} parts */
function joined(...parts) {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** @type {Record<string, (facts: Facts) => Fault>} */
const ANSWERS = {
  'asks to come later, after a second': () => ({ status: 503, headers: { 'Retry-After': '1' } }),
  'asks to come later, after a day': () => ({ status: 429, headers: { 'Retry-After': '86400' } }),
  'redirects to itself': () => ({ status: 302, headers: { Location: '/model.gguf' } }),
  'redirects to where nothing is': () => ({ status: 302, headers: { Location: 'http://127.0.0.1:9/x' } }),
  'redirects without saying where': () => ({ status: 302 }),
  'ends the connection at once': () => ({ killAt: 0 }),
  'ends the connection in the middle': (facts) => ({ killAt: Math.floor(facts.random() * 60_000) }),
  'is silent from the start': () => ({ wait: 60_000 }),
  'is silent in the middle': (facts) => ({ stallAt: Math.floor(facts.random() * 60_000) }),
  'answers late': () => ({ wait: 200 }),
  'sends slowly': () => ({ slow: 5 }),
  'knows no ranges': () => ({ noRanges: true }),
  'sends another range than it was asked for': () => ({ shift: 1000 }),
  'packs the answer': () => ({ gzip: true }),
  'promises more bytes than it sends': () => ({ lie: 5000 }),
  'says nothing of the range': () => ({ headers: { 'Content-Range': '' } }),
  'says nonsense of the range': () => ({ headers: { 'Content-Range': 'bytes x-y/z' } }),
  'names another size': (facts) => ({ headers: { 'Content-Range': `bytes 0-9/${somewhere(facts)}` } }),
  'names no version': () => ({ headers: NO_VERSION }),
  'names a date only': () => ({ headers: { ETag: '' } }),
  'names a weak version': () => ({ etag: 'W/"one"' }),
  'names the version of a packed answer': () => ({ etag: '"one-gzip"' }),
  'names a version that is long': () => ({ etag: `"${'v'.repeat(5000)}"` }),
  'names a version beyond ASCII': () => ({ etag: '"\u00fc\u00df"' }),
  'answers nonsense': () => ({ raw: 'I am not a server\r\n\r\n' }),
  'ends its answer within the head': () => ({ raw: 'HTTP/1.1 200 OK\r\nContent-Le' }),
  'sends chunks that are none': () => ({ raw: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nGGUF' }),
  'names a negative length': () => ({ raw: 'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nGGUF' }),
};

/** No models. @type {Record<string, (facts: Facts) => Fault>} */
const GARBAGE = {
  "gives a portal's page": () => ({ bytes: PORTAL, etag: '"portal"', noRanges: true }),
  "gives a portal's page, without a version": () => ({ bytes: PORTAL, noRanges: true, headers: NO_VERSION }),
  'gives nothing': () => ({ bytes: new Uint8Array(0), etag: '"nothing"', noRanges: true }),
  'gives a page that begins like a model': ({ bytes }) => ({
    bytes: joined(bytes.subarray(0, 4), PORTAL),
    etag: '"x"',
  }),
  'gives a model that was cut off': (facts) => ({ bytes: facts.bytes.subarray(0, somewhere(facts)), etag: '"cut"' }),
  'gives zeros of the same size': ({ bytes }) => ({ bytes: new Uint8Array(bytes.length), etag: '"zeros"' }),
};

const METHODS = ['list', 'size', 'read', 'write', 'flush', 'close', 'remove', 'estimate'];
const WAYS = ['throws', 'rejects with nothing', 'never answers'];
const OTHER_WAYS = [
  ['read', 'gives a part'],
  ['read', 'gives nothing'],
  ['read', 'gives no number'],
  ['read', 'gives other bytes'],
  ['write', 'writes nothing'],
  ['write', 'writes a half'],
  ['write', 'has no room'],
  ['flush', 'takes long'],
];

/** From a place on, others instead. @param {Uint8Array} copy @param {number} at @param {number} count */
const zeros = (copy, at, count) => Uint8Array.from(copy).fill(0, at, Math.min(at + count, copy.length));

/** @type {Record<string, (copy: Uint8Array, facts: Facts) => Uint8Array | null>} */
const AT_REST = {
  'a bit was flipped': (copy, { bytes, random }) => {
    const broken = Uint8Array.from(copy);
    broken[Math.floor(random() * bytes.length)] ^= 1 << Math.floor(random() * 8);
    return broken;
  },
  'a sector is zeros': (copy, facts) => zeros(copy, somewhere(facts) & ~511, 512),
  'a tenth is zeros': (copy, facts) => zeros(copy, somewhere(facts), facts.bytes.length / 10),
  'two sectors are swapped': (copy, facts) => {
    const broken = Uint8Array.from(copy);
    const [a, b] = [somewhere(facts), somewhere(facts)].map((at) => Math.min(at, facts.bytes.length - 512) & ~511);
    broken.set(copy.subarray(b, b + 512), a);
    broken.set(copy.subarray(a, a + 512), b);
    return broken;
  },
  'the checksums are zeros': (copy, { bytes }) => zeros(copy, bytes.length, copy.length - 16384 - bytes.length),
  'a checksum was flipped': (copy, { bytes, random }) => {
    const broken = Uint8Array.from(copy);
    broken[bytes.length + Math.floor(random() * (copy.length - 16384 - bytes.length))] ^= 16;
    return broken;
  },
  'a quarter of the journal is zeros': (copy, { random }) =>
    zeros(copy, copy.length - 4096 * (1 + Math.floor(random() * 4)), 4096),
  'the journal is zeros': (copy) => zeros(copy, copy.length - 16384, 16384),
  'it was cut off': (copy, { random }) => copy.subarray(0, Math.floor(random() * copy.length)),
  'it grew': (copy) => joined(copy, textBytes('more')),
  'it is empty': () => new Uint8Array(0),
  'it is gone': () => null,
};

const CLIENT = [
  'aborts',
  'aborts and loads again at once',
  'loads it twice at once',
  'inspects it meanwhile',
  'lists and measures meanwhile',
  'clears the cache meanwhile',
];

/** @type {Kind[]} */
export const KINDS = [
  ...STATUSES.map((status) => ({ name: `server: status ${status}`, server: () => ({ status }) })),
  ...Object.entries(ANSWERS).map(([name, server]) => ({ name: `server: ${name}`, server })),
  ...Object.entries(GARBAGE).map(([name, server]) => ({ name: `server: ${name}`, server, garbage: true })),
  { name: 'server: has another model', server: ({ other }) => ({ bytes: other, etag: '"two"' }), other: true },
  ...METHODS.flatMap((method) => WAYS.map((way) => ({ name: `store: ${method} ${way}`, store: { method, way } }))),
  ...OTHER_WAYS.map(([method, way]) => ({ name: `store: ${method} ${way}`, store: { method, way } })),
  ...Object.entries(AT_REST).map(([name, rest]) => ({ name: `at rest: ${name}`, rest })),
  ...CLIENT.map((client) => ({ name: `client: ${client}`, client })),
];
