/**
 * The shipped storyteller model (Q8_0), and its weights in other files: as F32, as Q4_0, like Google's QAT files
 * (layers Q4_0, embedding F16), and with outliers, which change nothing but rounding errors. These files are made in
 * build/models/ under names that change with the shipped file and the tools.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { GGML_TYPES, tensorBytes } from '../../tools/models/gguf-write.js';
import { f16To, quantise } from '../../tools/models/quantise.js';
import { STORYTELLER, readHeader } from './models.js';
import { headerOf, metadataOf, padded } from './split.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** With the option `head`, the file has a separate output matrix, with the embedding's weights and type. The outliers
 * `output` need it, because they scale a column of the output matrix, but not of the embedding.
 * @typedef {'F32' | 'Q8_0' | 'Q4_0' | 'QAT'} FileType
 * @typedef {'norms' | 'heads' | 'hidden' | 'output'} Outliers
 * @typedef {{ outliers?: readonly Outliers[], head?: boolean, rounded?: FileType }} Options
 *   rounded: type that the weights are rounded to; the file stores the rounded weights as F32
 * @typedef {{ shape: number[], values: Float32Array, matrix: boolean }} Weight */

const Q8 = GGML_TYPES.Q8_0;
const ALIGNMENT = 32;
const FACTOR = 100;
const EMBEDDING = 'token_embd.weight';
const OUTPUT = 'output.weight';

/** Functions that dequantise one block of a type.
 * @type {Record<string, (bytes: Buffer, at: number, out: Float32Array) => void>} */
const READERS = {
  F32: (bytes, at, out) => {
    out[0] = bytes.readFloatLE(at);
  },
  F16: (bytes, at, out) => {
    out[0] = f16To(bytes.readUInt16LE(at));
  },
  Q8_0(bytes, at, out) {
    const scale = f16To(bytes.readUInt16LE(at));
    for (let k = 0; k < 32; k++) out[k] = scale * bytes.readInt8(at + 2 + k);
  },
  Q4_0(bytes, at, out) {
    const scale = f16To(bytes.readUInt16LE(at));
    for (let k = 0; k < 16; k++) {
      const two = bytes[at + 2 + k];
      out[k] = scale * ((two & 15) - 8);
      out[16 + k] = scale * ((two >> 4) - 8);
    }
  },
};

/** @param {string} type @param {Uint8Array} data */
function floatsOf(type, data) {
  const { items, bytes } = GGML_TYPES[/** @type {keyof typeof GGML_TYPES} */ (type)];
  const buffer = Buffer.from(data.buffer, data.byteOffset, data.length);
  const out = new Float32Array((data.length / bytes) * items);
  for (let b = 0; b * bytes < data.length; b++)
    READERS[type](buffer, b * bytes, out.subarray(b * items, (b + 1) * items));
  return out;
}

/** @param {Buffer} file @returns {Map<string, Weight>} */
function weightsOf(file) {
  const { dataOffset, tensors } = readHeader(file);
  return new Map(
    tensors.map(({ name, type, shape, offset }) => {
      const data = file.subarray(dataOffset + offset, dataOffset + offset + tensorBytes(type, shape));
      return [name, { shape, values: floatsOf(type === Q8.id ? 'Q8_0' : 'F32', data), matrix: type === Q8.id }];
    }),
  );
}

/** @param {Weight} weight @param {number} index @param {number} factor */
function scaleColumn({ shape: [width], values }, index, factor) {
  for (let at = index; at < values.length; at += width) values[at] *= factor;
}

/** @param {Weight} weight @param {number} index @param {number} factor */
function scaleRow({ shape: [width], values }, index, factor) {
  for (let at = index * width; at < (index + 1) * width; at++) values[at] *= factor;
}

/** Functions that add outliers of a kind to a layer (`output`: to the output head): they multiply one channel by 100,
 * and divide it by 100 where it is read. The channel differs between layers. In `heads`, both channels of a RoPE pair
 * are scaled. @type {Record<Outliers, (of: (name: string) => Weight, layer: number) => void>} */
const PUT = {
  norms(of, layer) {
    for (const [norm, readers] of [
      ['attn_norm', 'attn_q attn_k attn_v'],
      ['ffn_norm', 'ffn_gate ffn_up'],
    ]) {
      const { values } = of(norm);
      const channel = (37 * layer + 11) % values.length;
      values[channel] *= FACTOR;
      for (const reader of readers.split(' ')) scaleColumn(of(reader), channel, 1 / FACTOR);
    }
  },
  heads(of, layer) {
    const k = of('attn_k_norm').values;
    const q = of('attn_q_norm').values;
    const half = k.length / 2;
    for (const channel of [(5 * layer + 3) % half, ((5 * layer + 3) % half) + half]) {
      k[channel] *= FACTOR;
      q[channel] /= FACTOR;
    }
  },
  hidden(of, layer) {
    const channel = (53 * layer + 7) % of('ffn_down').shape[0];
    scaleRow(of('ffn_up'), channel, FACTOR);
    scaleColumn(of('ffn_down'), channel, 1 / FACTOR);
  },
  output(of) {
    const { values } = of('output_norm');
    const channel = 29 % values.length;
    values[channel] *= FACTOR;
    scaleColumn(of('output'), channel, 1 / FACTOR);
  },
};

/** @param {Map<string, Weight>} weights @param {Outliers} kind */
function putOutliers(weights, kind) {
  const layers = [...weights.keys()].filter((name) => name.endsWith('.attn_norm.weight')).length;
  for (let layer = 0; layer < (kind === 'output' ? 1 : layers); layer++) {
    PUT[kind]((name) => {
      const weight = weights.get(`${kind === 'output' ? '' : `blk.${layer}.`}${name}.weight`);
      if (!weight) throw new Error(`The storyteller has no tensor ${name}.`);
      return weight;
    }, layer);
  }
}

/** Returns a matrix's type in a file of the type `type`. As in public files, the embedding is not Q4_0.
 * @param {string} name @param {FileType} type */
function typeOf(name, type) {
  const outer = name === EMBEDDING || name === OUTPUT;
  if (type === 'QAT') return outer ? 'F16' : 'Q4_0';
  return type === 'Q4_0' && outer ? 'Q8_0' : type;
}

/** Returns the bytes of the storyteller's file in another type. @param {Buffer} file @param {FileType} type
 * @param {Options} [options] */
export function converted(file, type, { outliers = [], head = false, rounded } = {}) {
  const weights = weightsOf(file);
  const tensors = [];
  const data = [];
  const embedding = /** @type {Weight} */ (weights.get(EMBEDDING));
  if (head) weights.set(OUTPUT, { ...embedding, values: embedding.values.slice() });
  for (const kind of outliers) putOutliers(weights, kind);
  let offset = 0;
  for (const [name, { shape, values, matrix }] of weights) {
    let as = matrix ? typeOf(name, rounded ?? type) : 'F32';
    let bytes = quantise(/** @type {any} */ (as), values);
    if (rounded && matrix) [as, bytes] = ['F32', quantise('F32', floatsOf(as, bytes))];
    tensors.push({ name, shape, type: GGML_TYPES[/** @type {'F32'} */ (as)].id, offset });
    data.push(padded([bytes], ALIGNMENT));
    offset += data[data.length - 1].length;
  }
  const { entries, metadata } = metadataOf(file);
  return Buffer.concat([headerOf(entries, [metadata], tensors), ...data]);
}

/** Returns the path of a file, which is made if it does not exist. Two processes may make it at once.
 * @param {FileType} type @param {Options} [options] */
export function storyteller(type, options = {}) {
  if (type === 'Q8_0' && !Object.keys(options).length) return STORYTELLER;
  const hash = createHash('sha256')
    .update(fs.readFileSync(STORYTELLER))
    .update(fs.readFileSync(fileURLToPath(import.meta.url)));
  const key = hash
    .update(JSON.stringify([type, options]))
    .digest('hex')
    .slice(0, 12);
  const folder = path.join(ROOT, 'build', 'models');
  const out = path.join(folder, `storyteller-${type.toLowerCase()}-${key}.gguf`);
  if (fs.existsSync(out)) return out;
  fs.mkdirSync(folder, { recursive: true });
  const unfinished = `${out}.${process.pid}.tmp`;
  fs.writeFileSync(unfinished, converted(fs.readFileSync(STORYTELLER), type, options));
  fs.renameSync(unfinished, out);
  return out;
}
