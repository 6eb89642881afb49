/* source: the model behind the sessions: loads it once, for the first create(), and knows whether that downloads. */
/** @import { LoadOptions, ModelSource } from '../options.js' */
/** @import { Availability } from './idl.js' */
import { isCached } from '../cached.js';
import { Model, loadModel } from '../model.js';
import { checkOptions, LOAD_OPTIONS } from '../options.js';
import { probe } from '../probe.js';

/** Loads the model. Called for the first create(), and again if it failed.
 * @typedef {(options: Pick<LoadOptions, 'onProgress'>) => Promise<Model>} Loader */
/** A model for sessions: what loadModel() takes, a loaded model, or a function that loads one.
 * @typedef {ModelSource | Model | Loader} PromptSource */

/** A model that is loaded when it is needed. */
export class Source {
  #load;
  #local;
  /** @type {Promise<Model> | null} */
  #loading = null;
  #loaded = false;
  /** @type {Set<(fraction: number) => void>} */
  #listeners = new Set();

  /** @param {PromptSource} source @param {LoadOptions} options */
  constructor(source, options) {
    checkOptions(options, LOAD_OPTIONS);
    const ready = source instanceof Model;
    this.#loaded = ready;
    if (ready) this.#loading = Promise.resolve(source);
    const given = /** @type {ModelSource} */ (source);
    this.#load = typeof source === 'function' ? /** @type {Loader} */ (source) : loaderOf(given, options);
    // create() reports what is wrong with the source.
    this.#local = async () => typeof source !== 'function' && isCached(given, options).catch(() => false);
  }

  /** @returns {Promise<Availability>} */
  async availability() {
    if (!probe().variant) return 'unavailable';
    if (this.#loading) return this.#loaded ? 'available' : 'downloading';
    return (await this.#local()) ? 'available' : 'downloadable';
  }

  /** Loads the model, or waits for it. An abort of one caller does not abort the load, which others may wait for.
   * @param {(fraction: number) => void} onFraction @returns {Promise<Model>} */
  async model(onFraction) {
    this.#listeners.add(onFraction);
    try {
      this.#loading ??= this.#begin();
      return await this.#loading;
    } finally {
      this.#listeners.delete(onFraction);
    }
  }

  async #begin() {
    try {
      const model = await this.#load({
        onProgress: ({ loaded, total }) => {
          if (total) for (const report of [...this.#listeners]) report(loaded / total);
        },
      });
      this.#loaded = true;
      return model;
    } catch (error) {
      this.#loading = null;
      throw error;
    }
  }
}

/** @param {ModelSource} source @param {LoadOptions} options @returns {Loader} */
function loaderOf(source, options) {
  return ({ onProgress }) =>
    loadModel(source, {
      ...options,
      onProgress: (progress) => {
        options.onProgress?.(progress);
        onProgress?.(progress);
      },
    });
}
