/* embeddings: implements the AI SDK's interface EmbeddingModelV4. */
/** @import { Availability, LazyModel } from '../lazy-model.js' */
/** @import { EmbedCallV4, EmbedResultV4 } from './specification.js' */
import { sdkError } from './errors.js';
import { KEY } from './options.js';

/** An embedding model for the AI SDK. */
export class GemmaWasmEmbeddingModel {
  #model;

  /** Version of the SDK's provider specification. */
  specificationVersion = /** @type {const} */ ('v4');
  /** Name of the provider. */
  provider = 'gemma-wasm';
  /** Maximum number of texts in a call. The engine splits them into batches itself. */
  maxEmbeddingsPerCall = Infinity;
  /** Tells the SDK not to make calls in parallel. */
  supportsParallelCalls = false;

  /** @internal @param {string} modelId @param {LazyModel} model */
  constructor(modelId, model) {
    /** Name of the model. */
    this.modelId = modelId;
    this.#model = model;
  }

  /** Returns whether the model can be used here, and whether it must be downloaded first.
   * @returns {Promise<Availability>} */
  availability() {
    return this.#model.availability();
  }

  /** Frees the model, unless it was loaded elsewhere. The next call loads it again. */
  dispose() {
    return this.#model.dispose();
  }

  /** Returns a vector for each text. Called by the SDK. @param {EmbedCallV4} call @returns {Promise<EmbedResultV4>} */
  async doEmbed({ values, dimensions, abortSignal: signal, providerOptions }) {
    try {
      const model = await this.#model.open(signal);
      const [vectors, ...counts] = await Promise.all([
        model.embed(values, { ...(dimensions && { dimensions }), signal, ...providerOptions?.[KEY] }),
        ...values.map((value) => model.countTokens(value, { signal })),
      ]);
      const tokens = counts.reduce((sum, count) => sum + count, 0);
      return { embeddings: vectors.map((vector) => [...vector]), usage: { tokens }, warnings: [] };
    } catch (error) {
      throw sdkError(error, signal);
    }
  }
}
