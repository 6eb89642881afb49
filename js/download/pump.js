/* pump: reads streams of bytes in pieces. */
/** Bytes per read: small reads create garbage faster than it is collected. */
const CHUNK = 1 << 20;
/** Buffers of streams that ended. @type {ArrayBuffer[]} */
const spare = [];

/** Returns a function that splits chunks (null: the end) into pieces of at most `most` bytes; no bytes at the end.
 * @param {() => Promise<Uint8Array | null>} next */
export function cutter(next) {
  /** @type {Uint8Array | null} */
  let rest = null;
  return async (/** @type {number} */ most) => {
    while (!rest?.length) {
      // The previous chunk's buffer may be detached: it is not used again.
      rest = await next();
      if (!rest) return new Uint8Array(0);
    }
    const piece = rest.subarray(0, most);
    rest = rest.subarray(piece.length);
    return piece;
  };
}

/** Returns a function that fills a view completely, except at the end, and returns the count.
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

/** Returns null for a stream that is not one of bytes, like WebKit's response bodies.
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

/** Reads into the same buffer if possible: otherwise uncollected chunks would be most of the peak memory.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
export function pumpOf(body) {
  const bytes = byteReader(body);
  if (!bytes) return chunksOf(body);
  let buffer = spare.pop() ?? new ArrayBuffer(CHUNK);
  return async () => {
    /** @type {any} */
    const { done, value } = await bytes.read(new Uint8Array(buffer));
    if (done && value?.buffer.byteLength === CHUNK) spare.push(value.buffer);
    buffer = done ? new ArrayBuffer(1) : value.buffer; // 1: for a read after the end
    return done ? null : value;
  };
}

/** Detaches consumed chunks, which frees hundreds of megabytes before the garbage collector does.
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
