/* lazy-model: loads a model on first use. All calls that need it share one load. */
/** @import { Model } from './model.js' */
/** @import { LoadOptions, ModelSource } from './options.js' */
/** @import { Progress } from './protocol.js' */
import { isCached } from './cached.js';
import { abortError } from './errors.js';
import { alreadyLoaded } from './front-errors.js';
import { loadModel } from './model.js';
import { probe } from './probe.js';
import { onAbort, unlessAborted } from './rpc/signals.js';

/** Loads a model. @typedef {(options: Pick<LoadOptions, 'onProgress'>) => Promise<Model>} Loader */
/** Whether a model can be used: `unavailable` on this platform; `downloadable` before a load; `downloading` during a
 * load; `available` without a download.
 * @typedef {'unavailable' | 'downloadable' | 'downloading' | 'available'} Availability */
/** A load in progress. waiting: number of calls that wait for the model.
 * @typedef {{ model: Promise<Model>, abort: AbortController, waiting: number,
 *   listeners: Set<(progress: Progress) => void> }} Load */

/** A model that is loaded on first use, or a loaded model of the caller. */
export class LazyModel {
  #source;
  #options;
  /** @type {Model | undefined} */
  model;
  /** @type {Load | null} */
  #load = null;
  /** Settles when the previous load has ended. @type {Promise<unknown>} */
  #ended = Promise.resolve();

  /** @param {ModelSource | Model | Loader} source @param {LoadOptions} options */
  constructor(source, options) {
    this.#options = options;
    this.#source = /** @type {ModelSource | Loader} */ (source);
    this.isGiven = isModel(source);
    if (!isModel(source)) return;
    this.model = source;
    if (Object.keys(options).length) throw alreadyLoaded();
  }

  /** Loads the model if necessary, and resolves with it. The load is aborted when no call waits for it any more.
   * @param {AbortSignal} [signal] @param {(progress: Progress) => void} [onProgress] */
  async open(signal, onProgress = () => {}) {
    if (signal?.aborted) throw abortError(signal);
    if (this.model) return this.model;
    const load = (this.#load ??= this.#start());
    load.listeners.add(onProgress);
    load.waiting++;
    try {
      return await unlessAborted(load.model, signal);
    } finally {
      load.listeners.delete(onProgress);
      if (--load.waiting === 0) this.#abort(load);
    }
  }

  /** Returns how far the model is from being usable. If the cache cannot be read, assumes that a download is needed.
   * @returns {Promise<Availability>} */
  async availability() {
    if (this.model) return 'available';
    if (!probe().variant) return 'unavailable';
    if (this.#load) return 'downloading';
    if (typeof this.#source === 'function') return 'downloadable';
    // isCached() fails if a repository's files cannot be listed, for example without the network.
    const isLocal = await isCached(this.#source, this.#options).catch(() => false);
    return isLocal ? 'available' : 'downloadable';
  }

  /** Aborts a load in progress and frees the model, unless the caller passed a loaded one. The next open() loads it
   * again. */
  async dispose() {
    if (this.#load) this.#abort(this.#load);
    await this.#ended;
    if (this.isGiven) return;
    const { model } = this;
    this.model = undefined;
    await model?.dispose();
  }

  /** @returns {Load} */
  #start() {
    const abort = new AbortController();
    /** @type {Load['listeners']} */
    const listeners = new Set();
    const load = { model: this.#read(abort, listeners), abort, listeners, waiting: 0 };
    this.#ended = load.model
      .catch(() => {})
      .then(() => {
        if (this.#load === load) this.#load = null;
      });
    return load;
  }

  /** @param {AbortController} abort @param {Load['listeners']} listeners */
  async #read(abort, listeners) {
    const { signal, onProgress, ...options } = this.#options;
    await this.#ended;
    if (this.model) return this.model; // an aborted load may still have succeeded
    const unsubscribe = onAbort(signal, () => abort.abort(signal?.reason));
    const source = this.#source;
    const tellAll = (/** @type {Progress} */ progress) => {
      onProgress?.(progress);
      for (const tell of listeners) tell(progress);
    };
    try {
      if (typeof source === 'function') return (this.model = await source({ onProgress: tellAll }));
      const model = await loadModel(source, { ...options, signal: abort.signal, onProgress: tellAll });
      if (!options.restart) void model.lost.then(() => this.#forget(model));
      return (this.model = model);
    } finally {
      unsubscribe();
    }
  }

  /** @param {Load} load */
  #abort(load) {
    load.abort.abort();
    if (this.#load === load) this.#load = null;
  }

  /** Frees a model whose worker died, so that the next open() loads it again. @param {Model} model */
  async #forget(model) {
    if (this.model === model) this.model = undefined;
    await model.dispose();
  }
}

/** Returns whether a source is a loaded model. Does not use `instanceof`, because the model may be of another copy of
 * this package.
 * @param {any} source
 * @returns {source is Model} */
export function isModel(source) {
  return typeof source?.generate === 'function' && typeof source.info === 'object';
}
