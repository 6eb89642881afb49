/**
 * split: splits a GGUF file into several, as llama.cpp's gguf-split does: the first file has all metadata; each one has
 * `split.no`, `split.count`, `split.tensors.count` and a part of the tensors.
 */
import { ggufHeader } from '../../tools/models/gguf-write.js';
import { readHeader } from './models.js';

/** @typedef {{ name: string, shape: number[], type: number, offset: number }} Tensor */

/** Number of bytes before the metadata. */
const START = 24;

/** Joins the parts, and appends zeros up to a multiple of the alignment. @param {Uint8Array[]} parts
 * @param {number} alignment */
export function padded(parts, alignment) {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);
}

/** Returns the metadata of a model as bytes, and the number of its entries. @param {Buffer} bytes */
export function metadataOf(bytes) {
  const [first] = readHeader(bytes).tensors;
  const entries = Number(bytes.readBigUInt64LE(16));
  return { entries, metadata: bytes.subarray(START, first.at - 8 - Buffer.byteLength(first.name)) };
}

/** Returns a header with metadata that is encoded already, padded to 32 bytes.
 * @param {number} entries number of entries in the metadata @param {Buffer[]} metadata @param {Tensor[]} tensors */
export function headerOf(entries, metadata, tensors) {
  const { bytes } = ggufHeader([], tensors, { alignment: 1 });
  bytes.writeBigUInt64LE(BigInt(entries), 16);
  return padded([bytes.subarray(0, START), ...metadata, bytes.subarray(START)], 32);
}

/** Splits a model into `count` files with about equally many tensors each.
 * @param {Buffer} bytes  of a whole model with the usual alignment @param {number} count
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
    /** @type {import('../../tools/models/gguf-write.js').MetadataEntry[]} */
    const keys = [
      ['split.no', 'u16', part],
      ['split.count', 'u16', count],
      ['split.tensors.count', 'i32', tensors.length],
    ];
    const own = ggufHeader(keys, [], { alignment: 1 }).bytes.subarray(START);
    const header = part ? headerOf(3, [own], placed) : headerOf(3 + entries, [metadata, own], placed);
    return Buffer.concat([header, ...mine.map(({ data }) => padded([data], 32))]);
  });
}
