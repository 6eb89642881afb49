/* provider: creates providers of the AI SDK. */
/** @import { Model } from '../model.js' */
/** @import { LoadOptions, ModelSource } from '../options.js' */
import { isA } from '../errors.js';
import { LazyModel, isModel } from '../lazy-model.js';
import { probe } from '../probe.js';
import { GemmaWasmEmbeddingModel } from './embeddings.js';
import { imageModel, unknownModel } from './errors.js';
import { GemmaWasmLanguageModel } from './language-model.js';

/** A model: a source of `loadModel()`, a loaded model, or the name of one of the provider's models.
 * @typedef {ModelSource | Model} AnyModel */
/** Models of a provider.
 * @typedef {object} NamedModels
 * @property {Record<string, AnyModel>} [models] Sources or loaded models by name. If set, a string must be one of these
 *   names.
 */
/** Options of a provider: its named models, and defaults for the options of `loadModel()`.
 * @typedef {LoadOptions & NamedModels} ProviderSettings */
/** Makes a language model.
 * @callback MakeLanguageModel
 * @param {AnyModel} source A source of `loadModel()`, a loaded model, or a name in `models`.
 * @param {LoadOptions} [options] Options of `loadModel()`.
 * @returns {GemmaWasmLanguageModel}
 */
/** The methods of a provider.
 * @typedef {object} ProviderMethods
 * @property {'v4'} specificationVersion Version of the provider specification.
 * @property {MakeLanguageModel} languageModel The same as calling the provider.
 * @property {MakeLanguageModel} chat The same as `languageModel`.
 * @property {(source: AnyModel, options?: LoadOptions) => GemmaWasmEmbeddingModel} embeddingModel Makes an embedding model.
 * @property {(source: AnyModel, options?: LoadOptions) => GemmaWasmEmbeddingModel} embedding The same as `embeddingModel`.
 * @property {(modelId: string) => never} imageModel Throws: there are no image models.
 * @property {() => Promise<void>} dispose Frees the models that were made from strings.
 */
/** A provider of the AI SDK. @typedef {MakeLanguageModel & ProviderMethods} GemmaWasmProvider */

/** Creates a provider with its own models and options. Models made from the same string share one engine. Throws
 * `bad-option`. @param {ProviderSettings} [settings] @returns {GemmaWasmProvider} */
export function createGemmaWasm({ models, ...defaults } = {}) {
  /** Models by name or URL. They are kept, because the SDK's registry requests the model for each call.
   * @type {Map<string, LazyModel>} */
  const known = new Map();
  /** @param {'languageModel' | 'embeddingModel'} kind @param {AnyModel} given @param {LoadOptions} [options]
   * @returns {[modelId: string, model: LazyModel]} */
  const open = (kind, given, options) => {
    const source = named(kind, given, models);
    const name = models && typeof given === 'string' ? given : nameOf(source);
    const kept = typeof given === 'string' && !options ? known.get(given) : undefined;
    if (kept) return [name, kept];
    const model = new LazyModel(source, isModel(source) ? { ...options } : { ...defaults, ...options });
    if (typeof given === 'string' && !options) known.set(given, model);
    return [name, model];
  };
  /** @type {MakeLanguageModel} */
  const languageModel = (source, options) => new GemmaWasmLanguageModel(...open('languageModel', source, options));
  /** @type {ProviderMethods['embeddingModel']} */
  const embeddingModel = (source, options) => new GemmaWasmEmbeddingModel(...open('embeddingModel', source, options));
  /** @type {MakeLanguageModel} */
  const provider = (source, options) => languageModel(source, options);
  return Object.assign(provider, {
    specificationVersion: /** @type {const} */ ('v4'),
    languageModel,
    chat: languageModel,
    embeddingModel,
    embedding: embeddingModel,
    imageModel(/** @type {string} */ modelId) {
      throw imageModel(modelId);
    },
    async dispose() {
      await Promise.all([...known.values()].map((model) => model.dispose()));
    },
  });
}

/** @param {'languageModel' | 'embeddingModel'} kind @param {AnyModel} source
 * @param {ProviderSettings['models']} models @returns {AnyModel} */
function named(kind, source, models) {
  if (!models || typeof source !== 'string') return source;
  if (Object.hasOwn(models, source)) return models[source];
  throw unknownModel(kind, source, Object.keys(models));
}

/** Returns a name for a model in messages and telemetry. Leaves out the queries of URLs, which can contain secrets.
 * @param {any} source @returns {string} */
function nameOf(source) {
  if (isModel(source)) return source.info.name || source.info.architecture;
  if (Array.isArray(source)) return nameOf(source[0]);
  if (typeof source === 'string' || isA('URL', source)) {
    return String(source)
      .replace(/[?#].*$/s, '')
      .replace(/.*[/\\](?=.)/s, '');
  }
  const { repo, file, quant, name } = source ?? {};
  return repo ? `${repo}/${file ?? quant}` : (file ?? name ?? 'model');
}

/** The provider: `gemmaWasm(source, options)` makes a language model. */
export const gemmaWasm = createGemmaWasm();

/** Returns whether models can run here, which needs WebAssembly SIMD and workers. */
export function doesBrowserSupportGemmaWasm() {
  return probe().variant !== null;
}
