/* texts: whole texts in an index: cut into passages, with a vector for each; and which passages are nearest to a question.
 * Shared with the page's own search (web/search.js). Knows no page; the index and the model are given. */
/** @import { Entry } from '../../js/search/segments.js' */
/** @import { SearchIndex } from '../../js/search/index.js' */
/** @import { Model } from '../../js/index.js' */
import { passagesOf } from './passages.js';

/** Numbers of a vector that are kept, of models that were made for vectors. */
export const DIMENSIONS = 256;
/** Passages that go together to a model that was made for them. Another one may have to answer in between. */
const AT_ONCE = 32;
const SHOWN = 5;

/** A passage, and which one of its text it is. @typedef {{ name: string, at: number, title: string, text: string }} Passage
 * @typedef {Passage & { score: number }} Found */

/** @param {string} name @param {number} at */
const idOf = (name, at) => `${name}#${at}`;

/** How a model makes vectors for a search: by the tasks that it was made for; else of the mean of its states.
 * @param {Model} model */
export function vectorsBy(model) {
  const { embedding, width } = model.info, made = Boolean(embedding), dimensions = made ? Math.min(DIMENSIONS, width) : width;
  const common = { dimensions, truncate: true };
  return {
    dimensions, atOnce: made ? AT_ONCE : 1,
    /** @param {{ title: string, text: string }[]} list @param {AbortSignal} [signal] */
    passages: (list, signal) => model.embed(list.map(({ text }) => text), made
      ? { ...common, task: 'document', title: list.map(({ title }) => title), signal }
      : { ...common, pooling: 'mean', signal }),
    /** @param {string} text @param {AbortSignal} [signal] @returns {Promise<Float32Array>} */
    question: (text, signal) => model.embed(text, made
      ? { ...common, task: 'query', signal } : { ...common, pooling: 'mean', signal }),
  };
}

export class Texts {
  #index;
  /** Whoever made the vectors that are there. @type {ReturnType<typeof vectorsBy> | null} */
  by = null;

  /** @param {SearchIndex} index */
  constructor(index) {
    this.#index = index;
  }

  /** How many passages there are. */
  get size() {
    return this.#index.size;
  }

  /** Of all texts, each in order. @returns {Map<string, Passage[]>} */
  all() {
    /** @type {Map<string, Passage[]>} */
    const found = new Map();
    for (const { data } of this.#index.entries()) {
      if (!found.has(data.name)) found.set(data.name, []);
      found.get(data.name)?.push(data);
    }
    for (const passages of found.values()) passages.sort((a, b) => a.at - b.at);
    return found;
  }

  /** A text, in place of what had its name: all of it, or nothing. Gives how many passages it has.
   * @param {string} name @param {string} text
   * @param {{ signal?: AbortSignal, onProgress?: (done: number, total: number) => void }} [options] */
  async add(name, text, options) {
    return this.put(passagesOf(text, name).map((passage, at) => ({ name, at, ...passage })), options);
  }

  /** Passages of one text. @param {Passage[]} passages @param {Parameters<Texts['add']>[2]} [options] */
  async put(passages, { signal, onProgress = () => {} } = {}) {
    const by = /** @type {NonNullable<Texts['by']>} */ (this.by);
    /** @type {{ id: string, vector: Float32Array, data: Passage }[]} */
    const items = [];
    for (let done = 0; done < passages.length; done += by.atOnce) {
      onProgress(done, passages.length);
      const some = passages.slice(done, done + by.atOnce), vectors = await by.passages(some, signal);
      some.forEach((data, i) => items.push({ id: idOf(data.name, data.at), vector: vectors[i], data }));
    }
    signal?.throwIfAborted();
    const before = passages.length ? this.all().get(passages[0].name) ?? [] : [];
    await this.#index.add(items);
    await this.#index.delete(before.slice(passages.length).map(({ name, at }) => idOf(name, at)));
    return passages.length;
  }

  /** @param {string} name */
  async delete(name) {
    await this.#index.delete((this.all().get(name) ?? []).map(({ at }) => idOf(name, at)));
  }

  async clear() {
    await this.#index.clear();
  }

  /** The passages nearest to a question, best first.
   * @param {string} question @param {AbortSignal} [signal] @returns {Promise<Found[]>} */
  async nearest(question, signal) {
    const by = /** @type {NonNullable<Texts['by']>} */ (this.by);
    const vector = await by.question(question, signal);
    return this.#index.query(vector, { count: SHOWN }).map(({ score, data }) => ({ ...data, score }));
  }
}
