/**
 * faulty-server: an HTTP server for one file that fails on purpose: cut connections, stalls, wrong lengths and ranges,
 * error statuses, other files under the same name. It counts the bytes that it sends, so that a test can compute how
 * much was fetched twice.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { byteRange } from '../../tools/serve.js';
import { listen } from '../support/listen.js';

/** What the server does with one request. All fields are optional.
 * @typedef {object} Fault
 * @property {number} [status]        answer only with this status
 * @property {Record<string, string>} [headers]   added to the usual headers; '' removes one
 * @property {number} [killAt]        cut the connection after so many bytes of the body
 * @property {number} [stallAt]       send nothing more after so many bytes
 * @property {boolean} [noRanges]     answer with the whole file
 * @property {number} [shift]         send a range that begins so many bytes later, and say so in Content-Range
 * @property {boolean} [gzip]         Content-Encoding: gzip
 * @property {number} [lie]           extra bytes that Content-Length or Content-Range claims
 * @property {number} [wait]          milliseconds before the answer
 * @property {number} [slow]          milliseconds before each chunk of the body
 * @property {Uint8Array} [bytes]         another file
 * @property {string} [etag]
 * @property {string} [raw]           send this text instead of an HTTP response, and close the connection
 */
/** @typedef {{ url: string, range: string, headers: import('node:http').IncomingHttpHeaders, sent: number }} Seen */

const PIECE = 16384;
/** @type {WeakMap<Uint8Array, Uint8Array>} */
const packed = new WeakMap();

/**
 * Starts the server. `state` can change between requests; `cut` destroys all responses in progress; `forget` clears
 * `seen`.
 * @param {any} t     test; the server closes when it ends
 * @param {Uint8Array} bytes
 * @param {(number: number, request: import('node:http').IncomingMessage) => Fault} [faults]   for the n-th request
 * @param {Fault} [usual]   for all requests
 */
export async function faultyServer(t, bytes, faults = () => ({}), usual = {}) {
  /** @type {Seen[]} */
  const seen = [];
  /** @type {Set<import('node:http').ServerResponse>} */
  const answering = new Set();
  const state = { bytes, etag: '"one"', modified: 'Sat, 01 Nov 2025 10:00:00 GMT', faults };
  const { server, close, address } = await listen(t, (request, response) => {
    const entry = { url: request.url ?? '', range: request.headers.range ?? '', headers: request.headers, sent: 0 };
    seen.push(entry);
    answering.add(response);
    response.once('close', () => answering.delete(response));
    respond(
      request,
      response,
      { etag: state.etag, bytes: state.bytes, ...usual, ...state.faults(seen.length - 1, request) },
      state,
      entry,
    ).catch(() => response.destroy());
  });
  return {
    url: `${address}/model.gguf`,
    seen,
    state,
    close,
    server,
    get sent() {
      return seen.reduce((sum, { sent }) => sum + sent, 0);
    },
    cut() {
      for (const response of answering) response.destroy();
    },
    forget() {
      seen.length = 0;
    },
  };
}

/** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response
 * @param {Fault & { bytes: Uint8Array, etag: string }} fault @param {{ modified: string }} state @param {Seen} entry */
async function respond(request, response, fault, state, entry) {
  const { bytes, etag, lie = 0 } = fault;
  if (fault.raw !== undefined) return void request.socket.end(fault.raw);
  if (fault.wait) await sleep(fault.wait, null, { ref: false });
  const asked =
    request.headers['if-range'] && ![etag, state.modified].includes(String(request.headers['if-range']))
      ? undefined
      : request.headers.range;
  const range = fault.noRanges || fault.gzip ? null : byteRange(asked, bytes.length);
  response.setHeader('ETag', etag);
  response.setHeader('Last-Modified', state.modified);
  for (const [name, value] of Object.entries(fault.headers ?? {})) {
    if (value) response.setHeader(name, value);
    else response.removeHeader(name);
  }
  if (fault.status || range === 'bad') return void response.writeHead(fault.status ?? 416).end('no');
  const [first, last] = range ?? [0, bytes.length - 1];
  const from = range ? first + (fault.shift ?? 0) : 0;
  let body = bytes.subarray(from, last + 1);
  if (fault.gzip) {
    body = packed.get(bytes) ?? gzipSync(body);
    packed.set(bytes, body);
    response.setHeader('Content-Encoding', 'gzip');
  }
  if (range && fault.headers?.['Content-Range'] === undefined)
    response.setHeader('Content-Range', `bytes ${from}-${last}/${bytes.length + lie}`);
  response.setHeader('Content-Length', body.length + (range ? 0 : lie));
  response.writeHead(range ? 206 : 200);
  await send(response, body, fault, entry);
}

/** @param {import('node:http').ServerResponse} response @param {Uint8Array} body @param {Fault} fault @param {Seen} entry */
async function send(response, body, { killAt = Infinity, stallAt = Infinity, slow = 0, lie = 0 }, entry) {
  const stop = Math.min(killAt, stallAt, body.length);
  for (let at = 0; at < stop; ) {
    if (slow) await sleep(slow);
    const piece = body.subarray(at, Math.min(at + PIECE, stop));
    await new Promise((resolve, reject) => {
      response.once('close', reject);
      response.write(piece, () => {
        response.off('close', reject);
        resolve(null);
      });
    });
    at += piece.length;
    entry.sent += piece.length;
  }
  if (stallAt <= body.length) return;
  if (killAt <= body.length || lie > 0) response.socket?.destroySoon();
  else response.end();
}
