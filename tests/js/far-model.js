/* far-model: models with tensors beyond 4 GiB, as sparse files: a large unknown tensor, which the engine skips, comes
 * first. */
import { open } from 'node:fs/promises';
import { readHeader } from './models.js';
import { headerOf, metadataOf } from './split.js';

/** Number of bytes of the unknown tensor. The next tensor begins 64 KiB below 4 GiB, so that a tensor crosses 4 GiB. */
export const GAP = 2 ** 32 - 2 ** 16;

const F32 = 0;

/** Returns a model's header with a large unknown tensor as its first, and the data of the model's own tensors.
 * @param {Buffer} bytes of a model with the usual alignment */
export function farModel(bytes) {
  const { dataOffset, tensors } = readHeader(bytes);
  const { entries, metadata } = metadataOf(bytes);
  const all = [{ name: 'unknown.weight', shape: [GAP / 4], type: F32, offset: 0 }];
  for (const { offset, ...tensor } of tensors) all.push({ ...tensor, offset: offset + GAP });
  const header = headerOf(entries, [metadata], all);
  const data = bytes.subarray(dataOffset);
  return { header, data, start: header.length + GAP, total: header.length + GAP + data.length };
}

/** Writes the file of farModel() as a sparse file. @param {string} path @param {ReturnType<typeof farModel>} model */
export async function writeFar(path, { header, data, start }) {
  const file = await open(path, 'w');
  await file.write(header, 0, header.length, 0);
  await file.write(data, 0, data.length, start);
  await file.close();
}
