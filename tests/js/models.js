/**
 * The test models: made by tools/models/make-model.js on first use and kept in build/models/ under a name that changes
 * with the spec and the tool, so that none is ever stale. Two processes may make the same model at once: each writes
 * its own file and renames it. Also damaged files, each with the error codes that it may cause.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { tensorBytes } from '../../tools/models/gguf-write.js';
import { PRESETS, makeModel } from '../../tools/models/make-model.js';
import { randomGemma4 } from '../../tools/models/random-gemma4.js';
import * as templates from './tool-templates.js';

/** @typedef {import('../../tools/models/make-model.js').ModelSpec} ModelSpec */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIRECTORY = path.join(ROOT, 'build', 'models');
/** Path of the shipped model. */
export const STORYTELLER = path.join(ROOT, 'models', 'storyteller', 'storyteller.gguf');

/** Models with two global layers (5 and 11), an attention window shorter than the prompts, and a head_dim unequal to
 * d_model / heads. Files of every weight type have the same floats. Embeddings of control tokens are not smaller
 * than others (`quiet`), so the weights do not depend on the vocabulary. @type {ModelSpec} */
const PARITY = {
  seed: 20250312,
  layers: 14,
  dModel: 192,
  ffn: 384,
  heads: 4,
  kvHeads: 2,
  headDim: 64,
  window: 32,
  context: 512,
  vocab: 320,
  quiet: [],
};

/** Models with a single KV head as wide as in real models, and with all metadata keys about layers and positions that
 * newer converters write. @type {ModelSpec} */
const MQA = {
  seed: 77,
  layers: 7,
  dModel: 160,
  ffn: 416,
  heads: 4,
  kvHeads: 1,
  headDim: 256,
  window: 24,
  pattern: 3,
  ropeBase: 500000,
  ropeBaseSwa: 5000,
  context: 256,
  vocab: 320,
  quiet: [],
};

/** Models whose matrices have rows of whole super-blocks only where a 1B model has them (attn_output, ffn_down), so
 * that llama.cpp's quantiser would choose the same types. @type {ModelSpec} */
const MIX = {
  seed: 4242,
  layers: 7,
  dModel: 192,
  ffn: 512,
  heads: 4,
  kvHeads: 2,
  headDim: 64,
  window: 32,
  context: 256,
  vocab: 320,
  quiet: [],
  embeddingType: 'Q8_0',
};

/** @type {ModelSpec} */
const TINY = {
  seed: 3,
  layers: 6,
  dModel: 64,
  ffn: 128,
  heads: 4,
  kvHeads: 1,
  headDim: 32,
  window: 16,
  context: 512,
  vocab: 1024,
};

/** Base of the models of every architecture: heads wider than d_model / heads (if the architecture allows this),
 * grouped queries, rows of whole super-blocks. The model of Gemma 2 has a window shorter than the prompts, and soft
 * caps that scores and logits reach. The model of Llama has RoPE frequency factors and a separate output matrix.
 * @type {ModelSpec} */
const FAMILY = {
  seed: 90125,
  layers: 4,
  dModel: 256,
  ffn: 512,
  heads: 4,
  kvHeads: 2,
  headDim: 128,
  context: 256,
  vocab: 320,
  quiet: [],
};

/** @type {Record<string, ModelSpec>} */
const FAMILIES = {
  gemma: { ...FAMILY, architecture: 'gemma', kvHeads: 1 },
  gemma2: { ...FAMILY, architecture: 'gemma2', window: 24, attentionCap: 2, finalCap: 8 },
  gpt2: { ...FAMILY, architecture: 'gpt2' },
  llama: {
    ...FAMILY,
    architecture: 'llama',
    ownOutput: true,
    ropeScaling: { factor: 8, low: 1, high: 4, context: 64 },
  },
  gemma4: {
    ...FAMILY,
    architecture: 'gemma4',
    layers: 8,
    headDimLocal: 64,
    kvHeads: 1,
    ffn: [512, 512, 512, 512, 512, 1024, 1024, 1024],
    window: 24,
    pattern: [true, true, false, true, false, true, true, false],
    sharedLayers: 3,
    perLayer: 256,
    turning: 16,
  },
  granite: { ...FAMILY, architecture: 'granite' },
  smollm3: { ...FAMILY, architecture: 'smollm3', layers: 5 },
  // llama.cpp expects Phi-3's own vocabulary in a file whose name says phi3.
  phi3: {
    ...FAMILY,
    architecture: 'phi3',
    name: 'phi',
    headDim: 64,
    rotated: 48,
    longRope: { context: 256, gain: 1.2 },
  },
  qwen2: { ...FAMILY, architecture: 'qwen2', headDim: 64 },
  qwen3: { ...FAMILY, architecture: 'qwen3' },
};

/** Embedding models: one with grouped queries and windows shorter than the texts; one with a single KV head as wide as
 * in real models and no dense layers; one with a head_dim of d_model / heads and a layer pattern in the file.
 * @type {Record<string, ModelSpec>} */
const EMBEDDERS = {
  embed: { ...FAMILY, architecture: 'gemma-embedding', layers: 7, window: 24, dense: 1024, context: 2048 },
  'embed-mqa': {
    ...FAMILY,
    architecture: 'gemma-embedding',
    seed: 5150,
    layers: 3,
    dModel: 192,
    ffn: 320,
    heads: 3,
    kvHeads: 1,
    headDim: 256,
    window: 33,
    pattern: 3,
    context: 512,
  },
  'embed-small': {
    ...FAMILY,
    architecture: 'gemma-embedding',
    seed: 2112,
    layers: 6,
    dModel: 128,
    ffn: 256,
    heads: 4,
    kvHeads: 4,
    headDim: 32,
    window: 16,
    dense: 256,
    context: 256,
    pattern: 2,
    ropeBaseSwa: 5000,
  },
  'embed-qwen3': { ...FAMILY, architecture: 'qwen3', pooling: 3, context: 512 },
};

/** Variants of each architecture's model: with one weight type, with outliers, and with the mix of types that
 * llama.cpp's quantiser calls Q4_K_M.
 * @type {Record<string, ModelSpec>} */
const KINDS = {
  f32: { type: 'F32' },
  outliers: { type: 'F32', outliers: 50 },
  f16: { type: 'F16' },
  bf16: { type: 'BF16' },
  q8_0: { type: 'Q8_0' },
  q4_0: { type: 'Q4_0' },
  q4_k_m: { type: 'Q4_K', embeddingType: 'Q6_K', types: { attn_v: 'Q6_K', attn_qkv: 'Q5_K', ffn_down: 'Q6_K' } },
};

/** @type {Record<number, string>} */
const FUNCTION_TOKENS = {
  46: '<start_function_declaration>',
  47: '<end_function_declaration>',
  48: '<start_function_call>',
  49: '<end_function_call>',
  50: '<start_function_response>',
  51: '<end_function_response>',
  52: '<escape>',
};

const GEMMA4_TOKENS = `<|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|> <|think|>
  <|channel> <channel|>`.split(/\s+/);

/** Renames the last merged pieces of a synthetic vocabulary to GEMMA4_TOKENS, with the token types of llama.cpp's
 * converter, and drops their merges. @param {any} file */
function withGemma4Tokens(file) {
  const of = (/** @type {string} */ name) => {
    return file.metadata.find((/** @type {any[]} */ [key]) => key === `tokenizer.ggml.${name}`)[3];
  };
  const [tokens, types, merges] = ['tokens', 'token_type', 'merges'].map(of);
  const made = new Set(merges.map((/** @type {string} */ merge) => merge.replace(' ', '')));
  const last = [...tokens.keys()].filter((id) => made.has(tokens[id])).slice(-GEMMA4_TOKENS.length);
  const gone = new Set(last.map((id) => tokens[id]));
  last.forEach((id, i) => {
    tokens[id] = GEMMA4_TOKENS[i];
    types[id] = 4;
  });
  const kept = merges.filter((/** @type {string} */ merge) => {
    return ![...merge.split(' '), merge.replace(' ', '')].some((piece) => gone.has(piece));
  });
  merges.splice(0, merges.length, ...kept);
}

/** @type {ModelSpec} */
const GEMMA4_TOOLS = {
  ...TINY,
  architecture: 'gemma4',
  name: 'gemma 4 with tools and thoughts',
  type: 'Q8_0',
  headDimLocal: 32,
  pattern: [true, true, false, true, true, false],
  turning: 8,
  context: 2048,
  chatTemplate: templates.GEMMA4,
  edit: withGemma4Tokens,
};

/** Draft model of the models gemma4-*, with the seed of their vocabulary. @type {ModelSpec} */
const ASSISTANT = {
  architecture: 'gemma4-assistant',
  seed: FAMILY.seed,
  layers: 4,
  dModel: 64,
  ffn: 128,
  heads: 4,
  kvHeads: 1,
  headDim: 128,
  headDimLocal: 64,
  window: 24,
  pattern: [true, true, true, false],
  sharedLayers: 4,
  turning: 16,
  target: 256,
  context: 256,
  vocab: 320,
  quiet: [],
};

/** @type {ModelSpec} */
const TOOL = { ...TINY, type: 'Q8_0', context: 2048 };

/** Small models for tests of tools, most of them with chat templates that accept tools.
 * @type {Record<string, ModelSpec>} */
const TOOLS = {
  functiongemma: {
    ...TOOL,
    name: 'functiongemma, random weights',
    vocab: 'gemma3',
    direct: true,
    chatTemplate: templates.FUNCTION_GEMMA,
    edit: (file) => {
      const tokens = file.metadata.find(([key]) => key === 'tokenizer.ggml.tokens');
      for (const [id, name] of Object.entries(FUNCTION_TOKENS)) /** @type {any} */ (tokens)[3][Number(id)] = name;
    },
  },
  'gemma4-tools': GEMMA4_TOOLS,
  'gemma4-thinks': { ...GEMMA4_TOOLS, name: 'gemma 4 that thinks', chatTemplate: templates.GEMMA4_OPEN },
  'qwen3-thinking': {
    ...TOOL,
    architecture: 'qwen3',
    name: 'qwen3 with tools and thoughts',
    kvHeads: 2,
    chatTemplate: templates.QWEN3_THINKING,
  },
  'generic-tools': { ...TOOL, name: 'a template without tools' },
  'llama3-tools': {
    ...TOOL,
    architecture: 'llama',
    name: 'llama 3 with tools',
    kvHeads: 2,
    chatTemplate: templates.LLAMA3,
  },
  'qwen3-tools': {
    ...TOOL,
    architecture: 'qwen3',
    name: 'qwen3 with tools',
    kvHeads: 2,
    chatTemplate: templates.QWEN3,
  },
};

const families = Object.fromEntries(
  Object.entries(FAMILIES).flatMap(([family, spec]) =>
    Object.entries(KINDS).map(([kind, more]) => [
      `${family}-${kind}`,
      { ...spec, ...more, name: `${spec.name ?? family} ${kind}` },
    ]),
  ),
);

const EMBEDDER_KINDS = ['f32', 'outliers', 'f16', 'bf16', 'q8_0', 'q4_0'];
const embedders = Object.fromEntries(
  Object.entries(EMBEDDERS).flatMap(([name, spec]) =>
    EMBEDDER_KINDS.map((kind) => [`${name}-${kind}`, { ...spec, ...KINDS[kind], name: `${name} ${kind}` }]),
  ),
);

/** Numbers of random Gemma 4 models with reference vectors: the first ten and number 14, without number 6, on which
 * float32 itself errs by up to 8e-7. Number 14 also shares keys and values without per-layer embeddings. */
const RANDOM = [0, 1, 2, 3, 4, 5, 7, 8, 9, 14];

/** Weight types of models like MIX: the type of most matrices, then those of attn_v, attn_output and ffn_down. */
const MIXES = /** @type {const} */ ({
  q4_k_m: ['Q5_0', 'Q8_0', 'Q4_K', 'Q6_K'],
  q5_k_m: ['Q5_1', 'Q8_0', 'Q5_K', 'Q6_K'],
  q3_k: ['Q4_1', 'Q5_1', 'Q4_K', 'Q3_K'],
  q2_k: ['Q4_0', 'Q5_0', 'Q3_K', 'Q2_K'],
  iq4_xs: ['IQ4_NL', 'Q5_1', 'IQ4_XS', 'IQ4_XS'],
});
const mixes = Object.fromEntries(
  Object.entries(MIXES).map(([kind, [type, attn_v, attn_output, ffn_down]]) => [
    `mix-${kind}`,
    { ...MIX, name: `mix ${kind}`, type, types: { attn_v, attn_output, ffn_down } },
  ]),
);

/** @type {Record<string, ModelSpec>} */
export const MODELS = {
  ...families,
  ...TOOLS,
  ...embedders,
  // Outliers make logits so large that the usual soft cap would make all of them equal.
  'gemma2-outliers': { ...families['gemma2-outliers'], finalCap: 100 },
  // A model whose file consists mostly of the table of per-layer embeddings.
  'gemma4-table': { ...families['gemma4-q4_0'], vocab: 8192 },
  // A model whose table of per-layer embeddings is so large that it stays on disk by default.
  'gemma4-large-table': { ...families['gemma4-q4_0'], vocab: 40960 },
  ...Object.fromEntries(RANDOM.map((n) => [`gemma4r${n}-outliers`, randomGemma4(n)])),
  'gemma4-outliers': { ...families['gemma4-outliers'], finalCap: 100 },
  'gemma3-outliers': {
    ...FAMILY,
    architecture: 'gemma3',
    name: 'gemma3 outliers',
    type: 'F32',
    outliers: 50,
    layers: 6,
    pattern: 3,
    window: 24,
  },
  // A model whose context is longer than the context for short RoPE factors.
  'phi3-long-f32': { ...families['phi3-f32'], name: 'phi with long factors', longRope: { context: 64, gain: 1.2 } },
  'phi3-window-f32': { ...families['phi3-f32'], name: 'phi with windows', window: 24 },
  // A model shaped like Gemma 3 4B: eight heads share four KV heads, and global layers divide positions by 8.
  'gemma3-scaled-f32': {
    ...FAMILY,
    architecture: 'gemma3',
    name: 'gemma3 with scaled positions',
    type: 'F32',
    layers: 6,
    heads: 8,
    kvHeads: 4,
    headDim: 64,
    window: 24,
    ropeFactor: 8,
  },
  // A model shaped like the larger Gemma 4 models: global layers have one KV head, whose keys serve as values, too.
  'gemma4-values-f32': {
    ...FAMILY,
    architecture: 'gemma4',
    name: 'gemma4 without attn_v',
    type: 'F32',
    layers: 6,
    heads: 6,
    headDimLocal: 64,
    kvHeads: [3, 3, 1, 3, 3, 1],
    window: 24,
    pattern: [true, true, false, true, true, false],
    keysAsValues: true,
    turning: 16,
  },
  'assistant-f32': { ...ASSISTANT, name: 'drafter with centroids', type: 'F32', centroids: 80 },
  'assistant-q4_0': { ...ASSISTANT, name: 'drafter with centroids, q4_0', type: 'Q4_0', centroids: 80 },
  'assistant-dense-q8_0': { ...ASSISTANT, name: 'drafter without centroids, q8_0', type: 'Q8_0' },
  // The drafter of gemma4-values-f32: all heads of a global layer share one KV head.
  'assistant-dense-f32': {
    ...ASSISTANT,
    name: 'drafter without centroids',
    type: 'F32',
    heads: 6,
    kvHeads: [3, 1, 3, 1],
    pattern: [true, false, true, false],
    outliers: 20,
  },
  'llama2-f32': {
    ...FAMILY,
    architecture: 'llama',
    name: 'llama of the first kind',
    type: 'F32',
    tokenizer: 'llama',
    kvHeads: 4,
    headDim: 64,
    attentionBias: true,
  },
  'smollm-f32': {
    ...FAMILY,
    architecture: 'llama',
    name: 'smollm',
    type: 'F32',
    tokenizer: 'smollm',
    dModel: 192,
    heads: 3,
    kvHeads: 1,
    headDim: 64,
    ropeBase: 1e5,
  },
  tiny: { ...TINY, name: 'tiny', type: 'Q4_0' },
  'tiny-f32': { ...TINY, name: 'tiny f32', type: 'F32' },
  'tiny-v2': { ...TINY, name: 'tiny, GGUF 2', type: 'Q8_0', version: 2, alignment: 64 },
  'parity-f32': { ...PARITY, name: 'parity f32', type: 'F32' },
  'parity-f16': { ...PARITY, name: 'parity f16', type: 'F16' },
  'parity-bf16': { ...PARITY, name: 'parity bf16', type: 'BF16' },
  'parity-q8_0': { ...PARITY, name: 'parity q8_0', type: 'Q8_0' },
  'parity-q4_0': { ...PARITY, name: 'parity q4_0', type: 'Q4_0' },
  'mqa-f32': { ...MQA, name: 'mqa f32', type: 'F32' },
  'mqa-q4_0': { ...MQA, name: 'mqa q4_0', type: 'Q4_0', embeddingType: 'F16' },
  ...mixes,
  'mix-k': {
    ...MIX,
    name: 'all super-blocks',
    dModel: 256,
    type: 'Q4_K',
    embeddingType: 'Q6_K',
    types: { attn_v: 'Q3_K', attn_k: 'Q2_K', attn_output: 'IQ4_XS', ffn_down: 'Q5_K' },
  },
  deep: { ...TINY, name: 'tiny, with a long context', type: 'Q8_0', context: 8192 },
  'gemma-vocab-tiny': { ...TINY, name: 'tiny, real vocabulary', type: 'Q8_0', vocab: 'gemma3', direct: true },
  'gemma4-vocab-tiny': {
    ...TINY,
    name: 'tiny, real vocabulary, merges',
    type: 'Q8_0',
    vocab: 'gemma3',
    tokenizer: 'gemma4',
    direct: true,
  },
  medium: {
    name: 'medium',
    seed: 5,
    layers: 12,
    dModel: 640,
    ffn: 2048,
    heads: 4,
    kvHeads: 1,
    headDim: 256,
    window: 512,
    context: 8192,
    vocab: 4096,
    type: 'Q4_0',
    direct: true,
  },
  'gemma4-e2b': PRESETS['gemma4-e2b'],
  'embed-300m': { ...PRESETS['embedding-300m'], seed: 11 },
  'oneb-q4_0': { ...PRESETS['1b'], seed: 11, type: 'Q4_0' },
  'oneb-q8_0': { ...PRESETS['1b'], seed: 11, type: 'Q8_0' },
};

/** All test models except embedding models, and except those whose weight types also occur in smaller ones. */
export const SMALL_MODELS = Object.keys(MODELS).filter(
  (name) => !/^(oneb|medium|gemma-vocab|gemma4-e2b|gemma4r\d|embed|assistant)/.test(name),
);

/** Modules of tools/models/ that determine the bytes of test models. */
const SOURCES = `make-model architectures bpe-vocab chat-templates gguf-write quantise quantise-formats
  vocab`.split(/\s+/);

function keyOf(/** @type {ModelSpec} */ spec) {
  const hash = createHash('sha256').update(JSON.stringify(spec));
  for (const name of SOURCES) hash.update(fs.readFileSync(path.join(ROOT, 'tools', 'models', `${name}.js`)));
  return hash.digest('hex').slice(0, 12);
}

/** Returns the path of a test model, or of the shipped model `storyteller`. Makes a test model if its file does not
 * exist. @param {string} name @returns {Promise<string>} */
export async function testModel(name) {
  if (name === 'storyteller') return STORYTELLER;
  const spec = MODELS[name];
  if (!spec) throw new Error(`Unknown test model ${name}. The test models are ${Object.keys(MODELS).join(', ')}.`);
  const file = path.join(DIRECTORY, `${name}-${keyOf(spec)}.gguf`);
  if (fs.existsSync(file)) return file;
  fs.mkdirSync(DIRECTORY, { recursive: true });
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    await makeModel(spec, unfinished);
    fs.renameSync(unfinished, file);
  } finally {
    fs.rmSync(unfinished, { force: true });
  }
  const stale = new RegExp(`^${name}-[0-9a-f]{12}\\.gguf$`);
  for (const other of fs.readdirSync(DIRECTORY)) {
    if (stale.test(other) && other !== path.basename(file)) fs.rmSync(path.join(DIRECTORY, other), { force: true });
  }
  return file;
}

/** Returns the offset of a GGUF file's tensor data, and the file's tensors, each with the offset of its description in
 * the header (`at`), so that tests can damage a file. @param {Buffer} bytes @returns {{ dataOffset: number, tensors: {
 * name: string, at: number, shape: number[], type: number, offset: number }[] }} */
export function readHeader(bytes) {
  let at = 4;
  const u32 = () => {
    at += 4;
    return bytes.readUInt32LE(at - 4);
  };
  const u64 = () => {
    at += 8;
    return Number(bytes.readBigUInt64LE(at - 8));
  };
  const string = () => {
    const n = u64();
    at += n;
    return bytes.toString('utf8', at - n, at);
  };
  const widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
  let alignment = 32;
  u32();
  const tensors = u64();
  const entries = u64();
  for (let i = 0; i < entries; i++) {
    const key = string();
    const type = u32();
    if (key === 'general.alignment') alignment = bytes.readUInt32LE(at);
    const of = type === 9 ? u32() : type;
    const count = type === 9 ? u64() : 1;
    if (of === 8) for (let k = 0; k < count; k++) string();
    else at += widths[of] * count;
  }
  const list = [];
  for (let i = 0; i < tensors; i++) {
    const name = string();
    const start = at;
    const shape = Array.from({ length: u32() }, u64);
    list.push({ name, at: start, shape, type: u32(), offset: u64() });
  }
  return { dataOffset: Math.ceil(at / alignment) * alignment, tensors: list };
}

/** Returns the hash of all tensors' bytes, sorted by name, as tools/vectors/parity.py computes it.
 * @param {Buffer} bytes of a file */
export function weightsSha256(bytes) {
  const { dataOffset, tensors } = readHeader(bytes);
  const hash = createHash('sha256');
  for (const t of tensors.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const at = dataOffset + t.offset;
    hash.update(bytes.subarray(at, at + tensorBytes(t.type, t.shape)));
  }
  return hash.digest('hex');
}

/** Returns a patch of the description of the tensor blk.1.attn_q.weight.
 * @param {{ shape?: number[], type?: number, offset?: number }} change @returns {(bytes: Buffer) => Buffer} */
const described =
  ({ shape, type, offset }) =>
  (bytes) => {
    const t = readHeader(bytes).tensors.find(({ name }) => name === 'blk.1.attn_q.weight');
    if (!t) throw new Error('The file has no tensor blk.1.attn_q.weight.');
    shape?.forEach((n, i) => bytes.writeBigUInt64LE(BigInt(n), t.at + 4 + 8 * i));
    const behind = t.at + 4 + 8 * t.shape.length;
    if (type !== undefined) bytes.writeUInt32LE(type, behind);
    if (offset !== undefined) bytes.writeBigUInt64LE(BigInt(offset), behind + 4);
    return bytes;
  };

/** @param {string} prefix @returns {NonNullable<ModelSpec['edit']>} */
const withoutKeys = (prefix) => (file) => {
  file.metadata = file.metadata.filter(([key]) => !key.startsWith(prefix));
};

/** @param {string} key @param {any} value @returns {NonNullable<ModelSpec['edit']>} */
const withValue = (key, value) => (file) => {
  file.metadata = file.metadata.map((e) => (e[0] === key ? [e[0], /** @type {any} */ (e[1]), value] : e));
};

/** Cuts off a GGUF file `n` bytes after the start of its tensor data. */
const cut = (/** @type {Buffer} */ b, /** @type {number} */ n) => b.subarray(0, readHeader(b).dataOffset + n);

/** @typedef {{ codes: string[], edit?: ModelSpec['edit'], patch?: (bytes: Buffer) => Buffer }} BadModel */

/** Damaged versions of the model `tiny`: the expected error codes, and the damage either to the file's contents before
 * they are written (`edit`) or to its bytes (`patch`). @type {Record<string, BadModel>} */
export const BAD_MODELS = {
  empty: { codes: ['truncated'], patch: (b) => b.subarray(0, 0) },
  'cut in the magic': { codes: ['truncated'], patch: (b) => b.subarray(0, 3) },
  'cut in the header': { codes: ['truncated'], patch: (b) => b.subarray(0, 700) },
  'cut before the data': { codes: ['truncated'], patch: (b) => cut(b, 0) },
  'cut in the data': { codes: ['truncated'], patch: (b) => cut(b, 5000) },
  'last byte missing': {
    codes: ['truncated'],
    patch: (b) => {
      const { dataOffset, tensors } = readHeader(b);
      const last = tensors[tensors.length - 1];
      return b.subarray(0, dataOffset + last.offset + 4 * last.shape[0] - 1); // The last tensor is an F32 norm.
    },
  },
  'wrong magic': { codes: ['bad-magic'], patch: (b) => (b.write('GGML', 0), b) },
  'a web page': { codes: ['bad-magic'], patch: () => Buffer.from('<!doctype html><title>404</title>Not found') },
  'version 1': { codes: ['bad-version'], patch: (b) => (b.writeUInt32LE(1, 4), b) },
  'version 99': { codes: ['bad-version'], patch: (b) => (b.writeUInt32LE(99, 4), b) },
  'big-endian': { codes: ['bad-version'], patch: (b) => (b.writeUInt32BE(3, 4), b) },
  'impossible tensor count': { codes: ['bad-count'], patch: (b) => (b.writeBigUInt64LE(1n << 60n, 8), b) },
  'impossible metadata count': { codes: ['bad-count'], patch: (b) => (b.writeBigUInt64LE(1n << 60n, 16), b) },
  'impossible key length': {
    codes: ['bad-count', 'bad-metadata'],
    patch: (b) => (b.writeBigUInt64LE(1n << 62n, 24), b),
  },
  'tensor far beyond the file': { codes: ['tensor-range', 'truncated'], patch: described({ offset: 2 ** 52 }) },
  'tensors on top of one another': { codes: ['tensor-range'], patch: described({ offset: 0 }) },
  'offset off the alignment': {
    codes: ['tensor-range'],
    patch: (b) => described({ offset: readHeader(b).tensors[3].offset + 8 })(b),
  },
  'wrong shape': { codes: ['bad-shape'], patch: described({ shape: [128, 64] }) },
  'shape of zero rows': { codes: ['bad-shape', 'bad-count'], patch: described({ shape: [64, 0] }) },
  'shape that overflows': {
    codes: ['bad-shape', 'bad-count', 'tensor-range'],
    patch: described({ shape: [2 ** 40, 2 ** 40] }),
  },
  'unknown type': { codes: ['unsupported-type'], patch: described({ type: 99 }) },
  // Type 39 is MXFP4, whose blocks also have 32 weights.
  'type without a kernel': { codes: ['unsupported-type'], patch: described({ type: 39 }) },
  'missing tensor': {
    codes: ['missing-tensor'],
    edit: (file) => {
      file.tensors = file.tensors.filter((t) => t.name !== 'blk.3.ffn_up.weight');
    },
  },
  'tensor twice': {
    codes: ['duplicate'],
    edit: (file) => {
      const at = file.tensors.findIndex((t) => t.name === 'blk.2.attn_norm.weight');
      file.tensors = [...file.tensors.slice(0, at), file.tensors[at], ...file.tensors.slice(at)];
    },
  },
  'unknown architecture': { codes: ['unsupported-architecture'], edit: withValue('general.architecture', 'mamba') },
  'no architecture': { codes: ['missing-key', 'unsupported-architecture'], edit: withoutKeys('general.architecture') },
  'no layer count': { codes: ['missing-key'], edit: withoutKeys('gemma3.block_count') },
  'no layers': { codes: ['bad-metadata', 'bad-count', 'bad-shape'], edit: withValue('gemma3.block_count', 0) },
  'heads that kv heads do not divide': {
    codes: ['bad-metadata', 'bad-shape'],
    edit: withValue('gemma3.attention.head_count_kv', 3),
  },
  'no tokenizer': { codes: ['missing-tokenizer'], edit: withoutKeys('tokenizer.') },
  'other tokenizer': { codes: ['bad-tokenizer'], edit: withValue('tokenizer.ggml.model', 'gpt2') },
  'scores and pieces differ in number': {
    codes: ['bad-tokenizer'],
    edit: (file) => {
      file.metadata = file.metadata.map((e) =>
        e[0] === 'tokenizer.ggml.scores' ? [e[0], 'array', 'f32', Array.from(/** @type {any} */ (e[3])).slice(1)] : e,
      );
    },
  },
};

let made = 0;

/** Makes a model, and returns the bytes of its file, which is not kept. @param {ModelSpec} spec */
export async function modelBytes(spec) {
  const file = path.join(DIRECTORY, `once.${process.pid}.${made++}.tmp`);
  fs.mkdirSync(DIRECTORY, { recursive: true });
  try {
    await makeModel(spec, file);
    return fs.readFileSync(file);
  } finally {
    fs.rmSync(file, { force: true });
  }
}

/** Returns a damaged file, and the error codes that are right for it. @param {string} name
 * @returns {Promise<{ bytes: Uint8Array, codes: string[] }>} */
export async function badModel(name) {
  const { codes, edit, patch } = BAD_MODELS[name];
  const bytes = edit ? await modelBytes({ ...MODELS.tiny, edit }) : fs.readFileSync(await testModel('tiny'));
  return { bytes: patch ? patch(bytes) : bytes, codes };
}

// `node tests/js/models.js NAME` makes a model and prints its path.
if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(await testModel(process.argv[2]));
}
