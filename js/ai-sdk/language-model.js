/* language-model: implements the AI SDK's interface LanguageModelV4. */
/** @import { CallOptions } from '../options.js' */
/** @import { Progress, Usage } from '../protocol.js' */
/** @import { CallOptionsV4, GenerateResultV4, StreamResultV4 } from './specification.js' */
/** @import { Availability, LazyModel } from '../lazy-model.js' */
import { newId } from '../answer-parts.js';
import { abortReason, sdkError } from './errors.js';
import { optionsOf } from './options.js';
import { messagesOf } from './prompt.js';
import { contentOf, endOf } from './results.js';
import { streamOf } from './stream.js';

/** A language model for the AI SDK. */
export class GemmaWasmLanguageModel {
  #model;
  /** @type {Usage | undefined} */
  #usage;

  /** Version of the SDK's provider specification. */
  specificationVersion = /** @type {const} */ ('v4');
  /** Name of the provider. */
  provider = 'gemma-wasm';
  /** URLs of files that the SDK must not download: all, because the model rejects files.
   * @type {Record<string, RegExp[]>} */
  supportedUrls = { '*/*': [/./] };

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

  /** Loads the model, and returns this object. Fails as `loadModel` does.
   * @param {(fraction: number, progress: Progress) => void} [onProgress] Called as the model is read, with the fraction
   *   from 0 to 1 (ready) @param {CallOptions} [options] */
  async createSessionWithProgress(onProgress, { signal } = {}) {
    try {
      await this.#model.open(signal, (progress) => {
        const { phase, loaded, total } = progress;
        // Only the phase `ready` reports 1: when the whole file is read, the model is not ready yet.
        onProgress?.(phase === 'ready' ? 1 : total ? Math.min(loaded / total, 0.999) : 0, progress);
      });
    } catch (error) {
      throw sdkError(error, signal);
    }
    return this;
  }

  /** Returns the number of tokens of the last prompt and its answer; undefined before the first call. */
  getContextUsage() {
    return this.#usage && this.#usage.promptTokens + this.#usage.completionTokens;
  }

  /** Returns the context length in tokens, undefined before the model is loaded. */
  getContextWindow() {
    return this.#model.model?.info.contextLength;
  }

  /** Frees the model, unless it was loaded elsewhere. The next call loads it again. */
  dispose() {
    return this.#model.dispose();
  }

  /** Generates an answer. Called by the SDK. @param {CallOptionsV4} call @returns {Promise<GenerateResultV4>} */
  async doGenerate(call) {
    const { abortSignal: signal } = call;
    try {
      const { generation, warnings, response } = await this.#begin(call);
      const result = await generation.result();
      if (signal?.aborted && result.finishReason === 'aborted') throw abortReason(signal);
      this.#usage = result.usage;
      return { content: contentOf(result), ...endOf(result), response, warnings };
    } catch (error) {
      throw sdkError(error, signal);
    }
  }

  /** Streams an answer. Called by the SDK. @param {CallOptionsV4} call @returns {Promise<StreamResultV4>} */
  async doStream(call) {
    const { abortSignal: signal } = call;
    try {
      const { generation, ...begun } = await this.#begin(call);
      const onResult = (/** @type {{ usage: Usage }} */ { usage }) => {
        this.#usage = usage;
      };
      return { stream: streamOf(generation, { ...begun, signal, onResult }) };
    } catch (error) {
      throw sdkError(error, signal);
    }
  }

  /** @param {CallOptionsV4} call */
  async #begin(call) {
    const messages = messagesOf(call.prompt);
    const model = await this.#model.open(call.abortSignal);
    const { options, warnings } = optionsOf(call, model.info);
    const last = messages.at(-1);
    const isBegun = last?.role === 'assistant' && !last.toolCalls && !options.tools && !options.format;
    if (isBegun) messages[messages.length - 1] = { ...last, prefix: true };
    const response = { id: newId('answer_'), timestamp: new Date(), modelId: this.modelId };
    return { generation: model.generate(messages, options), response, warnings };
  }
}
