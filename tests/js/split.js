/**
 * split: splits a GGUF file into several, as llama.cpp's gguf-split does: the first file has all metadata; each one has
 * `split.no`, `split.count`, `split.tensors.count` and a part of the tensors.
 */
import { readHeader } from './models.js';

const UINT16 = 2;
const INT32 = 5;

/** @param {string} text */
export function string(text) {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(bytes.length));
  return Buffer.concat([length, bytes]);
}

/** @param {string} key @param {number} type @param {number} value */
function entry(key, type, value) {
  const bytes = Buffer.alloc(4 + (type === UINT16 ? 2 : 4));
  bytes.writeUInt32LE(type);
  bytes.writeUIntLE(value, 4, bytes.length - 4);
  return Buffer.concat([string(key), bytes]);
}

/** @param {number} value @param {number} bytes */
export function number(value, bytes) {
  const out = Buffer.alloc(bytes);
  if (bytes === 4) out.writeUInt32LE(value);
  else out.writeBigUInt64LE(BigInt(value));
  return out;
}

/** @param {Buffer[]} parts @param {number} alignment */
export function padded(parts, alignment) {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);
}

/** @param {Buffer} bytes  of a whole model with the usual alignment @param {number} count
 * @returns {Buffer<ArrayBuffer>[]} */
export function splitModel(bytes, count) {
  const { dataOffset, tensors } = readHeader(bytes);
  const metadata = bytes.subarray(24, tensors[0].at - 8 - Buffer.byteLength(tensors[0].name));
  const entries = Number(bytes.readBigUInt64LE(16));
  const ordered = [...tensors].sort((a, b) => a.offset - b.offset);
  const sized = ordered.map((tensor, i) => ({
    ...tensor,
    data: bytes.subarray(
      dataOffset + tensor.offset,
      dataOffset + (ordered[i + 1]?.offset ?? bytes.length - dataOffset),
    ),
  }));
  return Array.from({ length: count }, (_, part) => {
    const mine = sized.slice(
      Math.floor((part * sized.length) / count),
      Math.floor(((part + 1) * sized.length) / count),
    );
    let offset = 0;
    const infos = mine.map(({ name, shape, type, data }) => {
      const info = [
        string(name),
        number(shape.length, 4),
        ...shape.map((n) => number(n, 8)),
        number(type, 4),
        number(offset, 8),
      ];
      offset += Math.ceil(data.length / 32) * 32;
      return Buffer.concat(info);
    });
    const keys = [
      entry('split.no', UINT16, part),
      entry('split.count', UINT16, count),
      entry('split.tensors.count', INT32, tensors.length),
    ];
    const head = [Buffer.from('GGUF'), number(3, 4), number(mine.length, 8), number(3 + (part ? 0 : entries), 8)];
    return Buffer.concat([
      padded([...head, ...(part ? [] : [metadata]), ...keys, ...infos], 32),
      ...mine.map(({ data }) => padded([data], 32)),
    ]);
  });
}
