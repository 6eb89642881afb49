/**
 * Writes GGUF files: the header from a list of metadata and tensors, then the streamed tensor data. Source: the GGUF
 * specification (ggml, docs/gguf.md), versions 2 and 3.
 *
 * @typedef {'u8'|'i8'|'u16'|'i16'|'u32'|'i32'|'f32'|'bool'|'string'|'u64'|'i64'|'f64'} ScalarType
 * @typedef {[string, ScalarType, any] | [string, 'array', ScalarType, ArrayLike<any>]} MetadataEntry
 *   a scalar as [key, type, value], an array as [key, 'array', element type, values]
 * @typedef {{ name: string, shape: number[], type: number, offset?: number }} TensorInfo
 *   shape[0]: row length, as in the file; type: GGML type number; offset: a wrong offset, for malformed files
 * @typedef {{ bytes: Buffer, dataOffset: number, offsets: number[], sizes: number[], total: number }} GgufHeader
 *   bytes: the file up to the data section; offsets: of tensors in that section; total: size of the whole file
 */
import fs from 'node:fs';

/** GGML types that can be written: type number, values and bytes per block. */
export const GGML_TYPES = Object.freeze({
  F32: { id: 0, items: 1, bytes: 4 },
  F16: { id: 1, items: 1, bytes: 2 },
  Q4_0: { id: 2, items: 32, bytes: 18 },
  Q4_1: { id: 3, items: 32, bytes: 20 },
  Q5_0: { id: 6, items: 32, bytes: 22 },
  Q5_1: { id: 7, items: 32, bytes: 24 },
  Q8_0: { id: 8, items: 32, bytes: 34 },
  Q2_K: { id: 10, items: 256, bytes: 84 },
  Q3_K: { id: 11, items: 256, bytes: 110 },
  Q4_K: { id: 12, items: 256, bytes: 144 },
  Q5_K: { id: 13, items: 256, bytes: 176 },
  Q6_K: { id: 14, items: 256, bytes: 210 },
  IQ4_NL: { id: 20, items: 32, bytes: 18 },
  IQ4_XS: { id: 23, items: 256, bytes: 136 },
  BF16: { id: 30, items: 1, bytes: 2 },
});

/** GGML type number of 32-bit integers, which no matrix of weights has. */
export const I32 = 26;

/** @typedef {keyof typeof GGML_TYPES} TypeName */

const VALUE_TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'bool', 'string', 'array', 'u64', 'i64', 'f64'];

const p = Buffer.prototype;
/** @type {Record<string, { bytes: number, write: (v: any, at: number) => number }>} */
const SCALARS = {
  u8: { bytes: 1, write: p.writeUInt8 },
  i8: { bytes: 1, write: p.writeInt8 },
  bool: { bytes: 1, write: p.writeUInt8 },
  u16: { bytes: 2, write: p.writeUInt16LE },
  i16: { bytes: 2, write: p.writeInt16LE },
  u32: { bytes: 4, write: p.writeUInt32LE },
  i32: { bytes: 4, write: p.writeInt32LE },
  u64: { bytes: 8, write: p.writeBigUInt64LE },
  i64: { bytes: 8, write: p.writeBigInt64LE },
  f32: { bytes: 4, write: p.writeFloatLE },
  f64: { bytes: 8, write: p.writeDoubleLE },
};
const BIG = new Set(['u64', 'i64']);

/** Returns the size of a tensor in bytes. Throws if a row is not a whole number of blocks. */
export function tensorBytes(/** @type {number} */ typeId, /** @type {number[]} */ shape) {
  const type = typeId === I32 ? GGML_TYPES.F32 : Object.values(GGML_TYPES).find((t) => t.id === typeId);
  if (!type) throw new Error(`The type ${typeId} cannot be written.`);
  if (shape[0] % type.items) throw new Error(`The row length ${shape[0]} is not a multiple of ${type.items}.`);
  return (shape.reduce((a, b) => a * b, 1) / type.items) * type.bytes;
}

class Sink {
  constructor() {
    this.buffer = Buffer.alloc(1 << 16);
    this.used = 0;
  }

  /** Reserves n more bytes and returns their offset. May replace the buffer, so call it before accessing the buffer. */
  take(/** @type {number} */ n) {
    const at = this.used;
    this.used += n;
    if (this.used > this.buffer.length) {
      const bigger = Buffer.alloc(Math.max(this.used, this.buffer.length * 2));
      this.buffer.copy(bigger, 0, 0, at);
      this.buffer = bigger;
    }
    return at;
  }

  u32(/** @type {number} */ v) {
    const at = this.take(4);
    this.buffer.writeUInt32LE(v, at);
  }

  u64(/** @type {number | bigint} */ v) {
    const at = this.take(8);
    this.buffer.writeBigUInt64LE(BigInt(v), at);
  }

  /** @param {string | Uint8Array} v raw bytes, so that names that are not UTF-8 can be written */
  string(v) {
    const bytes = typeof v === 'string' ? Buffer.from(v, 'utf8') : v;
    this.u64(bytes.length);
    const at = this.take(bytes.length);
    this.buffer.set(bytes, at);
  }

  /** @param {ScalarType} type @param {any} v */
  scalar(type, v) {
    if (type === 'string') return this.string(v);
    const { bytes, write } = SCALARS[type];
    const at = this.take(bytes);
    write.call(this.buffer, BIG.has(type) ? BigInt(v) : Number(v), at);
  }
}

/** @param {Sink} sink @param {MetadataEntry} entry */
function writeEntry(sink, entry) {
  sink.string(entry[0]);
  sink.u32(VALUE_TYPES.indexOf(entry[1]));
  if (entry[1] !== 'array') {
    sink.scalar(entry[1], entry[2]);
    return;
  }
  const values = /** @type {ArrayLike<any>} */ (entry[3]);
  sink.u32(VALUE_TYPES.indexOf(entry[2]));
  sink.u64(values.length);
  for (let i = 0; i < values.length; i++) sink.scalar(entry[2], values[i]);
}

/** Returns the header, and where each tensor's data belongs: in the order of the list, aligned to `alignment` bytes.
 * @param {MetadataEntry[]} metadata @param {TensorInfo[]} tensors
 * @param {{ version?: number, alignment?: number }} [options] @returns {GgufHeader} */
export function ggufHeader(metadata, tensors, { version = 3, alignment = 32 } = {}) {
  const up = (/** @type {number} */ n) => Math.ceil(n / alignment) * alignment;
  const sink = new Sink();
  sink.u32(0x46554747); // 'GGUF'
  sink.u32(version);
  sink.u64(tensors.length);
  sink.u64(metadata.length);
  for (const entry of metadata) writeEntry(sink, entry);
  const offsets = [];
  const sizes = [];
  let end = 0;
  for (const t of tensors) {
    const at = up(end);
    const size = tensorBytes(t.type, t.shape);
    sink.string(t.name);
    sink.u32(t.shape.length);
    for (const n of t.shape) sink.u64(n);
    sink.u32(t.type);
    sink.u64(t.offset ?? at);
    offsets.push(at);
    sizes.push(size);
    end = at + size;
  }
  sink.take(up(sink.used) - sink.used);
  const dataOffset = sink.used;
  return { bytes: sink.buffer.subarray(0, dataOffset), dataOffset, offsets, sizes, total: dataOffset + up(end) };
}

/** Writes a whole file in order. `data(i)` yields tensor i's bytes in chunks.
 * @param {string} path @param {GgufHeader} header
 * @param {(i: number) => Iterable<Uint8Array>} data */
export function writeGguf(path, header, data) {
  const fd = fs.openSync(path, 'w');
  const put = (/** @type {Uint8Array} */ bytes) => {
    for (let done = 0; done < bytes.length; ) done += fs.writeSync(fd, bytes, done);
  };
  try {
    put(header.bytes);
    let at = 0;
    header.offsets.forEach((offset, i) => {
      put(Buffer.alloc(offset - at));
      at = offset;
      for (const chunk of data(i)) {
        put(chunk);
        at += chunk.length;
      }
      if (at !== offset + header.sizes[i])
        throw new Error(`Tensor ${i} has ${at - offset} bytes instead of ${header.sizes[i]}.`);
    });
    put(Buffer.alloc(header.total - header.dataOffset - at));
  } finally {
    fs.closeSync(fd);
  }
}
