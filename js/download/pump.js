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
  return async (/** @type {Uint8Array} */ into) => {
    for (let count = 0; ;) {
      const piece = await take(into.length - count);
      into.set(piece, count);
      count += piece.length;
      if (!piece.length || count === into.length) return count;
    }
  };
}

/** Reads into one buffer again and again, if it can: chunks that wait for the garbage collector
 * would be most of the memory peak.
 * @param {ReadableStream<Uint8Array>} body @returns {() => Promise<Uint8Array | null>} */
export function pumpOf(body) {
  let buffer = spare.pop() ?? new ArrayBuffer(CHUNK);
  /** @type {(result: any) => Uint8Array | null} */
  const taken = ({ done, value }) => {
    if (done && value?.buffer.byteLength === CHUNK) spare.push(value.buffer);
    buffer = done ? new ArrayBuffer(1) : value.buffer;   // 1: for whoever asks again
    return done ? null : value;
  };
  try {
    const reader = body.getReader({ mode: 'byob' });
    return async () => taken(await reader.read(new Uint8Array(buffer)));
  } catch {
    // WebKit. What was consumed would wait for the collector: hundreds of megabytes. Detached, it is free at once.
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
}
