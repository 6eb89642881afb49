/* chat-cache: stores saved chats (chat.save()) beside the cached models. Each chat is a file with checksums and a
 * journal, like a model's copy (entry.js). Its name is c-NAME-ENGINE-TIME.state. NAME: hash of the chat's name; ENGINE:
 * hash of the model and of the type and layout of its KV cache; TIME: time of creation with a random number, so that no
 * two tabs write the same file.
 *
 * A chat's previous file is removed when the new one is complete. The total size of all files is limited; the least
 * recently used ones are removed first. */
/** @import { Store } from '../protocol.js' */
/** @import { Journal } from './entries.js' */
import { ModelError } from '../errors.js';
import { checksum } from './checksum.js';
import { emptyJournal, isState, isWhole, readJournal } from './entries.js';
import { Entry } from './entry.js';
import { chatDamaged, chatLost, chatTooLarge, chatsFailed } from './errors.js';
import { within } from './cached-file.js';

const AT_ONCE = 1 << 22;
/** Time limit of each operation of the store, in ms. */
const PATIENCE_MS = 8000;
const DIGITS = 16;
/** Age in ms after which an unfinished file counts as left behind by a killed process. */
const ABANDONED_MS = 600_000;
/** Size of a saved chat's header, and offset of the messages' length in it, in bytes (js/saved.js). */
const HEAD = 16;
const LENGTH_AT = 8;
const DEPS = { sum: checksum };

/** A cached chat.
 * @typedef {object} ChatCacheEntry
 * @property {string} name Name of the chat.
 * @property {number} bytes Size in bytes.
 * @property {Date} lastUsed Time of the last use.
 * @property {boolean} fits Whether this model saved the chat with the same KV cache type and layout, so that its KV
 *   cache can be restored.
 */
/** A file of a saved chat. journal: null if no journal was written yet.
 * @typedef {{ file: string, journal: Journal | null, size: number }} Found */
/** Dependencies of ChatFiles. engine: fingerprint of model and KV cache, 16 hexadecimal digits; hash: hashes a text;
 * limit: maximum size of all files in bytes.
 * @typedef {{ engine: string, hash: (text: string) => string, limit: number }} ChatCacheDeps */
/** Function that pauses, so that the worker can receive messages. Throws `aborted` if the call was aborted.
 * @typedef {() => Promise<unknown>} Pause */

/** Returns the length in bytes of the header and the messages of a saved chat, Infinity if the header is incomplete.
 * @param {Uint8Array} bytes */
function saidOf(bytes) {
  if (bytes.length < HEAD) return Infinity;
  return HEAD + new DataView(bytes.buffer, bytes.byteOffset).getUint32(LENGTH_AT, true);
}

/** The saved chats in one store. If the store fails, all methods reject with `cache-failed`. */
export class ChatFiles {
  #store;
  #deps;
  /** Resolves when the previous operation ends: operations run one after the other. @type {Promise<unknown>} */
  #turn = Promise.resolve();
  /** Complete files by name. Their contents no longer change, so they are not read again. @type {Map<string, Found>} */
  #seen = new Map();

  /** @param {Store} store @param {ChatCacheDeps} deps */
  constructor(store, deps) {
    this.#store = patient(store);
    this.#deps = deps;
  }

  /** Lists the chats, latest use first. @returns {Promise<ChatCacheEntry[]>} */
  list() {
    return this.#inTurn('listed', async () =>
      (await this.#whole()).map(({ file, journal: { url, total, used } }) => {
        return { name: url, bytes: total, lastUsed: new Date(used), fits: file.startsWith(this.#mine(url)) };
      }),
    );
  }

  /** Returns the saved chat with a name, or undefined if there is none. Prefers one that this model saved with the same
   * KV cache type and layout; only the messages of others can be used. Omits the bytes from the first corrupt piece
   * on. Throws `bad-saved` if the messages are corrupt.
   * @param {string} name @param {Pause} pause
   * @returns {Promise<Uint8Array | undefined>} */
  get(name, pause) {
    return this.#inTurn('read', async () => {
      try {
        const bytes = await this.#latest(name, pause);
        if (bytes) return bytes;
      } catch (error) {
        if (error instanceof ModelError && error.code === 'aborted') throw error;
      }
      return this.#latest(name, pause); // reads the chat again, because another tab may have replaced the file
    });
  }

  /** @param {string} name @param {Pause} pause @returns {Promise<Uint8Array | undefined>} */
  async #latest(name, pause) {
    const named = (await this.#whole(this.#prefix(name))).filter(({ journal }) => journal.url === name);
    const found = named.find(({ file }) => file.startsWith(this.#mine(name))) ?? named[0];
    if (!found) return undefined;
    const bytes = await this.#read(found, pause);
    if (bytes) return bytes;
    throw chatDamaged(name);
  }

  /** Stores a chat and removes its previous file. Removes the least recently used chats if there is no room. Rejects
   * with `cache-failed` if the chat is larger than the limit.
   * @param {string} name @param {Uint8Array} bytes @param {Pause} pause @returns {Promise<void>} */
  put(name, bytes, pause) {
    const { limit } = this.#deps;
    const { length } = bytes;
    return this.#inTurn('stored', async () => {
      if (length > limit) throw chatTooLarge(length, limit);
      const others = (/** @type {Found} */ { file }) => !file.startsWith(this.#mine(name));
      const before = await this.#all('', this.#seen);
      if (before.some(isAbandoned) || (await this.#missing(before.filter(others), length)) > 0) {
        await this.#makeRoom((await this.#all()).filter(others), length);
      }
      // Writes the file again if it is lost: another process that stores the same chat removes unfinished files.
      const isStored = (await this.#write(name, bytes, pause)) || (await this.#write(name, bytes, pause));
      if (!isStored) throw chatLost();
      for (const found of before) if (!others(found)) await this.#remove(found.file);
    });
  }

  /** Removes the files of one chat or all chats, whichever model saved them. @param {string} [name]
   * @returns {Promise<void>} */
  remove(name) {
    return this.#inTurn('deleted', async () => {
      const start = name === undefined ? '' : this.#prefix(name);
      const names = (await this.#store.list()).filter((file) => isState(file) && file.startsWith(start));
      for (const file of names) await this.#store.remove(file);
    });
  }

  /** @template T @param {string} done participle for the error message @param {() => Promise<T>} f
   * @returns {Promise<T>} */
  #inTurn(done, f) {
    const ended = this.#turn.then(f).catch((cause) => {
      throw chatsFailed(done, cause);
    });
    this.#turn = ended.catch(() => {});
    return ended;
  }

  /** @param {string} name */
  #prefix(name) {
    return `c-${this.#deps.hash(name).slice(0, DIGITS)}-`;
  }

  /** @param {string} name */
  #mine(name) {
    return `${this.#prefix(name)}${this.#deps.engine}-`;
  }

  /** Returns the files of saved chats, latest use first. @param {string} [start] prefix of the file names
   * @param {Map<string, Found>} [seen] known files, which are not read again @returns {Promise<Found[]>} */
  async #all(start = '', seen = new Map()) {
    const store = this.#store;
    const names = (await store.list()).filter(isState);
    /** @type {Found[]} */
    const found = [];
    for (const file of names) if (file.startsWith(start)) found.push(seen.get(file) ?? (await this.#look(file)));
    for (const file of this.#seen.keys()) if (!names.includes(file)) this.#seen.delete(file);
    return found.sort((a, b) => lastUse(b) - lastUse(a));
  }

  /** @param {string} file @returns {Promise<Found>} */
  async #look(file) {
    const size = await this.#store.size(file);
    const journal = await readJournal(this.#store, file, size).catch(() => null);
    const found = { file, journal, size };
    if (journal && isWhole(journal)) this.#seen.set(file, found);
    return found;
  }

  /** Returns the complete files of saved chats, latest use first. @param {string} [start] prefix of the file names */
  async #whole(start) {
    const whole = (await this.#all(start)).filter(({ journal }) => journal && isWhole(journal));
    return /** @type {(Found & { journal: Journal })[]} */ (whole);
  }

  /** Returns the bytes of a saved chat's file up to the first corrupt piece, or undefined if the messages are corrupt.
   * @param {Found & { journal: Journal }} found @param {Pause} pause */
  async #read({ file, journal }, pause) {
    const entry = new Entry(this.#store, file, journal, DEPS);
    const bytes = new Uint8Array(journal.total);
    try {
      let at = 0;
      let right = 1;
      for (; at < bytes.length && right; at += right) {
        right = await entry.read(at, bytes.subarray(at, at + AT_ONCE));
        await pause();
      }
      if (at < saidOf(bytes.subarray(0, at))) return undefined;
      // Saves the time of use in the journal. A failure does no harm.
      await entry.save().catch(() => {});
      return bytes.subarray(0, at);
    } finally {
      await entry.leave();
    }
  }

  /** Writes a file. Returns false if the store has lost it. @param {string} name @param {Uint8Array} bytes
   * @param {Pause} pause */
  async #write(name, bytes, pause) {
    const { length: total } = bytes;
    const lane = { start: 0, bytes };
    const time = Date.now().toString(16);
    const chance = crypto.getRandomValues(new Uint16Array(1))[0].toString(16);
    const entry = new Entry(
      this.#store,
      `${this.#mine(name)}${time}-${chance}.state`,
      { ...emptyJournal(total, AT_ONCE), url: name },
      DEPS,
    );
    let isStored = false;
    try {
      for (let at = 0; at < total; at += AT_ONCE) {
        await entry.put(lane, at, Math.min(at + AT_ONCE, total), { journalEvery: Infinity, same: true });
        await pause();
      }
      await entry.close();
      return (isStored = await entry.there());
    } finally {
      if (!isStored) {
        await entry.leave().catch(() => {});
        await entry.remove().catch(() => {});
      }
    }
  }

  /** Returns how many bytes must be freed before the new file fits; at most 0 if there is room.
   * @param {Found[]} others files of other chats @param {number} length size of the new file in bytes */
  async #missing(others, length) {
    const { usage = 0, quota = Infinity } = (await this.#store.estimate?.()) ?? {};
    const over = others.reduce((sum, { size }) => sum + size, 0) + length - this.#deps.limit;
    return Math.max(over, length - Math.max(quota - usage, 0));
  }

  /** Removes abandoned files, and the least recently used chats until the new file fits.
   * @param {Found[]} others files of other chats @param {number} length size of the new file in bytes */
  async #makeRoom(others, length) {
    let missing = await this.#missing(others, length);
    for (const found of others.reverse()) {
      if ((missing > 0 || isAbandoned(found)) && (await this.#remove(found.file))) missing -= found.size;
    }
  }

  /** Removes a file. Returns false if that fails, because another tab has removed the file already, or reads it.
   * @param {string} file */
  async #remove(file) {
    return this.#store.remove(file).then(
      () => true,
      () => false,
    );
  }
}

/** @param {Store} store @returns {Store} */
function patient(store) {
  const calls = Object.entries(store).map(([name, call]) => [
    name,
    (/** @type {any[]} */ ...args) => {
      return within(PATIENCE_MS, (async () => /** @type {Function} */ (call).apply(store, args))());
    },
  ]);
  return Object.fromEntries(calls);
}

/** Returns the time at which a saved chat's file was created, in ms since 1970, from the file's name.
 * @param {string} file */
const begunAt = (file) => parseInt(file.split('-')[3], 16);

/** @param {Found} found */
const isAbandoned = ({ file, journal }) => {
  return !(journal && isWhole(journal)) && Date.now() - begunAt(file) > ABANDONED_MS;
};

/** @param {Found} found */
const lastUse = ({ file, journal }) => journal?.used ?? begunAt(file);
