/**
 * reads-wasm: a WebAssembly module that only reads memory, as a reference for decode speed. It is assembled here byte
 * by byte, so that the benchmark needs no compiler.
 *
 *   read(p: i32, stride: i32, rounds: i32) -> i32
 *
 * reads STREAMS streams that begin `stride` bytes apart, 64 bytes of each in turn. Hardware prefetchers
 * follow streams, and a single stream does not use the full memory bandwidth (see docs/reports/speed.md).
 */
export const STREAMS = 8;
export const BYTES_PER_ROUND = 64 * STREAMS;

const I32 = 0x7f;
const V128 = 0x7b;
const OP = { loop: 0x03, end: 0x0b, brIf: 0x0d, get: 0x20, set: 0x21, tee: 0x22, i32Const: 0x41, add: 0x6a, sub: 0x6b };
const SIMD = { prefix: 0xfd, load: 0x00, or: 0x50, anyTrue: 0x53 };
const VOID = 0x40;
const ROUNDS = 2;
const FIRST_STREAM = 3;
const FIRST_SUM = FIRST_STREAM + STREAMS;
const SUMS = 4;

/** @param {number} n */
function leb(n) {
  const bytes = [];
  for (; n > 127; n >>>= 7) bytes.push((n & 127) | 128);
  return [...bytes, n];
}

/** @param {number[]} body */
const sized = (body) => [...leb(body.length), ...body];
/** @param {number} id @param {number[]} body */
const section = (id, body) => [id, ...sized(body)];
/** @param {string} text */
const name = (text) => sized([...new TextEncoder().encode(text)]);
/** Returns an i32.const instruction with a signed LEB128 value of one or two bytes. @param {number} n */
const constant = (n) => [OP.i32Const, ...(n < 64 ? [n] : [(n & 127) | 128, n >> 7])];

/** Returns instructions that compute the start addresses of the streams: p, p + stride, … */
function startStreams() {
  const code = [OP.get, 0, OP.set, FIRST_STREAM];
  for (let s = 1; s < STREAMS; s++) {
    code.push(OP.get, FIRST_STREAM + s - 1, OP.get, 1, OP.add, OP.set, FIRST_STREAM + s);
  }
  return code;
}

/** Returns instructions that OR the next 64 bytes of a stream into the accumulators. @param {number} stream */
function readStream(stream) {
  const code = [];
  for (let i = 0; i < SUMS; i++) {
    code.push(OP.get, FIRST_SUM + i, OP.get, stream, SIMD.prefix, SIMD.load, 4, 16 * i);
    code.push(SIMD.prefix, SIMD.or, OP.set, FIRST_SUM + i);
  }
  return [...code, OP.get, stream, ...constant(64), OP.add, OP.set, stream];
}

function body() {
  const streams = Array.from({ length: STREAMS }, (_, s) => readStream(FIRST_STREAM + s)).flat();
  const countDown = [OP.get, ROUNDS, ...constant(1), OP.sub, OP.tee, ROUNDS, OP.brIf, 0];
  const sums = Array.from({ length: SUMS }, (_, i) => [OP.get, FIRST_SUM + i]).flat();
  const joined = Array.from({ length: SUMS - 1 }, () => [SIMD.prefix, SIMD.or]).flat();
  return [
    2,
    STREAMS,
    I32,
    SUMS,
    V128,
    ...startStreams(),
    OP.loop,
    VOID,
    ...streams,
    ...countDown,
    OP.end,
    ...sums,
    ...joined,
    SIMD.prefix,
    SIMD.anyTrue,
    OP.end,
  ];
}

/** Returns the module's bytes. It imports `env.memory`, of exactly `pages` pages of 64 KiB.
 * @param {number} pages of the memory to import @param {boolean} shared */
export function readModule(pages, shared) {
  const limits = [shared ? 3 : 1, ...leb(pages), ...leb(pages)];
  return new Uint8Array([
    0,
    0x61,
    0x73,
    0x6d,
    1,
    0,
    0,
    0,
    ...section(1, [1, 0x60, 3, I32, I32, I32, 1, I32]),
    ...section(2, [1, ...name('env'), ...name('memory'), 2, ...limits]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...name('read'), 0, 0]),
    ...section(10, [1, ...sized(body())]),
  ]);
}
