/* info: collects model.info from the file's header and the engine. */
/** @import { ModelInfo } from '../protocol.js' */
/** @import { Context } from './jobs.js' */
import { ADDRESSES } from './engine.js';

/** Names of the pooling methods, by the file's `pooling_type`. @type {Record<number, 'mean' | 'last'>} */
export const POOLING = { 1: 'mean', 3: 'last' };

/** Names of sampling options, by the keys that llama.cpp reads under `general.sampling.`. */
const SAMPLING = /** @type {const} */ ({
  temp: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  penalty_repeat: 'repetitionPenalty',
  penalty_last_n: 'penaltyWindow',
});
/** Default sampling options of families, where they differ from Gemma's. Qwen3's are from its generation_config.json.
 * @type {Record<string, Record<string, number>>} */
const FAMILIES = { qwen3: { temperature: 0.6, topK: 20 } };

/** Returns the sampling options that the model family and the file recommend. Their ranges are not checked.
 * @param {Context['runner']['native']} native @param {string} architecture */
function recommended(native, architecture) {
  const values = new Map(native.list('metadata').map(({ key, value }) => [key, value]));
  const found = Object.entries(SAMPLING).flatMap(([key, name]) => {
    const value = values.get(`general.sampling.${key}`);
    // Rounds, because the GGUF file stores float32, in which 0.95 is 0.949999988.
    return typeof value === 'number' ? [[name, Number(value.toPrecision(6))]] : [];
  });
  return { ...FAMILIES[architecture], ...Object.fromEntries(found) };
}

/** Returns model.info: facts of the load, the header and the engine. Sizes are in bytes, context lengths in tokens.
 * @param {Context} context
 * @param {Pick<ModelInfo, 'isolated' | 'reason' | 'variantReason' | 'cache' | 'notices' | 'threadsMeasured'>} facts
 * @returns {ModelInfo} */
export function describe({ runner: { native }, encoder, contextLength }, facts) {
  const [resident, onDisk, kv, scratch, total, heap] = ['weights', 'disk', 'kv', 'scratch', 'total', 'heap'].map(
    (part) => native.planBytes(contextLength, part),
  );
  const architecture = native.text('architecture') ?? '';
  const pooling = POOLING[native.number('pooling')];
  return {
    architecture,
    name: native.text('name') ?? '',
    quantisation: native.text('quantisation') ?? '',
    parameters: native.number('parameters'),
    contextLength,
    trainedContextLength: native.number('context_length'),
    vocabSize: encoder.size,
    memory: { weights: resident + onDisk, resident, onDisk, kv, scratch, total, heap },
    largestContext: native.call('largest_context', ADDRESSES),
    layers: native.number('n_layer'),
    heads: native.number('n_head'),
    width: native.number('n_embd'),
    embedding: pooling ? { dimensions: native.number('n_embd'), pooling, dense: native.number('dense') > 0 } : null,
    threads: native.threads,
    sequences: native.number('sequences'),
    variant: native.variant,
    ...facts,
    fileBytes: native.number('file_bytes'),
    chatTemplate: encoder.templateSource !== null,
    thinking: encoder.thinks,
    bosToken: encoder.bos,
    endTokens: encoder.endTokens,
    defaults: recommended(native, architecture),
  };
}
