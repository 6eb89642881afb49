/* chat-cache: implements model.chatCache: saved chats in the store of models. The worker reads and writes them
 * (download/chat-cache.js), because pages cannot write files. */
/** @import { CallOptions } from './options.js' */
/** @import { Calls, StorageUse } from './protocol.js' */
/** @import { ChatCacheEntry } from './download/chat-cache.js' */
import { asBytes } from './download/describe.js';
import { bytes as isBytes, checkOptions, checkValue, rule, signal } from './options.js';
import { unpackChat } from './saved.js';

const MAX_NAME = 200;
const name = rule(`a string of 1 to ${MAX_NAME} characters`, (value) => {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME;
});

/** @typedef {(args: Calls['stored']['args'], signal?: AbortSignal) => Promise<any>} Ask */

/** Saved chats of all models, in the cache of models. */
export class ChatCache {
  #ask;

  /** @internal @param {Ask} ask */
  constructor(ask) {
    this.#ask = ask;
  }

  /** Stores the bytes of chat.save() under a name. Replaces a chat that this model has stored under that name.
   * @param {string} key @param {ArrayBuffer | ArrayBufferView} saved @param {CallOptions} [options]
   * @returns {Promise<void>} */
  async put(key, saved, options = {}) {
    checkValue('name', key, name);
    checkValue('saved', saved, isBytes);
    checkOptions(options, { signal });
    const bytes = /** @type {Uint8Array} */ (asBytes(saved));
    unpackChat(bytes);
    return this.#ask({ what: 'put', name: key, bytes }, options.signal);
  }

  /** Resolves with the bytes saved under a name, for the option `saved` of model.chat(). Resolves with undefined if
   * there are none.
   * @param {string} key @param {CallOptions} [options] @returns {Promise<Uint8Array | undefined>} */
  async get(key, options = {}) {
    checkValue('name', key, name);
    checkOptions(options, { signal });
    return this.#ask({ what: 'get', name: key }, options.signal);
  }

  /** Lists the chats of all models, latest use first. @returns {Promise<ChatCacheEntry[]>} */
  async list() {
    return this.#ask({ what: 'list' });
  }

  /** Returns how much storage the chats use. @returns {Promise<StorageUse>} */
  async estimate() {
    return { usage: (await this.list()).reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  /** Deletes every chat with this name, whatever its model. @param {string} key the name */
  async delete(key) {
    checkValue('name', key, name);
    await this.#ask({ what: 'remove', name: key });
  }

  /** Deletes all chats of all models. */
  async clear() {
    await this.#ask({ what: 'remove' });
  }
}
