/* states: model.stateCache: conversations that were saved, kept in the store of models, for after a reload. The worker
 * has them (download/chat-cache.js): pages cannot write files. */
/** @import { CallOptions } from './options.js' */
/** @import { Calls } from './protocol.js' */
/** @import { StateEntry } from './download/chat-cache.js' */
import { bytes as isBytes, checkOptions, checkValue, rule, signal } from './options.js';
import { unpackSaid } from './saved.js';

const MOST_NAME = 200;
const name = rule(`a string of 1 to ${MOST_NAME} characters`, (value) => {
  return typeof value === 'string' && value.length > 0 && value.length <= MOST_NAME;
});

/** @typedef {(args: Calls['stored']['args'], signal?: AbortSignal) => Promise<any>} Ask */

/** Saved chats of all models, in the cache of models. */
export class StateCache {
  #ask;

  /** @internal @param {Ask} ask */
  constructor(ask) {
    this.#ask = ask;
  }

  /** Stores the bytes of chat.save() under a name. Replaces those that this model had there.
   * @param {string} key @param {ArrayBuffer | ArrayBufferView} saved @param {CallOptions} [options]
   * @returns {Promise<void>} */
  async put(key, saved, options = {}) {
    checkValue('name', key, name);
    checkValue('saved', saved, isBytes);
    checkOptions(options, { signal });
    const view = ArrayBuffer.isView(saved) ? saved : new Uint8Array(saved);
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    unpackSaid(bytes);
    return this.#ask({ what: 'put', name: key, bytes }, options.signal);
  }

  /** For the option `saved` of model.chat(); undefined: there is nothing of that name.
   * @param {string} key @param {CallOptions} [options] @returns {Promise<Uint8Array | undefined>} */
  async get(key, options = {}) {
    checkValue('name', key, name);
    checkOptions(options, { signal });
    return this.#ask({ what: 'get', name: key }, options.signal);
  }

  /** Lists the chats, latest use first. @returns {Promise<StateEntry[]>} */
  async list() {
    return this.#ask({ what: 'list' });
  }

  /** Deletes the chats of this name, of every model. @param {string} key */
  async delete(key) {
    checkValue('name', key, name);
    await this.#ask({ what: 'remove', name: key });
  }

  /** Deletes all chats, of every model. */
  async clear() {
    await this.#ask({ what: 'remove' });
  }
}
