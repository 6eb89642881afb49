/**
 * The storyteller that is shipped (Q8_0), and the same weights as F32 and as Q4_0: made of it in
 * build/models/, under a name that changes with it, so that they need not be committed.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { GGML_TYPES, tensorBytes } from '../../tools/gguf-write.js';
import { f16To, quantise } from '../../tools/quantise.js';
import { readHeader } from './models.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const SHIPPED = path.join(ROOT, 'models', 'storyteller', 'storyteller.gguf');

const Q8 = GGML_TYPES.Q8_0, ALIGNMENT = 32;

/** Blocks of a scale (f16) and 32 signed bytes. @param {Buffer} bytes */
function floatsOf(bytes) {
  const out = new Float32Array(bytes.length / Q8.bytes * Q8.items);
  for (let at = 0, i = 0; at < bytes.length; at += Q8.bytes) {
    const scale = f16To(bytes.readUInt16LE(at));
    for (let k = 0; k < Q8.items; k++) out[i++] = scale * bytes.readInt8(at + 2 + k);
  }
  return out;
}

/** The file with its matrices in another type; as in public files, Q4_0 leaves the embedding alone.
 * @param {Buffer} file @param {'F32' | 'Q4_0'} type */
export function converted(file, type) {
  const { dataOffset, tensors } = readHeader(file);
  const header = Buffer.from(file.subarray(0, dataOffset)), data = [];
  let offset = 0;
  for (const t of tensors) {
    const from = dataOffset + t.offset;
    let bytes = file.subarray(from, from + tensorBytes(t.type, t.shape)), id = t.type;
    if (id === Q8.id && !(type === 'Q4_0' && t.name === 'token_embd.weight')) {
      bytes = Buffer.from(quantise(type, floatsOf(bytes)));
      id = GGML_TYPES[type].id;
    }
    const behind = t.at + 4 + 8 * t.shape.length;
    header.writeUInt32LE(id, behind);
    header.writeBigUInt64LE(BigInt(offset), behind + 4);
    const padding = Buffer.alloc((ALIGNMENT - bytes.length % ALIGNMENT) % ALIGNMENT);
    data.push(bytes, padding);
    offset += bytes.length + padding.length;
  }
  return Buffer.concat([header, ...data]);
}

/** Path of the storyteller in a type. @param {'Q8_0' | 'F32' | 'Q4_0'} type */
export function storyteller(type) {
  if (type === 'Q8_0') return SHIPPED;
  const file = fs.readFileSync(SHIPPED), key = createHash('sha256').update(file).digest('hex').slice(0, 12);
  const folder = path.join(ROOT, 'build', 'models');
  const out = path.join(folder, `storyteller-${type.toLowerCase()}-${key}.gguf`);
  if (fs.existsSync(out)) return out;
  fs.mkdirSync(folder, { recursive: true });
  const unfinished = `${out}.${process.pid}.tmp`;
  fs.writeFileSync(unfinished, converted(file, type));
  fs.renameSync(unfinished, out);
  return out;
}
