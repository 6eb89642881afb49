/* exchange: translates between node:http and the classes Request and Response. */
/** @import { IncomingMessage, ServerResponse } from 'node:http' */
/** @import { Limits } from './options.js' */
/** @import { RequestError } from '../openai/errors.js' */
import { bodyTooLarge } from '../openai/errors.js';
import { bodiesTooLarge, bodyIncomplete, bodyLate } from './errors.js';

/** Size in bytes of the buffer for a client that reads slowly. A whole answer fits, so that the client does not delay
 * the engine. */
const BUFFER_BYTES = 1 << 20;
/** Time in ms for which the body of a rejected request is still read. If the connection were closed immediately, the
 * client might not receive the response. */
const DISCARD_MS = 2000;

/** Reads request bodies within limits on size and time. */
export class Bodies {
  #limits;
  /** Total size of all bodies in memory, in bytes. */
  #held = 0;

  /** @param {Limits} limits */
  constructor(limits) {
    this.#limits = limits;
  }

  /** Resolves with the body of a request. It counts towards the memory limit until `release` is called. Rejects with a
   * RequestError.
   * @param {IncomingMessage} request @returns {Promise<{ bytes: Buffer<ArrayBuffer>, release: () => void }>} */
  async read(request) {
    const { bodyMs } = this.#limits;
    /** @type {Buffer[]} */
    const parts = [];
    let size = 0;
    const release = () => {
      this.#held -= size;
      parts.length = 0;
      size = 0;
    };
    try {
      this.#check(Number(request.headers['content-length'] ?? 0));
      await arrival(request, bodyMs, (part) => {
        size += part.length;
        this.#held += part.length;
        this.#check(size);
        parts.push(part);
      });
      return { bytes: Buffer.concat(parts.splice(0)), release };
    } catch (error) {
      release();
      if (/** @type {RequestError} */ (error).status !== 408)
        await arrival(request, DISCARD_MS, () => {}).catch(() => {});
      throw error;
    }
  }

  /** Throws a RequestError if a body, or all bodies together, are too large. @param {number} size bytes of the body so
   * far */
  #check(size) {
    const { bodyBytes, bodiesBytes } = this.#limits;
    if (size > bodyBytes) throw bodyTooLarge(bodyBytes);
    if (this.#held > bodiesBytes) throw bodiesTooLarge();
  }
}

/** Resolves when a request's body has arrived. Rejects if the body is incomplete or does not arrive in time, or if
 * `take` throws.
 * @param {IncomingMessage} request @param {number} ms @param {(part: Buffer) => void} take
 * @returns {Promise<void>} */
function arrival(request, ms, take) {
  return new Promise((resolve, reject) => {
    const fail = (/** @type {unknown} */ error) => {
      unsubscribe();
      reject(error);
    };
    const broken = () => fail(bodyIncomplete());
    const onData = (/** @type {Buffer} */ part) => {
      try {
        take(part);
      } catch (error) {
        fail(error);
      }
    };
    const onEnd = () => {
      unsubscribe();
      resolve();
    };
    const timer = setTimeout(() => fail(bodyLate(ms)), ms);
    const unsubscribe = () => {
      clearTimeout(timer);
      request.off('data', onData).off('end', onEnd).off('close', broken);
    };
    if (request.complete && request.readableEnded) return onEnd();
    if (request.destroyed) return broken();
    // Without a listener, an error of the connection would end the process.
    request.on('error', () => {});
    request.on('data', onData).on('end', onEnd).on('close', broken);
  });
}

/** Writes a response with back-pressure. Resolves when all is in the buffer, or when the client has closed the
 * connection. The client has `stallMs` to read a full buffer, or the rest at the end.
 * @param {ServerResponse} res @param {Response} response @param {number} stallMs */
export async function send(res, response, stallMs) {
  const reader = response.body?.getReader();
  const cancel = () => void reader?.cancel().catch(() => {});
  res.once('close', cancel);
  if (res.destroyed) return cancel();
  res.writeHead(response.status, Object.fromEntries(response.headers));
  if (!reader || res.req.method === 'HEAD') {
    cancel();
    return void res.end();
  }
  res.flushHeaders();
  try {
    for (let part; !(part = await reader.read()).done && !res.destroyed; ) {
      res.write(part.value);
      if (res.writableLength > BUFFER_BYTES) await drained(res, stallMs);
    }
  } catch {
    // A connection that ends before the response is complete tells the client that the answer failed.
    return void res.destroy();
  }
  res.end();
  if (res.closed) return;
  const timer = setTimeout(() => res.destroy(), stallMs);
  res.once('close', () => clearTimeout(timer));
}

/** Resolves when the client has read the buffer or closed the connection. Disconnects a client that needs longer than
 * `ms`.
 * @param {ServerResponse} res @param {number} ms @returns {Promise<void>} */
function drained(res, ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => res.destroy(), ms);
    const done = () => {
      clearTimeout(timer);
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });
}
