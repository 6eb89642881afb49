/* texts: keeps whole texts in an index, cut into passages with a vector each, and finds the passages nearest to a
 * question. Shared with the page's search (web/search/search.js). Does not depend on a page: the caller passes the
 * index and the model. */
/** @import { Entry } from '../../js/search/segments.js' */
/** @import { SearchIndex } from '../../js/search/index.js' */
/** @import { Model } from '../../js/index.js' */
import { passagesOf } from './passages.js';

/** Number of dimensions to which vectors of embedding models are truncated. */
export const DIMENSIONS = 256;
/** Number of passages that one embed() call of an embedding model embeds. A call of a chat model embeds only one, so
 * that the model can answer between the calls. */
const AT_ONCE = 32;
const SHOWN = 5;

/** A passage of a text. `name`: the name of the text. `at`: index of the passage in the text.
 * @typedef {{ name: string, at: number, title: string, text: string }} Passage
 * @typedef {Passage & { score: number }} Found */

/** @param {string} name @param {number} at */
const idOf = (name, at) => `${name}#${at}`;

/** @param {Passage[]} a @param {Passage[]} b */
const same = (a, b) =>
  a.length === b.length && a.every(({ title, text }, i) => title === b[i].title && text === b[i].text);

/** Returns functions that embed passages and questions: with an embedding model's tasks `document` and `query`, or, for
 * other models, as the mean of the hidden states.
 * @param {Model} model */
export function vectorsBy(model) {
  const { embedding, width } = model.info;
  const made = Boolean(embedding);
  const dimensions = made ? Math.min(DIMENSIONS, width) : width;
  const common = { dimensions, truncate: true };
  return {
    model,
    dimensions,
    atOnce: made ? AT_ONCE : 1,
    /** @param {{ title: string, text: string }[]} list @param {AbortSignal} [signal] */
    passages: (list, signal) =>
      model.embed(
        list.map(({ text }) => text),
        made
          ? { ...common, task: 'document', title: list.map(({ title }) => title), signal }
          : { ...common, pooling: 'mean', signal },
      ),
    /** @param {string} text @param {AbortSignal} [signal] @returns {Promise<Float32Array>} */
    question: (text, signal) =>
      model.embed(text, made ? { ...common, task: 'query', signal } : { ...common, pooling: 'mean', signal }),
  };
}

export class Texts {
  #index;
  /** Settles when the last change of the index has ended. Changes run one after the other, so that versions of a text
   * never mix.
   * @type {Promise<unknown>} */
  #turn = Promise.resolve();
  /** The model that embedded each text, by the text's name. @type {Map<string, Model>} */
  #readers = new Map();
  /** Functions that embed with the model whose vectors are in the index. @type {ReturnType<typeof vectorsBy> | null} */
  by = null;

  /** @param {SearchIndex} index */
  constructor(index) {
    this.#index = index;
  }

  /** Number of passages in the index. */
  get size() {
    return this.#index.size;
  }

  /** Returns the passages of all texts, by the text's name and in the order of the text.
   * @returns {Map<string, Passage[]>} */
  all() {
    /** @type {Map<string, Passage[]>} */
    const found = new Map();
    for (const { data } of this.#index.list()) {
      if (!found.has(data.name)) found.set(data.name, []);
      found.get(data.name)?.push(data);
    }
    for (const passages of found.values()) passages.sort((a, b) => a.at - b.at);
    return found;
  }

  /** Adds or replaces a text, completely or not at all. Returns the number of its passages.
   * @param {string} name @param {string} text
   * @param {{ signal?: AbortSignal, onProgress?: (done: number, total: number) => void }} [options] */
  async add(name, text, options) {
    return this.put(
      name,
      passagesOf(text, name).map((passage, at) => ({ name, at, ...passage })),
      options,
    );
  }

  /** Adds or replaces the passages of a text. Does nothing if the same model has embedded the same passages.
   * @param {string} name @param {Passage[]} passages @param {Parameters<Texts['add']>[2]} [options] */
  put(name, passages, options = {}) {
    const by = /** @type {NonNullable<Texts['by']>} */ (this.by);
    return this.#inTurn(async () => {
      const before = this.all().get(name) ?? [];
      if (this.#readers.get(name) !== by.model || !same(before, passages)) {
        await this.#replace(before, passages, by, options);
        this.#readers.set(name, by.model);
      }
      return passages.length;
    });
  }

  /** @param {Passage[]} before @param {Passage[]} passages @param {NonNullable<Texts['by']>} by
   * @param {NonNullable<Parameters<Texts['add']>[2]>} options */
  async #replace(before, passages, by, { signal, onProgress = () => {} }) {
    /** @type {{ id: string, vector: Float32Array, data: Passage }[]} */
    const items = [];
    for (let done = 0; done < passages.length; done += by.atOnce) {
      signal?.throwIfAborted();
      onProgress(done, passages.length);
      const some = passages.slice(done, done + by.atOnce);
      const vectors = await by.passages(some, signal);
      some.forEach((data, i) => items.push({ id: idOf(data.name, data.at), vector: vectors[i], data }));
    }
    signal?.throwIfAborted();
    await this.#index.add(items);
    await this.#index.delete(before.slice(passages.length).map(({ name, at }) => idOf(name, at)));
  }

  /** @template T @param {() => Promise<T>} f @returns {Promise<T>} */
  #inTurn(f) {
    const turn = this.#turn.then(f);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** @param {string} name */
  delete(name) {
    return this.#inTurn(() => this.#index.delete((this.all().get(name) ?? []).map(({ at }) => idOf(name, at))));
  }

  clear() {
    return this.#inTurn(() => this.#index.clear());
  }

  /** @param {string} question @param {AbortSignal} [signal] @returns {Promise<Found[]>} */
  async nearest(question, signal) {
    const by = /** @type {NonNullable<Texts['by']>} */ (this.by);
    const vector = await by.question(question, signal);
    return this.#index.query(vector, { count: SHOWN }).map(({ score, data }) => ({ ...data, score }));
  }
}
