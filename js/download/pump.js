/* pump: reads byte streams in pieces of a limited size. */
/** Bytes per read. Smaller reads would create garbage faster than it is collected. */
const CHUNK = 1 << 20;
/** Buffers of streams that have ended, for reuse. @type {ArrayBuffer[]} */
const spare = [];

/** Returns a function that returns the next piece, of at most `most` bytes and empty at the end. next: returns the next
 * chunk, null at the end.
 * @param {() => Promise<Uint8Array | null>} next */
export function cutter(next) {
  /** @type {Uint8Array | null} */
  let rest = null;
  return async (/** @type {number} */ most) => {
    while (!rest?.length) {
      // next() may detach the buffer of the previous chunk, whose bytes have all been returned.
      rest = await next();
      if (!rest) return new Uint8Array(0);
    }
    const piece = rest.subarray(0, most);
    rest = rest.subarray(piece.length);
    return piece;
  };
}

/** Returns a function that fills a view, only partly at the end of the stream, and returns the number of bytes. next:
 * returns the next chunk, null at the end.
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

/** Returns a reader that can fill a given buffer (BYOB), or null if the stream is not a byte stream (WebKit's
 * response bodies are not).
 * @param {ReadableStream<Uint8Array>} body */
function byteReader(body) {
  try {
    return body.getReader({ mode: 'byob' });
  } catch {
    return null;
  }
}

/** Returns whether response bodies apply back-pressure. WebKit's do not. */
export const bodiesWait = () => !!byteReader(/** @type {ReadableStream<Uint8Array>} */ (new Response('.').body));

/** Returns a function that reads the next chunk of a stream. It reuses one buffer if possible, because uncollected
 * chunks would make up most of the peak memory.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
export function pumpOf(body) {
  const bytes = byteReader(body);
  if (!bytes) return chunksOf(body);
  let buffer = spare.pop() ?? new ArrayBuffer(CHUNK);
  return async () => {
    /** @type {any} */
    const { done, value } = await bytes.read(new Uint8Array(buffer));
    if (done && value?.buffer.byteLength === CHUNK) spare.push(value.buffer);
    // A read after the end of a stream needs a buffer that is not empty.
    buffer = done ? new ArrayBuffer(1) : value.buffer;
    return done ? null : value;
  };
}

/** Returns a function that reads the next chunk of a stream. It detaches each consumed chunk, which frees hundreds of
 * megabytes before the garbage collector does.
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
