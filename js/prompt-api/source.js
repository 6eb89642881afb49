/* source: the model that the sessions share. The first create() loads it. */
/** @import { Loader } from '../lazy-model.js' */
/** @import { Model } from '../model.js' */
/** @import { LoadOptions, ModelSource } from '../options.js' */
import { LazyModel, isModel } from '../lazy-model.js';
import { LOAD_OPTIONS, checkOptions } from '../options.js';

/** A model for sessions: what loadModel() takes, a loaded model, or a function that loads one. The function is called
 * for the first create(), and again if it failed. @typedef {ModelSource | Model | Loader} PromptSource */

/** A model that is loaded on first use. */
export class Source {
  #model;

  /** @param {PromptSource} source @param {LoadOptions} options */
  constructor(source, options) {
    checkOptions(options, LOAD_OPTIONS);
    this.#model = new LazyModel(source, isModel(source) ? {} : options);
  }

  availability() {
    return this.#model.availability();
  }

  /** Loads the model, or waits for a load in progress. Takes no AbortSignal, because other sessions may wait for the
   * same load.
   * @param {(fraction: number) => void} onFraction */
  model(onFraction) {
    return this.#model.open(undefined, ({ loaded, total }) => {
      if (total) onFraction(loaded / total);
    });
  }
}
