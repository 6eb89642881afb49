/* shelf: one file's side of the cache. Nothing here throws: when the store fails, that is told, the copy is given up,
 * and the shelf is empty from then on; the load goes on without it. */
/** @import { GemmaError } from '../errors.js' */
/** @import { Store } from '../platform/env.js' */
/** @import { Journal } from './entries.js' */
import { Entry } from './entries.js';

/** Failures that do not make the stored bytes doubtful. */
const INNOCENT = ['network-error', 'http-error', 'truncated', 'no-memory', 'bad-option', 'bad-part'];
/** Why there is no copy, by the name of the store's error. @type {Record<string, string>} */
const WORDS = { QuotaExceededError: 'there is no room', NoModificationAllowedError: 'another tab is storing it' };

export class Shelf {
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #store;
  #readOnly;
  #notice;
  /** @type {Entry | undefined} */
  #entry;

  /** readOnly: the cache stays as it is.
   * @param {{ store?: Store, readOnly: boolean, notice: (code: string, message: string) => void }} around */
  constructor({ store, readOnly, notice }) {
    this.#store = store;
    this.#readOnly = readOnly;
    this.#notice = notice;
  }

  /** Whether a copy can be begun. */
  get open() {
    return Boolean(this.#store) && !this.#readOnly && !this.#entry;
  }

  /** The copy that is there, which is not used yet. @param {string} key */
  async find(key) {
    const store = this.#store;
    return store && this.#try(() => Entry.find(store, key));
  }

  /** @param {Entry} entry that was found */
  async use(entry) {
    if (entry.complete) this.kept = 'cached';
    else if (!this.#readOnly && !await this.#try(() => entry.save().then(() => true))) return;
    this.#entry = entry;
  }

  /** @param {Entry} entry that was found */
  async discard(entry) {
    await this.#try(() => entry.remove());
  }

  /** A new copy, if there is room. @param {string} name @param {Journal} journal */
  async create(name, journal) {
    await this.#try(async () => {
      const store = /** @type {Store} */ (this.#store);
      const { usage = 0, quota = Infinity } = await store.estimate?.() ?? {}, free = Math.max(quota - usage, 0);
      if (free < journal.total) throw new Error(`it needs ${journal.total} bytes of storage, and ${free} are free`);
      const entry = new Entry(store, name, journal);
      try {
        await entry.save();
        this.#entry = entry;
      } catch (error) {
        // What another tab stores is not ours to remove, not even when it has finished a moment later.
        if (/** @type {Error} */ (error).name !== 'NoModificationAllowedError') await entry.remove().catch(() => {});
        throw error;
      }
    });
  }

  /** Bytes of the whole file, if there is a copy of it, or of a part. */
  get total() {
    return this.#entry?.journal.total;
  }

  /** SHA-256 that the copy was found to have; empty if nobody looked. */
  get sha256() {
    return this.#entry?.journal.sha256 ?? '';
  }

  /** Where the piece that holds `at` ends; `at` where there is none. @param {number} at */
  held(at) {
    return this.#entry?.heldTo(at) ?? at;
  }

  /** Where the first piece behind `at` begins. @param {number} at */
  gap(at) {
    return this.#entry?.gapTo(at) ?? Infinity;
  }

  /** @param {number} need up to the last tensor's end */
  need(need) {
    if (this.#entry) this.#entry.journal.need = need;
  }

  /** All of `into`, or nothing; gives the count. @param {number} at @param {Uint8Array} into */
  async read(at, into) {
    const count = await this.#try(async () => this.#entry?.read(at, into).then(() => into.length));
    return count ?? 0;
  }

  /** @param {number} at @param {Uint8Array} bytes @param {number} journalEvery bytes that may be lost */
  async put(at, bytes, journalEvery) {
    if (!this.#readOnly && this.#entry) await this.#try(async () => this.#entry?.put(at, bytes, journalEvery));
  }

  /** @param {string} digest that the bytes were found to have @param {GemmaError} [error] why loading failed */
  async finish(digest, error) {
    const entry = this.#entry;
    this.#entry = undefined;
    try {
      if (entry) await this.#leave(entry, digest, error);
    } catch (problem) {
      // Another tab may have a whole copy, which does not matter.
      if (this.kept === 'none') this.tell(problem);
    }
  }

  /** @param {Entry} entry @param {string} digest @param {GemmaError} [error] */
  async #leave(entry, digest, error) {
    if (this.#readOnly) return entry.leave();
    if (this.kept === 'cached' && !error && !digest) {
      // When it was used; another tab may have it, which does not matter, and is not waited for.
      entry.close().catch(() => {});
      return;
    }
    if (error?.code && !INNOCENT.includes(error.code)) return entry.remove();
    if (!error && digest) entry.journal.sha256 = digest;
    await entry.close();
    if (!error && entry.complete && this.kept === 'none') this.kept = 'stored';
  }

  /** @param {unknown} error why nothing is kept */
  tell(error) {
    const { name, message } = /** @type {Error} */ (error);
    this.#notice('not-cached', `the model is not kept for the next time: ${WORDS[name] ?? message}`);
  }

  /** @template T @param {() => Promise<T>} f @returns {Promise<T | undefined>} */
  async #try(f) {
    try {
      return await f();
    } catch (error) {
      const entry = this.#entry;
      this.#entry = this.#store = undefined;
      await entry?.remove().catch(() => {});
      this.tell(error);
      return undefined;
    }
  }
}
