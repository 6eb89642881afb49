/* models: keeps the models of a handler by id, and handles GET /v1/models. */
/** @import { Model } from '../model.js' */
import { show } from '../errors.js';
import { badModels, missingField, notLoaded, unknownModel } from './errors.js';

/** A model, or a function that loads it. The function is called at the first request for the model, and again if the
 * load failed.
 * @typedef {Model | (() => Model | Promise<Model>)} ModelEntry */
/** One model for all requests, or models by id.
 * @typedef {Model | Record<string, ModelEntry>} HandlerModels */

/** @param {any} value @returns {value is Model} */
const isModel = (value) => typeof value?.generate === 'function' && typeof value.info === 'object';

/** The models of one handler. Those given as functions are loaded at their first request. */
export class ModelRegistry {
  /** @type {Map<string, ModelEntry>} */
  #entries;
  /** @type {Map<string, Promise<Model>>} */
  #loaded = new Map();
  #only;
  #created = Math.floor(Date.now() / 1000);

  /** @param {HandlerModels} models */
  constructor(models) {
    this.#only = isModel(models);
    const entries = isModel(models)
      ? [[models.info.name || models.info.architecture, models]]
      : Object.entries(models ?? {});
    this.#entries = new Map(/** @type {[string, ModelEntry][]} */ (entries));
    const wrong = [...this.#entries].find(([, entry]) => typeof entry !== 'function' && !isModel(entry));
    if (wrong || !this.#entries.size) {
      throw badModels(wrong ? `${show(wrong[1])} as \`${wrong[0]}\`` : show(models));
    }
  }

  /** Returns the model for an id, and its id. A handler with a single model accepts every id.
   * @param {unknown} asked the request's field `model` @returns {Promise<{ id: string, model: Model }>} */
  async get(asked) {
    const [first] = this.#entries.keys();
    if (asked === undefined && !this.#only) throw missingField('model');
    const id = this.#only ? first : String(asked);
    const entry = this.#entry(id);
    if (typeof entry !== 'function') return { id, model: entry };
    if (!this.#loaded.has(id)) {
      const loading = Promise.resolve()
        .then(entry)
        .then((model) => {
          if (!isModel(model)) throw notLoaded(id, model);
          return model;
        });
      this.#loaded.set(id, loading);
      loading.catch(() => this.#loaded.delete(id));
    }
    return { id, model: await /** @type {Promise<Model>} */ (this.#loaded.get(id)) };
  }

  /** @param {string} id */
  #entry(id) {
    const entry = this.#entries.get(id);
    if (entry) return entry;
    throw unknownModel(id, [...this.#entries.keys()]);
  }

  /** Returns the API's description of a model, without loading it. Throws a RequestError for an unknown id.
   * @param {string} id */
  describe(id) {
    this.#entry(id);
    return { id, object: /** @type {const} */ ('model'), created: this.#created, owned_by: 'gemma-wasm' };
  }

  /** Returns the API's descriptions of all models, loaded or not. */
  list() {
    return [...this.#entries.keys()].map((id) => this.describe(id));
  }
}

/** Handles GET /v1/models. @param {{ models: ModelRegistry }} context */
export async function listModels({ models }) {
  return Response.json({ object: 'list', data: models.list() });
}

/** Handles GET /v1/models/{id}. @param {{ models: ModelRegistry, params: string[] }} context */
export async function retrieveModel({ models, params: [id] }) {
  return Response.json(models.describe(id));
}
