/* pump: bytes of streams, in pieces. Knows nothing of where they come from. */
/** Of a read: small ones leave more garbage behind than is collected in time. */
const CHUNK = 1 << 20;
/** Of streams that ended, for those that begin. @type {ArrayBuffer[]} */
const spare = [];

/** Cuts chunks (null: the end), of which it holds one: at most so many bytes, none at the end.
 * @param {() => Promise<Uint8Array | null>} next */
export function cutter(next) {
  /** @type {Uint8Array | null} */
  let rest = null;
  return async (/** @type {number} */ most) => {
    while (!rest?.length) {
      // What was cut before may have lost its buffer: nothing is asked of it again.
      rest = await next();
      if (!rest) return new Uint8Array(0);
    }
    const piece = rest.subarray(0, most);
    rest = rest.subarray(piece.length);
    return piece;
  };
}

/** Fills views, to the last byte if there are as many, and gives the count.
 * @param {() => Promise<Uint8Array | null>} next */
export function filler(next) {
  const take = cutter(next);
  return async (/** @type {Uint8Array} */ into, wanted = () => true) => {
    for (let count = 0; ; ) {
      const piece = await take(into.length - count);
      if (!wanted()) return count;
      into.set(piece, count);
      count += piece.length;
      if (!piece.length || count === into.length) return count;
    }
  };
}

/** null: it is none of bytes, WebKit's of answers are not. @param {ReadableStream<Uint8Array>} body */
function byteReader(body) {
  try {
    return body.getReader({ mode: 'byob' });
  } catch {
    return null;
  }
}

/** Whether a body's bytes wait outside for who reads them. WebKit takes what comes, however far ahead of that. */
export const bodiesWait = () => !!byteReader(/** @type {ReadableStream<Uint8Array>} */ (new Response('.').body));

/** Reads into one buffer again and again, if it can: chunks that wait for the garbage collector
 * would be most of the memory peak.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
export function pumpOf(body) {
  const bytes = byteReader(body);
  if (!bytes) return chunksOf(body);
  let buffer = spare.pop() ?? new ArrayBuffer(CHUNK);
  return async () => {
    /** @type {any} */
    const { done, value } = await bytes.read(new Uint8Array(buffer));
    if (done && value?.buffer.byteLength === CHUNK) spare.push(value.buffer);
    buffer = done ? new ArrayBuffer(1) : value.buffer; // 1: for whoever asks again
    return done ? null : value;
  };
}

/** What was consumed would wait for the collector: hundreds of megabytes. Detached, it is free at once.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
function chunksOf(body) {
  const reader = body.getReader();
  /** @type {any} */
  let last;
  return async () => {
    last?.transfer?.(0);
    const { done, value } = await reader.read();
    if (done) return null;
    last = value.buffer;
    return value;
  };
}
