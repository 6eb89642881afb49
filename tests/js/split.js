/**
 * split: splits a GGUF file into several, as llama.cpp's gguf-split does: the first file has all metadata; each one has
 * `split.no`, `split.count`, `split.tensors.count` and a part of the tensors.
 */
import { readHeader } from './models.js';

const UINT16 = 2;
const INT32 = 5;

/** @typedef {{ name: string, shape: number[], type: number, offset: number }} Tensor */

/** @param {string} text */
function string(text) {
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
function number(value, bytes) {
  const out = Buffer.alloc(bytes);
  if (bytes === 4) out.writeUInt32LE(value);
  else out.writeBigUInt64LE(BigInt(value));
  return out;
}

/** @param {Uint8Array[]} parts @param {number} alignment */
export function padded(parts, alignment) {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);
}

/** Returns the metadata of a model as bytes, and the number of its entries. @param {Buffer} bytes */
export function metadataOf(bytes) {
  const [first] = readHeader(bytes).tensors;
  const entries = Number(bytes.readBigUInt64LE(16));
  return { entries, metadata: bytes.subarray(24, first.at - 8 - Buffer.byteLength(first.name)) };
}

/** @param {number} entries number of entries in the metadata @param {Buffer[]} metadata @param {Tensor[]} tensors */
export function headerOf(entries, metadata, tensors) {
  const infos = tensors.flatMap(({ name, shape, type, offset }) => [
    string(name),
    number(shape.length, 4),
    ...shape.map((n) => number(n, 8)),
    number(type, 4),
    number(offset, 8),
  ]);
  const counts = [Buffer.from('GGUF'), number(3, 4), number(tensors.length, 8), number(entries, 8)];
  return padded([...counts, ...metadata, ...infos], 32);
}

/** @param {Buffer} bytes  of a whole model with the usual alignment @param {number} count
 * @returns {Buffer<ArrayBuffer>[]} */
export function splitModel(bytes, count) {
  const { dataOffset, tensors } = readHeader(bytes);
  const { entries, metadata } = metadataOf(bytes);
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
    const placed = mine.map((tensor) => {
      const at = offset;
      offset += Math.ceil(tensor.data.length / 32) * 32;
      return { ...tensor, offset: at };
    });
    const keys = [
      entry('split.no', UINT16, part),
      entry('split.count', UINT16, count),
      entry('split.tensors.count', INT32, tensors.length),
    ];
    const header = part ? headerOf(3, keys, placed) : headerOf(3 + entries, [metadata, ...keys], placed);
    return Buffer.concat([header, ...mine.map(({ data }) => padded([data], 32))]);
  });
}
