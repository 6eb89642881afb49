#!/usr/bin/env node
/**
 * Makes Gemma 3 GGUF files of any size with seeded random weights: the models that tests and
 * benchmarks run on. Keys, names, shapes and order are those of llama.cpp's converter (F32, F16, BF16)
 * and of its quantiser (all others). Streams to disk: memory is bounded, the same spec gives the same
 * bytes. Only exact arithmetic (no Math.log, no Math.cos), so every JavaScript engine agrees.
 *
 *   node tools/make-model.js OUT.gguf --preset 1b --type Q4_0 --vocab gemma3
 *   node tools/make-model.js OUT.gguf --layers 14 --d-model 192 --vocab 320 --type F32 --seed 7
 *
 * How weights are scaled: matrices have variance 1/fan_in; embedding rows are short (0.3), so that a
 * random tied model does not just repeat its last token, and the final norm makes up for it (logits with
 * a standard deviation near 3). Stored norms are c (1 + w), |w| <= 0.3, so that a norm that is
 * forgotten, swapped or counted twice shows. Rows of control tokens are nearly 0: greedy text never ends.
 *
 * @typedef {import('./gguf-write.js').TypeName} TypeName
 * @typedef {import('./gguf-write.js').MetadataEntry} MetadataEntry
 * @typedef {{ pieces: (string | Uint8Array)[], scores: ArrayLike<number>, types: ArrayLike<number>,
 *   bos: number, eos: number, eot: number, pad: number, unk: number }} Vocabulary
 *
 * @typedef {object} ModelSpec
 * @property {string} [name]        general.name
 * @property {number} [seed]
 * @property {number} [layers]
 * @property {number} [dModel]
 * @property {number} [ffn]
 * @property {number} [heads]
 * @property {number} [kvHeads]
 * @property {number} [headDim]
 * @property {number} [window]      sliding window of local layers
 * @property {number} [context]
 * @property {number} [eps]
 * @property {number} [ropeBase]    of global layers
 * @property {number} [ropeBaseSwa] of local layers; the key is written only when given (default 10000)
 * @property {number | boolean[]} [pattern]  every n-th layer is global, or whether each layer is local; the key is
 *   written only when given (default 6)
 * @property {TypeName} [type]      of the matrices
 * @property {TypeName} [embeddingType]  default: the type, but Q8_0 beside Q4_0
 * @property {Record<string, TypeName>} [types]  single groups: { attn_v: 'Q8_0', output_norm: 'F32' }
 * @property {number | 'gemma3'} [vocab]  size of a synthetic vocabulary, or the real one from npm
 * @property {number[] | 'control'} [quiet]  ids whose embedding is nearly 0; default: all control tokens
 * @property {boolean} [direct]     random blocks instead of quantised floats: for files of hundreds of MB
 * @property {string | null} [chatTemplate]  null: none
 * @property {number} [version]     GGUF version, 2 or 3
 * @property {number} [alignment]   default 32; another one is written as general.alignment
 * @property {(file: { metadata: MetadataEntry[], tensors: import('./gguf-write.js').TensorInfo[] }) => void} [edit]
 *   last change before the file is written, for files that must be refused
 */
import { parseArgs } from 'node:util';
import { pathToFileURL } from 'node:url';
import { GGML_TYPES, ggufHeader, writeGguf } from './gguf-write.js';
import { FORMATS } from './quantise-formats.js';
import { f16Of, quantise } from './quantise.js';

/** Shapes of the public models. */
export const PRESETS = Object.freeze({
  '1b': { name: 'Gemma 3 1B shape, random weights', layers: 26, dModel: 1152, ffn: 6912, heads: 4, kvHeads: 1,
    headDim: 256, window: 512, context: 32768, vocab: /** @type {const} */ ('gemma3'), direct: true },
  '270m': { name: 'Gemma 3 270M shape, random weights', layers: 18, dModel: 640, ffn: 2048, heads: 4, kvHeads: 1,
    headDim: 256, window: 512, context: 32768, vocab: /** @type {const} */ ('gemma3'), direct: true },
});

const DEFAULTS = {
  name: 'random gemma3', seed: 1, layers: 7, dModel: 128, ffn: 256, heads: 4, kvHeads: 1, headDim: 32,
  window: 32, context: 2048, eps: 1e-6, ropeBase: 1e6, vocab: 1024, version: 3, alignment: 32,
  type: /** @type {TypeName} */ ('F32'),
  types: /** @type {Record<string, TypeName>} */ ({}),
  quiet: /** @type {const} */ ('control'),
};

/** The shape of the conversation as gemma3.md tells it: one BOS, turns, system text before the first
 * user turn. Content is a string or a list of { type: 'text', text } parts. */
export const CHAT_TEMPLATE = `{{ bos_token }}
{%- set turns = messages -%}
{%- set lead = '' -%}
{%- if messages and messages[0]['role'] == 'system' -%}
  {%- set turns = messages[1:] -%}
  {%- if messages[0]['content'] is string -%}
    {%- set lead = messages[0]['content'] + '\n\n' -%}
  {%- else -%}
    {%- set lead = messages[0]['content'][0]['text'] + '\n\n' -%}
  {%- endif -%}
{%- endif -%}
{%- for turn in turns -%}
  {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception('Roles must alternate: user, assistant, user, assistant ...') }}
  {%- endif -%}
  {{ '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\n' }}
  {%- if loop.first -%}{{ lead }}{%- endif -%}
  {%- if turn['content'] is string -%}
    {{ turn['content'] | trim }}
  {%- else -%}
    {%- for part in turn['content'] -%}
      {%- if part['type'] == 'text' -%}{{ part['text'] | trim }}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
`;

const FILE_TYPES = { F32: 0, F16: 1, Q4_0: 2, Q4_1: 3, Q8_0: 7, Q5_0: 8, Q5_1: 9, Q2_K: 10, Q3_K: 12, Q4_K: 15,
  Q5_K: 17, Q6_K: 18, IQ4_NL: 25, IQ4_XS: 30, BF16: 32 };

/** @param {ModelSpec} spec @param {Vocabulary} vocab @returns {MetadataEntry[]} */
function metadataOf(spec, vocab) {
  const s = { ...DEFAULTS, ...spec };
  /** @type {MetadataEntry[]} */
  const list = [
    ['general.architecture', 'string', 'gemma3'],
    ['general.type', 'string', 'model'],
    ['general.name', 'string', s.name],
    ['gemma3.context_length', 'u32', s.context],
    ['gemma3.embedding_length', 'u32', s.dModel],
    ['gemma3.block_count', 'u32', s.layers],
    ['gemma3.feed_forward_length', 'u32', s.ffn],
    ['gemma3.attention.head_count', 'u32', s.heads],
    ['gemma3.attention.layer_norm_rms_epsilon', 'f32', s.eps],
    ['gemma3.attention.key_length', 'u32', s.headDim],
    ['gemma3.attention.value_length', 'u32', s.headDim],
    ['gemma3.rope.freq_base', 'f32', s.ropeBase],
    ['gemma3.attention.sliding_window', 'u32', s.window],
    ['gemma3.attention.head_count_kv', 'u32', s.kvHeads],
  ];
  const pattern = 'gemma3.attention.sliding_window_pattern';
  if (Array.isArray(s.pattern)) list.push([pattern, 'array', 'bool', s.pattern]);
  else if (s.pattern) list.push([pattern, 'u32', s.pattern]);
  if (s.ropeBaseSwa) list.push(['gemma3.rope.freq_base_swa', 'f32', s.ropeBaseSwa]);
  if (s.alignment !== 32) list.push(['general.alignment', 'u32', s.alignment]);
  list.push(
    ['tokenizer.ggml.model', 'string', 'llama'],
    ['tokenizer.ggml.pre', 'string', 'default'],
    ['tokenizer.ggml.tokens', 'array', 'string', vocab.pieces],
    ['tokenizer.ggml.scores', 'array', 'f32', vocab.scores],
    ['tokenizer.ggml.token_type', 'array', 'i32', vocab.types],
    ['tokenizer.ggml.bos_token_id', 'u32', vocab.bos],
    ['tokenizer.ggml.eos_token_id', 'u32', vocab.eos],
    ['tokenizer.ggml.unknown_token_id', 'u32', vocab.unk],
    ['tokenizer.ggml.padding_token_id', 'u32', vocab.pad],
    ['tokenizer.ggml.eot_token_id', 'u32', vocab.eot],
    ['tokenizer.ggml.add_bos_token', 'bool', true],
    ['tokenizer.ggml.add_eos_token', 'bool', false],
    ['tokenizer.ggml.add_space_prefix', 'bool', false],
  );
  const template = s.chatTemplate === undefined ? CHAT_TEMPLATE : s.chatTemplate;
  if (template !== null) list.push(['tokenizer.chat_template', 'string', template]);
  list.push(['general.quantization_version', 'u32', 2], ['general.file_type', 'u32', FILE_TYPES[s.type]]);
  return list;
}

/** Where each group stands in a layer, in the converter's order.
 * @param {Required<Pick<ModelSpec, 'dModel' | 'ffn' | 'heads' | 'kvHeads' | 'headDim'>>} s
 * @returns {[string, number[]][]} */
function layerShapes({ dModel, ffn, heads, kvHeads, headDim }) {
  return [
    ['attn_norm', [dModel]], ['ffn_down', [ffn, dModel]], ['ffn_gate', [dModel, ffn]], ['ffn_up', [dModel, ffn]],
    ['post_attention_norm', [dModel]], ['post_ffw_norm', [dModel]], ['ffn_norm', [dModel]],
    ['attn_k_norm', [headDim]], ['attn_k', [dModel, kvHeads * headDim]], ['attn_output', [heads * headDim, dModel]],
    ['attn_q_norm', [headDim]], ['attn_q', [dModel, heads * headDim]], ['attn_v', [dModel, kvHeads * headDim]],
  ];
}

/** Files of llama.cpp's quantiser are sorted by layer and name, those of its converter are not.
 * @param {ModelSpec} spec @param {number} vocabSize */
function tensorsOf(spec, vocabSize) {
  const s = { ...DEFAULTS, ...spec };
  const embedding = s.embeddingType ?? (s.type === 'Q4_0' ? 'Q8_0' : s.type);
  const sorted = !['F32', 'F16', 'BF16'].includes(s.type);
  /** @type {{ name: string, shape: number[], type: number, group: string, typeName: TypeName }[]} */
  const list = [];
  const add = (/** @type {string} */ prefix, /** @type {string} */ group, /** @type {number[]} */ shape) => {
    const typeName = s.types[group] ?? (shape.length === 1 ? 'F32' : group === 'token_embd' ? embedding : s.type);
    list.push({ name: `${prefix}${group}.weight`, shape, type: GGML_TYPES[typeName].id, group, typeName });
  };
  const shapes = layerShapes(s);
  if (sorted) {
    shapes.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    add('', 'output_norm', [s.dModel]);
  }
  add('', 'token_embd', [s.dModel, vocabSize]);
  for (let l = 0; l < s.layers; l++) for (const [group, shape] of shapes) add(`blk.${l}.`, group, shape);
  if (!sorted) add('', 'output_norm', [s.dModel]);
  return list;
}

/** A stream of 32-bit numbers per (seed, name): sfc32 (Chris Doty-Humphrey's PractRand), seeded by FNV-1a.
 * @param {number} seed @param {string} name @returns {(out: Uint32Array) => void} fills out */
function randomStream(seed, name) {
  let a = 0x811c9dc5 ^ seed, b = seed | 0, c = 0x9e3779b9 | 0, count = 1;
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

/** n values of mean 0 and the given deviation: each the sum of eight random bytes, bell-shaped enough.
 * @param {(out: Uint32Array) => void} random @param {number} n @param {number} deviation */
function bellFloats(random, n, deviation) {
  const words = new Uint32Array(2 * n), bytes = new Uint8Array(words.buffer), out = new Float32Array(n);
  random(words);
  const scale = deviation / Math.sqrt(8 * (65536 - 1) / 12);
  for (let i = 0, j = 0; i < n; i++) {
    let sum = -1020;
    for (let k = 0; k < 8; k++) sum += bytes[j++];
    // the low bits of a weight are not all 0
    out[i] = (sum + (words[2 * i] & 0xff00) / 65536 - 0.5) * scale;
  }
  return out;
}

/** Weights of a norm: centre * (1 + w), |w| <= 0.3.
 * @param {(out: Uint32Array) => void} random @param {number} n @param {number} centre */
function normFloats(random, n, centre) {
  const words = new Uint32Array(n);
  random(words);
  return Float32Array.from(words, (u) => centre * (1 + 0.3 * (u / 2147483648 - 1)));
}

/** Random codes and small scales under f16 scales of about the right size, of both signs; where there are mins, they
 * lie about where the mean is 0. @param {import('./quantise-formats.js').Format} f
 * @param {(size: number) => Uint8Array} raw @param {number} deviation @returns {(n: number) => Uint8Array} */
function directFormat(f, raw, deviation) {
  const codes = f.table ? 68 : 2 ** f.bits / 3.46, middle = (2 ** f.bits - 1) / 2;
  const d = deviation / codes / (f.most ? f.most * 0.577 : 1), first = f.half ?? 0;
  const both = f.offset === undefined;
  return (n) => {
    const out = raw(n / f.items * f.bytes), view = new DataView(out.buffer, out.byteOffset, out.length);
    for (let at = 0; at < out.length; at += f.bytes) {
      const scale = (out[at] & 1 ? -d : d) * (0.7 + 0.6 * (out[at] / 255));
      view.setUint16(at + first, f16Of(scale), true);
      if (both) view.setUint16(at + first + 2, f16Of(f.mostMin ? scale * middle : -scale * middle), true);
    }
    return out;
  };
}

/** Random blocks of a type, made without floats in between. Returns a maker of n items.
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
  // Uniform codes: -8..7 deviates by 4.61, -127..127 by 73.6. Both signs of d, else the mean shows.
  const step = deviation / (type === 'Q4_0' ? 4.61 : 73.6);
  const scales = Uint16Array.from({ length: 256 }, (_, i) => f16Of((i & 1 ? -1 : 1) * step * (0.7 + 0.6 * (i / 255))));
  return (n) => {
    const out = raw(n / items * bytes);
    for (let at = 0; at < out.length; at += bytes) {
      const d = scales[out[at]];
      out[at] = d & 255;
      out[at + 1] = d >> 8;
      if (type === 'Q8_0') for (let i = at + 2; i < at + bytes; i++) if (out[i] === 128) out[i] = 127;
    }
    return out;
  };
}

const CHUNK = 1 << 18;   // items made at a time

/** Deviation of a matrix, or centre of a norm. Queries and keys are stretched so that attention is
 * sharp enough for a wrong position to show. */
function sizeOf(/** @type {string} */ group, /** @type {number[]} */ shape) {
  if (group === 'token_embd') return 0.3 / Math.sqrt(shape[0]);
  if (group === 'output_norm') return 10;
  if (group === 'attn_q_norm' || group === 'attn_k_norm') return 1.4;
  return shape.length === 1 ? 1 : 1 / Math.sqrt(shape[0]);
}

/** @param {{ name: string, shape: number[], group: string, typeName: TypeName }} tensor
 * @param {ModelSpec} spec @param {Set<number>} quiet rows of the embedding that are nearly 0
 * @returns {Generator<Uint8Array>} */
function* tensorData(tensor, { seed = DEFAULTS.seed, direct = false }, quiet) {
  const { name, shape, group, typeName } = tensor;
  const random = randomStream(seed, name), size = sizeOf(group, shape), row = shape[0];
  if (shape.length === 1) {
    yield quantise(typeName, normFloats(random, row, size));
    return;
  }
  const blocks = direct ? directBlocks(random, typeName, size)
    : (/** @type {number} */ n) => quantise(typeName, bellFloats(random, n, size));
  const rowBytes = row / GGML_TYPES[typeName].items * GGML_TYPES[typeName].bytes;
  const step = Math.max(1, Math.floor(CHUNK / row));
  for (let r = 0; r < shape[1]; r += step) {
    const rows = Math.min(step, shape[1] - r);
    const chunk = blocks(rows * row);
    if (group === 'token_embd') {
      for (let i = 0; i < rows; i++) {
        if (!quiet.has(r + i)) continue;
        chunk.set(quantise(typeName, bellFloats(randomStream(seed, `${name}:${r + i}`), row, size / 20)), i * rowBytes);
      }
    }
    yield chunk;
  }
}

/** @param {number | 'gemma3'} vocab @param {number} seed @returns {Promise<Vocabulary>} */
async function vocabularyOf(vocab, seed) {
  const { gemma3Vocab, syntheticVocab } = await import('./vocab.js');
  return vocab === 'gemma3' ? gemma3Vocab() : syntheticVocab(vocab, seed);
}

/** Rows that must not win: control and unknown tokens. */
function quietRows(/** @type {ModelSpec} */ { quiet = DEFAULTS.quiet }, /** @type {Vocabulary} */ vocab) {
  if (quiet !== 'control') return new Set(quiet);
  /** @type {Set<number>} */
  const rows = new Set();
  for (let i = 0; i < vocab.types.length; i++) if (vocab.types[i] === 2 || vocab.types[i] === 3) rows.add(i);
  return rows;
}

/** Writes the model of a spec. @param {ModelSpec} spec @param {string} path
 * @returns {Promise<{ bytes: number, dataOffset: number, parameters: number, vocab: Vocabulary }>} */
export async function makeModel(spec, path) {
  const s = { ...DEFAULTS, ...spec };
  const vocab = await vocabularyOf(s.vocab, s.seed);
  const tensors = tensorsOf(s, vocab.pieces.length), quiet = quietRows(s, vocab);
  const file = { metadata: metadataOf(s, vocab), tensors };
  s.edit?.(file);
  const header = ggufHeader(file.metadata, file.tensors, s);
  writeGguf(path, header, (i) => tensorData(/** @type {typeof tensors[0]} */ (file.tensors[i]), s, quiet));
  const parameters = tensors.reduce((sum, t) => sum + t.shape.reduce((a, b) => a * b, 1), 0);
  return { bytes: header.total, dataOffset: header.dataOffset, parameters, vocab };
}

const NUMBERS = /** @type {const} */ (['seed', 'layers', 'd-model', 'ffn', 'heads', 'kv-heads', 'head-dim', 'window',
  'context', 'eps', 'rope-base', 'rope-base-swa', 'pattern', 'version', 'alignment']);

/** @param {string} text @returns {TypeName} */
function typeNamed(text) {
  if (!(text in GGML_TYPES)) throw new Error(`type ${text}: expected ${Object.keys(GGML_TYPES).join(', ')}`);
  return /** @type {TypeName} */ (text);
}

/** @param {string[]} args @returns {{ path: string, spec: ModelSpec }} */
function readArguments(args) {
  const text = { type: /** @type {const} */ ('string') };
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: {
    ...Object.fromEntries(NUMBERS.map((n) => [n, text])), preset: text, name: text, vocab: text, type: text,
    'embedding-type': text, 'group-type': { ...text, multiple: true }, direct: { type: 'boolean' } } });
  const v = /** @type {Record<string, any>} */ (values);
  if (positionals.length !== 1) throw new Error('usage: make-model.js OUT.gguf [--preset 1b|270m] [--type T] [--embedding-type T]\n'
    + `  [--group-type attn_v=Q8_0]... [--vocab N|gemma3] [--name TEXT] [--direct] [--${NUMBERS.join(' N] [--')} N]`);
  if (v.preset && !(v.preset in PRESETS)) throw new Error(`preset ${v.preset}: expected ${Object.keys(PRESETS).join(', ')}`);
  /** @type {Record<string, any>} */
  const spec = { ...PRESETS[/** @type {'1b'} */ (v.preset)] };
  for (const key of NUMBERS) {
    if (v[key] === undefined) continue;
    const camel = key.replace(/-(.)/g, (_, c) => c.toUpperCase());
    spec[camel] = Number(v[key]);
    if (!Number.isFinite(spec[camel])) throw new Error(`--${key} ${v[key]}: expected a number`);
  }
  if (v.name) spec.name = v.name;
  if (v.direct) spec.direct = true;
  if (v.vocab) spec.vocab = v.vocab === 'gemma3' ? 'gemma3' : Number(v.vocab);
  if (v.type) spec.type = typeNamed(v.type);
  if (v['embedding-type']) spec.embeddingType = typeNamed(v['embedding-type']);
  spec.types = Object.fromEntries((v['group-type'] ?? []).map((/** @type {string} */ pair) => {
    const [group, type] = pair.split('=');
    return [group, typeNamed(type)];
  }));
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
