#!/usr/bin/env node
/**
 * Makes GGUF files of any architecture (architectures.js) and size with seeded random weights, for tests and
 * benchmarks. Keys, names, shapes and order are those of llama.cpp's converters (F32, F16, BF16) and of its quantiser
 * (all other types). Streams to disk, so memory is bounded. The same spec gives the same bytes, because arithmetic is
 * exact (no Math.log, no Math.cos).
 *
 *   node tools/models/make-model.js OUT.gguf --preset 1b --type Q4_0 --vocab gemma3
 *   node tools/models/make-model.js OUT.gguf --layers 14 --d-model 192 --vocab 320 --type F32 --seed 7
 *   node tools/models/make-model.js OUT.gguf --architecture llama --tokenizer smollm --own-output --outliers 50
 *
 * Matrices have variance 1/fan_in (see sizeOf()), logits a standard deviation near 3. The weights of a norm are
 * c (1 + w), with a constant c and random |w| <= 0.3, so that omitting, swapping or repeating a norm changes results
 * visibly. Embedding rows of control tokens are nearly 0, so that greedy text never ends.
 *
 * @typedef {import('./gguf-write.js').TypeName} TypeName
 * @typedef {import('./gguf-write.js').MetadataEntry} MetadataEntry
 * @typedef {import('./architectures.js').ModelSpec} ModelSpec
 * @typedef {import('./vocab.js').Vocabulary} Vocabulary
 */
import { parseArgs } from 'node:util';
import { pathToFileURL } from 'node:url';
import { ARCHITECTURES, architectureKeys, architectureTensors, ropeFactors, sizeOf } from './architectures.js';
import { tokenizerKeys, vocabularyOf } from './bpe-vocab.js';
import { chatTemplateOf } from './chat-templates.js';
import { GGML_TYPES, I32, ggufHeader, writeGguf } from './gguf-write.js';
import { FORMATS } from './quantise-formats.js';
import { f16Of, quantise } from './quantise.js';

/** Settings that make greedy choices of random weights unambiguous. */
const CLEAR = { loud: 128, branch: 0.7 };

/** Settings common to Gemma 4 E2B and E4B, with the types of Google's Q4_0 files. */
const GEMMA4 = /** @type {const} */ ({
  heads: 8,
  headDim: 512,
  headDimLocal: 256,
  window: 512,
  perLayer: 256,
  turning: 64,
  context: 131072,
  vocab: 'gemma3',
  tokenizer: 'gemma4',
  type: 'Q4_0',
  embeddingType: 'Q6_K',
  direct: true,
  ...CLEAR,
});

/** @type {Readonly<Record<string, ModelSpec>>} */
export const PRESETS = Object.freeze({
  '1b': {
    name: 'Gemma 3 1B shape, random weights',
    layers: 26,
    dModel: 1152,
    ffn: 6912,
    heads: 4,
    kvHeads: 1,
    headDim: 256,
    window: 512,
    context: 32768,
    vocab: 'gemma3',
    direct: true,
  },
  '270m': {
    name: 'Gemma 3 270M shape, random weights',
    layers: 18,
    dModel: 640,
    ffn: 2048,
    heads: 4,
    kvHeads: 1,
    headDim: 256,
    window: 512,
    context: 32768,
    vocab: 'gemma3',
    direct: true,
  },
  'embedding-300m': {
    architecture: 'gemma-embedding',
    name: 'EmbeddingGemma 300M shape, random weights',
    layers: 24,
    dModel: 768,
    ffn: 1152,
    heads: 3,
    kvHeads: 1,
    headDim: 256,
    window: 512,
    context: 2048,
    dense: 3072,
    vocab: 'gemma3',
    type: 'Q8_0',
    direct: true,
  },
  'gemma-2b': {
    architecture: 'gemma',
    name: 'Gemma 1 2B shape, random weights',
    layers: 18,
    dModel: 2048,
    ffn: 16384,
    heads: 8,
    kvHeads: 1,
    headDim: 256,
    context: 8192,
    vocab: 256000,
    type: 'Q4_0',
    direct: true,
    ...CLEAR,
  },
  'gemma2-2b': {
    architecture: 'gemma2',
    name: 'Gemma 2 2B shape, random weights',
    layers: 26,
    dModel: 2304,
    ffn: 9216,
    heads: 8,
    kvHeads: 4,
    headDim: 256,
    window: 4096,
    context: 8192,
    vocab: 256000,
    type: 'Q4_0',
    direct: true,
    ...CLEAR,
  },
  'gemma4-e2b': {
    architecture: 'gemma4',
    name: 'Gemma 4 E2B shape, random weights',
    layers: 35,
    dModel: 1536,
    ffn: Array.from({ length: 35 }, (_, i) => (i < 15 ? 6144 : 12288)),
    kvHeads: 1,
    pattern: Array.from({ length: 35 }, (_, i) => i % 5 !== 4),
    sharedLayers: 20,
    ...GEMMA4,
  },
  'gemma4-e4b': {
    architecture: 'gemma4',
    name: 'Gemma 4 E4B shape, random weights',
    layers: 42,
    dModel: 2560,
    ffn: 10240,
    kvHeads: 2,
    pattern: Array.from({ length: 42 }, (_, i) => i % 6 !== 5),
    sharedLayers: 18,
    ...GEMMA4,
  },
  'gpt2-124m': {
    architecture: 'gpt2',
    name: 'GPT-2 124M shape, random weights',
    layers: 12,
    dModel: 768,
    ffn: 3072,
    heads: 12,
    context: 1024,
    vocab: 50257,
    type: 'F16',
    direct: true,
    ...CLEAR,
  },
  'llama-1b': {
    architecture: 'llama',
    name: 'Llama 3.2 1B shape, random weights',
    layers: 16,
    dModel: 2048,
    ffn: 8192,
    heads: 32,
    kvHeads: 8,
    headDim: 64,
    context: 131072,
    ropeBase: 5e5,
    vocab: 128256,
    type: 'Q4_0',
    direct: true,
    ropeScaling: { factor: 32, low: 1, high: 4, context: 8192 },
    ...CLEAR,
  },
  'qwen3-0.6b': {
    architecture: 'qwen3',
    name: 'Qwen3 0.6B shape, random weights',
    layers: 28,
    dModel: 1024,
    ffn: 3072,
    heads: 16,
    kvHeads: 8,
    headDim: 128,
    context: 40960,
    vocab: 151936,
    type: 'Q4_0',
    direct: true,
    ...CLEAR,
  },
  'smollm2-135m': {
    architecture: 'llama',
    name: 'SmolLM2 135M shape, random weights',
    layers: 30,
    dModel: 576,
    ffn: 1536,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    context: 8192,
    ropeBase: 1e5,
    vocab: 49152,
    tokenizer: 'smollm',
    type: 'F16',
    direct: true,
    ...CLEAR,
  },
});

const DEFAULTS = {
  architecture: /** @type {const} */ ('gemma3'),
  seed: 1,
  layers: 7,
  dModel: 128,
  ffn: 256,
  heads: 4,
  kvHeads: 1,
  headDim: 32,
  context: 2048,
  vocab: 1024,
  version: 3,
  alignment: 32,
  type: /** @type {TypeName} */ ('F32'),
  types: /** @type {Record<string, TypeName>} */ ({}),
  quiet: /** @type {const} */ ('control'),
};

/** @param {ModelSpec} spec */
function complete(spec) {
  const architecture = spec.architecture ?? DEFAULTS.architecture;
  const row = ARCHITECTURES[architecture];
  if (!row)
    throw new Error(
      `Unknown architecture ${architecture}. The architectures are ${Object.keys(ARCHITECTURES).join(', ')}.`,
    );
  const s = { ...DEFAULTS, name: `random ${architecture}`, tokenizer: row.tokenizer, ...row.defaults, ...spec };
  // GPT-2's files lack the numbers of KV heads and the size of heads, which follow from other values.
  return row.learned ? { ...s, kvHeads: s.heads, headDim: s.dModel / s.heads } : s;
}

/** @typedef {ReturnType<typeof complete>} FullSpec */

const FILE_TYPES = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q8_0: 7,
  Q5_0: 8,
  Q5_1: 9,
  Q2_K: 10,
  Q3_K: 12,
  Q4_K: 15,
  Q5_K: 17,
  Q6_K: 18,
  IQ4_NL: 25,
  IQ4_XS: 30,
  BF16: 32,
};

/** @param {FullSpec} s @param {Vocabulary} vocab @returns {MetadataEntry[]} */
function metadataOf(s, vocab) {
  /** @type {MetadataEntry[]} */
  const list = [
    ['general.architecture', 'string', s.architecture],
    ['general.type', 'string', 'model'],
    ['general.name', 'string', s.name],
    ...architectureKeys({ ...s, vocabSize: vocab.pieces.length, denseIn: s.dense && s.dModel }),
  ];
  if (s.alignment !== 32) list.push(['general.alignment', 'u32', s.alignment]);
  list.push(...tokenizerKeys(vocab));
  const template = s.chatTemplate === undefined ? chatTemplateOf(s.architecture, s.tokenizer) : s.chatTemplate;
  if (template !== null) list.push(['tokenizer.chat_template', 'string', template]);
  list.push(['general.quantization_version', 'u32', 2], ['general.file_type', 'u32', FILE_TYPES[s.type]]);
  return list;
}

/** Returns the type of the embedding and of a separate output matrix, as llama.cpp's quantiser chooses it.
 * @param {FullSpec} s @returns {TypeName} */
function embeddingTypeOf(s) {
  if (s.embeddingType || s.type !== 'Q4_0') return s.embeddingType ?? s.type;
  return s.architecture !== 'gemma3' && s.dModel % 256 === 0 ? 'Q6_K' : 'Q8_0';
}

/** @param {FullSpec} s @param {number} vocabSize */
function tensorsOf(s, vocabSize) {
  const embedding = embeddingTypeOf(s);
  const sorted = !['F32', 'F16', 'BF16'].includes(s.type);
  return architectureTensors(s, vocabSize, sorted).map((part) => {
    const { prefix, group, suffix, shape } = part;
    const plain = shape.length === 1 || group === 'position_embd';
    const projects = group === 'per_layer_model_proj' && !['F32', 'F16', 'BF16'].includes(s.type);
    const chosen = suffix === 'weight' ? s.types[group] : undefined;
    const embeds = ['token_embd', 'output', 'per_layer_token_embd'].includes(group);
    const typeName = chosen ?? (plain ? 'F32' : projects ? 'F16' : embeds ? embedding : s.type);
    const type = group === 'masked_embd_ordering' ? I32 : GGML_TYPES[typeName].id;
    return { ...part, name: `${prefix}${group}${suffix && '.'}${suffix}`, type, typeName };
  });
}

/** Returns a function that fills arrays with 32-bit random numbers: sfc32 (Chris Doty-Humphrey's PractRand), seeded by
 * the seed and FNV-1a of the name.
 * @param {number} seed @param {string} name @returns {(out: Uint32Array) => void} */
function randomStream(seed, name) {
  let a = 0x811c9dc5 ^ seed;
  let b = seed | 0;
  let c = 0x9e3779b9 | 0;
  let count = 1;
  for (let i = 0; i < name.length; i++) a = Math.imul(a ^ name.charCodeAt(i), 0x01000193);
  const fill = (/** @type {Uint32Array} */ out) => {
    for (let i = 0; i < out.length; i++) {
      const r = (a + b + count) | 0;
      count = (count + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + r) | 0;
      out[i] = r;
    }
  };
  fill(new Uint32Array(16));
  return fill;
}

/** Returns n values with mean 0 and this standard deviation: sums of eight random bytes, which are nearly normal.
 * @param {(out: Uint32Array) => void} random @param {number} n @param {number} deviation */
function bellFloats(random, n, deviation) {
  const words = new Uint32Array(2 * n);
  const bytes = new Uint8Array(words.buffer);
  const out = new Float32Array(n);
  random(words);
  const scale = deviation / Math.sqrt((8 * (65536 - 1)) / 12);
  for (let i = 0, j = 0; i < n; i++) {
    let sum = -1020;
    for (let k = 0; k < 8; k++) sum += bytes[j++];
    // The sum of bytes is an integer. A random fraction keeps the low bits of the floats from being 0.
    out[i] = (sum + (words[2 * i] & 0xff00) / 65536 - 0.5) * scale;
  }
  return out;
}

/** @param {(out: Uint32Array) => void} random @param {number} n @param {number} centre */
function normFloats(random, n, centre) {
  const words = new Uint32Array(n);
  random(words);
  return Float32Array.from(words, (u) => centre * (1 + 0.3 * (u / 2147483648 - 1)));
}

/** Returns a function that makes blocks of n values with random quants and sub-scales. f16 scales of both signs roughly
 * give the standard deviation. If the format has mins, they make the mean about 0.
 * @param {import('./quantise-formats.js').Format} f @param {(size: number) => Uint8Array} raw
 * @param {number} deviation @returns {(n: number) => Uint8Array} */
function directFormat(f, raw, deviation) {
  const codes = f.table ? 68 : 2 ** f.bits / 3.46;
  const middle = (2 ** f.bits - 1) / 2;
  const d = deviation / codes / (f.most ? f.most * 0.577 : 1);
  const first = f.half ?? 0;
  const both = f.offset === undefined;
  return (n) => {
    const out = raw((n / f.items) * f.bytes);
    const view = new DataView(out.buffer, out.byteOffset, out.length);
    for (let at = 0; at < out.length; at += f.bytes) {
      const scale = (out[at] & 1 ? -d : d) * (0.7 + 0.6 * (out[at] / 255));
      view.setUint16(at + first, f16Of(scale), true);
      if (both) view.setUint16(at + first + 2, f16Of(f.mostMin ? scale * middle : -scale * middle), true);
    }
    return out;
  };
}

/** Returns a function that makes n values of a type as random blocks, without intermediate floats.
 * @param {(out: Uint32Array) => void} random @param {TypeName} type @param {number} deviation
 * @returns {(n: number) => Uint8Array} */
function directBlocks(random, type, deviation) {
  const { items, bytes } = GGML_TYPES[type];
  const raw = (/** @type {number} */ size) => {
    const words = new Uint32Array(Math.ceil(size / 4));
    random(words);
    return new Uint8Array(words.buffer, 0, size);
  };
  if (items === 1) {
    const table = quantise(type, bellFloats(random, 65536, deviation));
    const values = bytes === 4 ? new Uint32Array(table.buffer) : new Uint16Array(table.buffer);
    return (n) => {
      const picks = new Uint16Array(raw(2 * n).buffer, 0, n);
      const out = bytes === 4 ? new Uint32Array(n) : new Uint16Array(n);
      for (let i = 0; i < n; i++) out[i] = values[picks[i]];
      return new Uint8Array(out.buffer);
    };
  }
  if (type in FORMATS) return directFormat(FORMATS[type], raw, deviation);
  // Uniform quants in -8..7 have the standard deviation 4.61, in -127..127 73.6. Scales of both signs make the mean 0.
  const step = deviation / (type === 'Q4_0' ? 4.61 : 73.6);
  const scales = Uint16Array.from({ length: 256 }, (_, i) => f16Of((i & 1 ? -1 : 1) * step * (0.7 + 0.6 * (i / 255))));
  return (n) => {
    const out = raw((n / items) * bytes);
    for (let at = 0; at < out.length; at += bytes) {
      const d = scales[out[at]];
      out[at] = d & 255;
      out[at + 1] = d >> 8;
      if (type === 'Q8_0') for (let i = at + 2; i < at + bytes; i++) if (out[i] === 128) out[i] = 127;
    }
    return out;
  };
}

const CHUNK = 1 << 18; // number of values per chunk of a tensor

/** @typedef {ReturnType<typeof tensorsOf>[0]} Tensor */

/** @param {Tensor} tensor @param {FullSpec} s */
function vectorOf({ name, group, suffix, shape, ...rest }, s) {
  const random = randomStream(s.seed, name);
  const size = sizeOf({ ...rest, group, suffix, shape }, s);
  const n = shape[0];
  if (s.turning && group === 'rope_freqs')
    return Float32Array.from({ length: n }, (_, i) => (i < /** @type {number} */ (s.turning) ? 1 : 1e30));
  if (/^rope_factors/.test(group))
    return Float32Array.from({ length: n }, (_, i) => 1 + i / (group === 'rope_factors_long' ? 3 : 40));
  if (s.ropeScaling && group === 'rope_freqs') return ropeFactors(s.headDim, s.ropeBase ?? 1e4, s.ropeScaling);
  if (group === 'masked_embd_ordering') return shuffled(random, n);
  if (suffix === 'bias') return bellFloats(random, n, size);
  const weights = normFloats(random, n, size);
  const chosen = s.outlierNorms ? s.outlierNorms.includes(group) : group !== 'attn_q_norm';
  if (s.outliers && chosen) stretch(weights, s.outliers, randomStream(s.seed, `${name}:outliers`));
  if (s.loud && group === 'output_norm') flip(weights, randomStream(s.seed, `${name}:signs`));
  return weights;
}

/** Returns the integers 0 … n - 1 in random order, as the bytes of 32-bit integers.
 * @param {(out: Uint32Array) => void} random @param {number} n */
function shuffled(random, n) {
  const draws = new Uint32Array(n);
  random(draws);
  const ids = Int32Array.from(draws.keys()).sort((a, b) => draws[a] - draws[b]);
  return new Float32Array(ids.buffer);
}

/** Makes outliers: multiplies one channel in a hundred, at least one, by 0.4 to 1 times the factor.
 * @param {Float32Array} weights @param {number} factor @param {(out: Uint32Array) => void} random */
function stretch(weights, factor, random) {
  const draws = new Uint32Array(2 * Math.max(1, Math.round(weights.length / 100)));
  random(draws);
  for (let i = 0; i < draws.length; i += 2) {
    weights[draws[i] % weights.length] *= i ? factor * (0.4 + 0.6 * (draws[i + 1] / 4294967296)) : factor;
  }
}

/** @param {Float32Array} weights @param {(out: Uint32Array) => void} random */
function flip(weights, random) {
  const draws = new Uint32Array(weights.length);
  random(draws);
  for (let i = 0; i < draws.length; i++) if (draws[i] & 1) weights[i] = -weights[i];
}

/** @param {Tensor} tensor @param {FullSpec} s @param {Map<number, number>} rows see specialRows()
 * @returns {Generator<Uint8Array>} */
function* tensorData(tensor, s, rows) {
  const { name, shape, group, typeName } = tensor;
  const { seed, direct = false } = s;
  if (shape.length === 1) {
    yield quantise(typeName, vectorOf(tensor, s));
    return;
  }
  const random = randomStream(seed, name);
  const row = shape[0];
  const size = sizeOf(tensor, s) * (/^(attn_output|ffn_down)$/.test(group) ? (s.branch ?? 1) : 1);
  const blocks = direct
    ? directBlocks(random, typeName, size)
    : (/** @type {number} */ n) => quantise(typeName, bellFloats(random, n, size));
  const rowBytes = (row / GGML_TYPES[typeName].items) * GGML_TYPES[typeName].bytes;
  const step = Math.max(1, Math.floor(CHUNK / row));
  const special = group === 'token_embd' || group === 'output';
  for (let r = 0; r < shape[1]; r += step) {
    const count = Math.min(step, shape[1] - r);
    const chunk = blocks(count * row);
    for (let i = 0; special && i < count; i++) {
      const divisor = rows.get(r + i);
      if (divisor === undefined) continue;
      const again = randomStream(seed, `${name}:${r + i}`);
      chunk.set(quantise(typeName, bellFloats(again, row, size / divisor)), i * rowBytes);
    }
    yield chunk;
  }
}

/** Returns the embedding rows of unusual length, each with the divisor of its length: short rows of tokens that must
 * not be chosen (control, unknown and unused ones), long rows of tokens that should be. @param {FullSpec} s
 * @param {Vocabulary} vocab @returns {Map<number, number>} */
function specialRows({ quiet, seed, loud = 0 }, { types }) {
  /** @type {Map<number, number>} */
  const rows = new Map();
  const draws = new Uint32Array(4 * loud);
  if (quiet !== 'control') for (const id of quiet) rows.set(id, 20);
  else for (let i = 0; i < types.length; i++) if ([2, 3, 5].includes(types[i])) rows.set(i, 20);
  randomStream(seed, 'loud rows')(draws);
  for (let i = 0, made = 0; made < loud && i < draws.length; i++) {
    const id = draws[i] % types.length;
    if (rows.has(id) || types[id] !== 1) continue;
    rows.set(id, 1 / 2 ** (1 + (made++ % 4)));
  }
  return rows;
}

/** Returns the header of a spec's file, with the completed spec, vocabulary and tensors. Writes nothing.
 * @param {ModelSpec} spec */
export function headerOf(spec) {
  const s = complete(spec);
  const vocab = { ...vocabularyOf(s.tokenizer, s.vocab, s.seed), ...(s.pooling && { addEos: true }) };
  const tensors = tensorsOf(s, vocab.pieces.length);
  const file = { metadata: metadataOf(s, vocab), tensors };
  s.edit?.(file);
  return { s, vocab, tensors, file, header: ggufHeader(file.metadata, file.tensors, s) };
}

/** Writes the file of a spec. Returns its size, the offset of its tensor data, and its number of weights.
 * @param {ModelSpec} spec @param {string} path
 * @returns {Promise<{ bytes: number, dataOffset: number, parameters: number, vocab: Vocabulary }>} */
export async function makeModel(spec, path) {
  const { s, vocab, tensors, file, header } = headerOf(spec);
  const rows = specialRows(s, vocab);
  writeGguf(path, header, (i) => tensorData(file.tensors[i], s, rows));
  const parameters = tensors.reduce((sum, t) => sum + t.shape.reduce((a, b) => a * b, 1), 0);
  return { bytes: header.total, dataOffset: header.dataOffset, parameters, vocab };
}

const NUMBERS = /** @type {const} */ ([
  'seed',
  'layers',
  'd-model',
  'ffn',
  'heads',
  'kv-heads',
  'head-dim',
  'window',
  'context',
  'eps',
  'rope-base',
  'rope-base-swa',
  'pattern',
  'attention-cap',
  'final-cap',
  'outliers',
  'branch',
  'loud',
  'dense',
  'version',
  'alignment',
]);

/** @param {string} text @returns {TypeName} */
function typeNamed(text) {
  if (!(text in GGML_TYPES))
    throw new Error(`Unknown type ${text}. The types are ${Object.keys(GGML_TYPES).join(', ')}.`);
  return /** @type {TypeName} */ (text);
}

const USAGE = `usage: make-model.js OUT.gguf [--preset ${Object.keys(PRESETS).join('|')}]
  [--architecture ${Object.keys(ARCHITECTURES).join('|')}]
  [--tokenizer gemma|gemma4|llama|gpt-2|gpt-4o|llama-bpe|smaug-bpe|dbrx|smollm|qwen2]
  [--type T] [--embedding-type T] [--group-type attn_v=Q8_0]... [--vocab N|gemma3] [--name TEXT] [--direct]
  [--own-output] [--attention-bias] [--${NUMBERS.join(' N] [--')} N]`;

/** @param {string[]} args @returns {{ path: string, spec: ModelSpec }} */
function readArguments(args) {
  const text = { type: /** @type {const} */ ('string') };
  const flag = { type: /** @type {const} */ ('boolean') };
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      ...Object.fromEntries(NUMBERS.map((n) => [n, text])),
      preset: text,
      name: text,
      vocab: text,
      type: text,
      architecture: text,
      tokenizer: text,
      'embedding-type': text,
      'group-type': { ...text, multiple: true },
      direct: flag,
      'own-output': flag,
      'attention-bias': flag,
    },
  });
  const v = /** @type {Record<string, any>} */ (values);
  if (positionals.length !== 1) throw new Error(USAGE);
  if (v.preset && !(v.preset in PRESETS)) throw new Error(`Unknown preset ${v.preset}.\n${USAGE}`);
  /** @type {Record<string, any>} */
  const spec = { ...PRESETS[v.preset] };
  for (const key of NUMBERS) {
    if (v[key] === undefined) continue;
    const camel = key.replace(/-(.)/g, (_, c) => c.toUpperCase());
    spec[camel] = Number(v[key]);
    if (!Number.isFinite(spec[camel])) throw new Error(`--${key} must be a number (got ${v[key]}).`);
  }
  for (const key of ['name', 'architecture', 'tokenizer', 'direct']) if (v[key]) spec[key] = v[key];
  if (v['own-output']) spec.ownOutput = true;
  if (v['attention-bias']) spec.attentionBias = true;
  if (v.vocab) spec.vocab = v.vocab === 'gemma3' ? 'gemma3' : Number(v.vocab);
  if (v.type) spec.type = typeNamed(v.type);
  if (v['embedding-type']) spec.embeddingType = typeNamed(v['embedding-type']);
  spec.types = Object.fromEntries(
    (v['group-type'] ?? []).map((/** @type {string} */ pair) => {
      const [group, type] = pair.split('=');
      return [group, typeNamed(type)];
    }),
  );
  return { path: positionals[0], spec };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const { path, spec } = readArguments(process.argv.slice(2));
    const made = await makeModel(spec, path);
    console.log(`${path}: ${made.bytes} bytes, ${made.parameters} parameters`);
  } catch (error) {
    console.error(/** @type {Error} */ (error).message);
    process.exitCode = 2;
  }
}
