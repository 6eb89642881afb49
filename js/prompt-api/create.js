/* create: implements create() and availability(), and creates the class `LanguageModel` that a page uses. */
/** @import { Loader } from '../lazy-model.js' */
/** @import { Model } from '../model.js' */
/** @import { LoadOptions, ModelSource } from '../options.js' */
/** @import { Availability, CreateCoreOptions, CreateOptions, ExpectedContent } from './idl.js' */
/** @import { SchemaBounds } from './prompts.js' */
import { cannotChat, domErrorOf, noActivation, unsupportedOptions } from './errors.js';
import { CreateMonitor } from './events.js';
import { toCreateOptions } from './idl.js';
import { messagesOf } from './prompts.js';
import { LanguageModel } from './session.js';
import { LazyModel, isModel } from '../lazy-model.js';
import { LOAD_OPTIONS, boolean, checkOptions, checkThat, checkValue, integer, rule } from '../options.js';

/** A model for sessions: what loadModel() takes, a loaded model, or a function that loads one. The function is called
 * for the first create(), and again if it failed. @typedef {ModelSource | Model | Loader} PromptSource */
/** Options of `createLanguageModel()` besides those of `loadModel()`.
 * @typedef {object} SessionOptions
 * @property {readonly string[]} [languages] Language tags (BCP 47) that the model knows. Other languages are
 *   `unavailable`.
 *   Default: every language that the platform can name.
 * @property {number} [maxTokens] Maximum number of tokens of an answer. `contextWindow` leaves room for them, at most
 *   half of the context. Default: an answer may fill the context; `contextWindow` leaves a quarter of the context, at
 *   most 1024 tokens.
 * @property {SchemaBounds} [schemaBounds] Limits for strings, arrays and objects that a schema of `responseConstraint`
 *   does not limit, so that answers of small models end. Default: none.
 * @property {boolean} [userActivation] Whether `create()` rejects with NotAllowedError if it must download and the user
 *   has not interacted with the page, as the specification says. Default: true.
 */
/** Options of `createLanguageModel()`. @typedef {LoadOptions & SessionOptions} LanguageModelOptions */
/** Static members of the class `LanguageModel`.
 * @typedef {object} LanguageModelStatics
 * @property {LanguageModel} prototype Prototype of the sessions.
 * @property {(options?: CreateOptions) => Promise<LanguageModel>} create Creates a session, and loads the model for the
 *   first one.
 * @property {(options?: CreateCoreOptions) => Promise<Availability>} availability Returns whether sessions with these
 *   options can be created.
 */
/** The class that a page uses as `LanguageModel`. @typedef {Function & LanguageModelStatics} LanguageModelClass */

const INPUTS = ['text', 'tool-response'];
const OUTPUTS = ['text', 'tool-call'];
const isTags = rule(
  'an array of language tags',
  (value) => Array.isArray(value) && value.every((tag) => typeof tag === 'string'),
);

const natural = integer(0, 1 << 20);

/** Waits for the next task, so that events are fired in separate tasks. */
const nextTask = () => new Promise((resolve) => setTimeout(resolve));

/** Returns a loader that throws `bad-option` if the given one returns no model. @param {Loader} load @returns {Loader} */
const checked = (load) => async (options) => {
  const model = await load(options);
  checkThat('The result of the function that loads the model', model, 'a loaded model', Boolean(model?.info));
  return model;
};

/** Creates the class `LanguageModel` of a model. Nothing is loaded before the first create(). Throws `bad-option`.
 * @param {PromptSource} source what loadModel() takes, a loaded model, or a function that loads one
 * @param {LanguageModelOptions} [options] @returns {LanguageModelClass} */
export function createLanguageModel(source, options = {}) {
  const { languages, maxTokens, schemaBounds, userActivation = true, ...load } = options;
  if (languages !== undefined) checkValue('languages', languages, isTags);
  if (maxTokens !== undefined) checkValue('maxTokens', maxTokens, integer(1, 1 << 20));
  checkValue('userActivation', userActivation, boolean);
  checkOptions(schemaBounds ?? {}, { maxLength: natural, maxItems: natural, maxProperties: natural });
  checkOptions(load, LOAD_OPTIONS);
  const from = typeof source === 'function' ? checked(source) : source;
  const model = new LazyModel(from, isModel(source) ? {} : load);
  const factory = new Factory(model, { languages, maxTokens, schemaBounds, userActivation });
  const Class = class extends LanguageModel {
    /** @param {CreateOptions} [options] */
    static async create(options) {
      return factory.create(/** @type {any} */ (Class), options);
    }

    /** @param {CreateCoreOptions} [options] */
    static async availability(options) {
      return factory.availability(toCreateOptions(options, true));
    }
  };
  // Sets the name of the class, because minifiers rename classes.
  Object.defineProperty(Class, 'name', { value: 'LanguageModel' });
  return /** @type {any} */ (Class);
}

class Factory {
  #model;
  #options;

  /** @param {LazyModel} model which all sessions share @param {SessionOptions} options */
  constructor(model, options) {
    this.#model = model;
    this.#options = options;
  }

  /** @param {CreateCoreOptions} options @returns {Promise<Availability>} */
  async availability({ expectedInputs = [], expectedOutputs = [] }) {
    const fits = (/** @type {ExpectedContent[]} */ expected, /** @type {string[]} */ types) =>
      expected.every(({ type, languages = [] }) => types.includes(type) && languages.every((tag) => this.#knows(tag)));
    if (!fits(expectedInputs, INPUTS) || !fits(expectedOutputs, OUTPUTS)) return 'unavailable';
    return this.#model.availability();
  }

  /** @param {string} tag canonical language tag */
  #knows(tag) {
    const { languages } = this.#options;
    if (languages) return languages.some((known) => `${tag}-`.toLowerCase().startsWith(`${known}-`.toLowerCase()));
    // DisplayNames throws for tags with extensions, such as de-u-co-phonebk.
    const { baseName } = new Intl.Locale(tag);
    return new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' }).of(baseName) !== undefined;
  }

  /** Creates a session. Converts the options and calls the monitor synchronously.
   * @param {new (...args: any[]) => LanguageModel} Class @param {CreateOptions} [given] */
  create(Class, given) {
    const options = toCreateOptions(given, false);
    const { signal, initialPrompts = [] } = options;
    const initial = initialPrompts.length ? messagesOf(initialPrompts, false) : [];
    if (signal?.aborted) throw signal.reason;
    const monitor = new CreateMonitor();
    options.monitor?.(monitor);
    if (signal?.aborted) throw signal.reason;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        monitor.stop();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#open(options, monitor)
        .then(async (model) => {
          const { tools = [], samplingMode = 'balanced' } = options;
          const { maxTokens, schemaBounds } = this.#options;
          const session = new Class({ model, initial, tools, samplingMode, maxTokens, schemaBounds });
          await session.prepare(signal);
          if (signal?.aborted) return;
          session.follow(signal);
          resolve(session);
        })
        .catch((error) => reject(domErrorOf(error, 'create')))
        .finally(() => {
          monitor.stop();
          signal?.removeEventListener('abort', onAbort);
        });
    });
  }

  /** Loads the model and reports the progress to the monitor. Rejects with a DOMException.
   * @param {CreateOptions} options @param {CreateMonitor} monitor @returns {Promise<Model>} */
  async #open(options, monitor) {
    const availability = await this.availability(options);
    if (availability === 'unavailable') throw unsupportedOptions();
    const { userActivation } = globalThis.navigator ?? {};
    if (availability === 'downloadable' && this.#options.userActivation && userActivation?.hasBeenActive === false) {
      throw noActivation();
    }
    monitor.report(0);
    await nextTask();
    // The load has no AbortSignal, because other sessions may wait for it. The fraction 1 is reported only when the
    // model is ready.
    const model = await this.#model.open(undefined, ({ loaded, total }) => {
      if (total) monitor.report(Math.min(loaded / total, 1 - 2 ** -16));
    });
    const { embedding, chatTemplate } = model.info;
    if (embedding || !chatTemplate) throw cannotChat();
    monitor.report(1);
    await nextTask();
    return model;
  }
}

/** Options of `install()`.
 * @typedef {object} InstallOptions
 * @property {boolean} [replace] Replaces the `LanguageModel` that the platform has. Default: false.
 */

/** Makes a model the global `LanguageModel`, unless the platform has one. Returns the global class: the platform's or
 * the new one. Throws `bad-option`.
 * @param {PromptSource} source as in createLanguageModel() @param {LanguageModelOptions & InstallOptions} [options]
 * @returns {LanguageModelClass} */
export function install(source, options = {}) {
  const { replace = false, ...others } = options;
  checkValue('replace', replace, boolean);
  const scope = /** @type {any} */ (globalThis);
  if (!replace && scope.LanguageModel) return scope.LanguageModel;
  const value = createLanguageModel(source, others);
  Object.defineProperty(scope, 'LanguageModel', { value, configurable: true, writable: true });
  return value;
}
