/**
 * texts: the user's texts with their vectors, stored in this browser. All vectors are of one model, since vectors of
 * two models cannot be compared. With “Don’t save conversations” they are discarded with the tab.
 * @module
 */
import { Texts, vectorsBy } from '../../examples/search/texts.js';
import { deleteIndex, openIndex } from '../../js/search.js';
import { keepsNothing, recall, remember } from '../history/storage.js';
import { action } from '../shell/dom.js';
import { lineOf, withDetails } from '../shell/errors.js';
import { t } from '../shell/language.js';
import { fail, resolve } from '../shell/notices.js';

/** @import { Maker } from './maker.js' */
/** @import { Found } from '../../examples/search/texts.js' */
/** The model that made the stored vectors. @typedef {{ name: string, label: string, dimensions: number }} By */
/** @typedef {{ signal: AbortSignal, onProgress: (name: string, done: number, total: number) => void }} Reading */

const KEPT = 'search';

/** @returns {By | null} */
function keptBy() {
  const by = recall(KEPT, /** @type {By | null} */ (null));
  return typeof by?.name === 'string' && typeof by.label === 'string' ? by : null;
}

/** @param {unknown} error @param {HTMLButtonElement[]} remedies */
function failed(error, ...remedies) {
  fail('search', withDetails(lineOf(error), error), ...remedies);
}

/** The texts in the index of one model. open() must be called before. */
export class Collection {
  /** @type {Texts | null} */ #texts = null;
  /** @type {By | null} */ by = null;
  /** Whether the texts are stored for the next visit. */
  kept = true;
  /** Whether the settings allowed storing when the texts were opened. */
  #wanted = true;
  #changed;

  /** @param {() => void} changed   called when the user has deleted texts that cannot be read */
  constructor(changed) {
    this.#changed = changed;
  }

  /** Opens the stored texts, if they may be stored. Opens them again only if that setting has changed. */
  async open() {
    const wanted = !keepsNothing();
    if (this.#texts && this.#wanted === wanted) return;
    this.#wanted = this.kept = wanted;
    this.by = wanted ? keptBy() : null;
    this.#texts = this.by && (await this.#index(this.by));
  }

  /** Opens the index, in memory if the browser has no storage. @param {By} by */
  async #index({ name, dimensions }) {
    if (this.#wanted) {
      try {
        return new Texts(await openIndex({ name, dimensions }));
      } catch (/** @type {any} */ error) {
        this.kept = false;
        if (error.code === 'index-failed') this.#offerToDelete(error, name);
      }
    }
    return new Texts(await openIndex({ dimensions }));
  }

  /** @param {unknown} error @param {string} name of an index that cannot be read: damaged, or from an older version */
  #offerToDelete(error, name) {
    const remove = async () => {
      await deleteIndex({ name });
      resolve('search');
      this.#texts = null;
      await this.open();
      this.#changed();
    };
    failed(
      error,
      action(t('search.delete-all'), () => void remove().catch(failed)),
    );
  }

  /** @param {Maker} maker */
  async #begin({ key, label, model }) {
    const vectors = vectorsBy(model);
    const by = { name: key, label, dimensions: vectors.dimensions };
    const texts = await this.#index(by);
    texts.by = vectors;
    // Clears what an aborted run left, but not an index that another tab has just begun.
    if (texts.size && keptBy()?.name !== key) await texts.clear();
    return { by, texts };
  }

  /** @param {{ by: By, texts: Texts }} made */
  #take({ by, texts }) {
    this.by = by;
    this.#texts = texts;
    if (this.#wanted) remember(KEPT, by);
  }

  /** Number of passages in all texts. */
  get size() {
    return this.#texts?.size ?? 0;
  }

  /** Returns the names of the texts and their numbers of passages. */
  list() {
    return [...(this.#texts?.all() ?? [])].map(([name, { length }]) => ({ name, passages: length }));
  }

  /** Returns whether the stored vectors are of this model; true if there are none. @param {Maker} maker */
  fits({ key }) {
    return !this.size || this.by?.name === key;
  }

  /** Adds a text; if that fails, nothing of it is added.
   * @param {Maker} maker @param {import('../history/tree.js').Attached} file @param {Reading} reading */
  async add(maker, { name, text }, { signal, onProgress }) {
    if (this.by?.name !== maker.key) this.#take(await this.#begin(maker));
    const texts = this.#of(maker);
    return texts.add(name, text, { signal, onProgress: (done, total) => onProgress(name, done, total) });
  }

  /** @param {Maker} maker */
  #of({ model }) {
    const texts = /** @type {Texts} */ (this.#texts);
    texts.by = vectorsBy(model);
    return texts;
  }

  /** Indexes all texts again if another model made their vectors. @param {Maker} maker @param {Reading} reading */
  async readAnew(maker, { signal, onProgress }) {
    if (this.fits(maker)) return;
    const old = this.#texts;
    const made = await this.#begin(maker);
    try {
      for (const [name, passages] of old?.all() ?? []) {
        await made.texts.put(name, passages, { signal, onProgress: (done, total) => onProgress(name, done, total) });
      }
    } catch (error) {
      await made.texts.clear();
      throw error;
    }
    this.#take(made);
    await old?.clear();
  }

  /** Deletes a text. Does nothing if there is none of this name. @param {string} name */
  async delete(name) {
    await this.#texts?.delete(name);
  }

  /** Returns the passages nearest to a question, best first. All stored vectors must be of this model (fits()).
   * @param {Maker} maker @param {string} question @param {AbortSignal} signal @returns {Promise<Found[]>} */
  async nearest(maker, question, signal) {
    return this.#of(maker).nearest(question, signal);
  }
}
