/**
 * random-gemma4: small Gemma 4 models of random shapes, with outliers. Used by tests/js/models.js and
 * tools/vectors/gemma4.py.
 */
import { randoms } from '../../tests/support/random.js';

/** @typedef {import('./architectures.js').ModelSpec} ModelSpec */

const NORMS = `attn_norm attn_k_norm post_attention_norm ffn_norm post_ffw_norm post_norm per_layer_proj_norm
  output_norm`.split(/\s+/);

/** Returns the n-th random model. In models with an even n, the last layers share keys and values, as in E2B and E4B.
 * Of the others, most have no attn_v in global layers and no per-layer embeddings, like 12B. Windows are at most 12
 * tokens long. As in all published models, the last layer is global. If layers share keys and values, the last two
 * layers with their own are a local and a global one: only then do llama.cpp and transformers share the same layers.
 * @param {number} n @returns {ModelSpec} */
export function randomGemma4(n) {
  const random = randoms(4000 + n);
  /** @template T @param {readonly T[]} list @returns {T} */
  const pick = (list) => list[random(list.length)];
  const locals = (/** @type {number} */ most) => Array.from({ length: random(most + 1) }, () => random(2) === 0);
  const shares = n % 2 === 0;
  const owners = [...locals(3), true, false];
  const sharers = shares ? [...locals(2), true, false] : [];
  const layers = owners.length + sharers.length;
  const heads = pick(n % 4 < 2 ? [3, 5, 7] : [1, 2, 4, 6]);
  const divisors = [1, 2, 3, 5, 6, 7].filter((kv) => heads % kv === 0);
  const keysAsValues = shares ? n % 8 === 4 : n % 8 !== 5;
  const [local, global] = [pick(divisors), pick(divisors)];
  const headDim = pick([64, 96, 128]);
  const ffn = pick([64, 96, 256, 512]);
  const doubles = n % 4 === 0;
  return {
    architecture: 'gemma4',
    name: `gemma4 random ${n}`,
    type: 'F32',
    seed: 4000 + n,
    layers,
    dModel: pick([64, 96, 128, 160, 256]),
    ffn: doubles ? [...owners.map(() => ffn), ...sharers.map(() => 2 * ffn)] : ffn,
    heads,
    // transformers gives global layers another number of KV heads only if their values are keys.
    kvHeads: keysAsValues ? [...owners, ...sharers].map((isLocal) => (isLocal ? local : global)) : local,
    headDim,
    headDimLocal: pick([32, 64]),
    window: 4 + random(9),
    pattern: [...owners, ...sharers],
    sharedLayers: sharers.length,
    perLayer: (shares ? n % 8 !== 6 : !keysAsValues) ? pick([32, 64, 256]) : 0,
    keysAsValues,
    turning: headDim / pick([2, 4, 8, 16]),
    ropeBase: pick([1e6, 5e5]),
    ropeBaseSwa: pick([1e4, 5e3]),
    finalCap: pick([30, 50, 100]),
    outliers: 15 + random(46),
    outlierNorms: [...new Set([pick(NORMS.slice(0, 5)), ...NORMS.filter(() => random(2) === 0)])],
    context: 128,
    vocab: 320,
    quiet: [],
  };
}
