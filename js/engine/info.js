/* info: the facts about a model that is open: what the file says, and what runs it. */
/** @import { ModelInfo, Notice } from '../protocol.js' */
/** @import { Context } from './jobs.js' */
import { ADDRESSES } from './engine.js';

/** @param {Context} context
 * @param {Pick<ModelInfo, 'isolated' | 'reason' | 'variantReason' | 'cache' | 'notices'>} facts
 * @returns {ModelInfo} */
export function describe({ runner: { native }, vocabulary, contextLength }, facts) {
  const [weights, kv, scratch, total, heap] = ['weights', 'kv', 'scratch', 'total', 'heap'].map((part) =>
    native.planBytes(contextLength, part),
  );
  return {
    architecture: native.text('architecture') ?? '',
    name: native.text('name') ?? '',
    quantisation: native.text('quantisation') ?? '',
    parameters: native.number('parameters'),
    contextLength,
    trainedContextLength: native.number('context_length'),
    vocabSize: vocabulary.size,
    memory: { weights, kv, scratch, total, heap },
    largestContext: native.call('largest_context', ADDRESSES),
    layers: native.number('n_layer'),
    heads: native.number('n_head'),
    width: native.number('n_embd'),
    embedding:
      native.number('bidirectional') === 1
        ? { dimensions: native.number('n_embd'), pooling: 'mean', dense: native.number('dense') > 0 }
        : null,
    threads: native.threads,
    variant: native.variant,
    ...facts,
    fileBytes: native.number('file_bytes'),
    chatTemplate: vocabulary.templateSource !== null,
    bosToken: vocabulary.bos,
    endTokens: vocabulary.endTokens,
  };
}
