/* shelf: one file's side of the cache. Nothing here throws: when the store fails, that is told, and the shelf is empty
 * from then on; the load goes on without it. The rules of the store, which tests/js/store-faults.test.js holds to:
 *   reading never deletes, and what a server answers does not either
 *   a complete copy goes when another one is complete, flushed, and was loaded as a model; or when the user says so
 *   a copy that proves to be wrong is marked (`doubt`) and not complete any more, but stays until then
 *   what was begun in this load goes with it when it proves to be no model, or cannot be written
 *   a short read is read on, a short write is written on; one that gets nowhere is an error
 *   no store is waited for longer than a stalled connection */
/** @import { GemmaError } from '../errors.js' */
/** @import { Store } from '../platform/env.js' */
/** @import { Journal } from './entries.js' */
import { Entry } from './entries.js';

/** Failures that do not make the stored bytes doubtful. */
const INNOCENT = ['network-error', 'http-error', 'truncated', 'no-memory', 'bad-option', 'bad-part', 'aborted'];
/** Why there is no copy, by the name of the store's error. @type {Record<string, string>} */
const WORDS = { QuotaExceededError: 'there is no room', NoModificationAllowedError: 'another tab is storing it' };

/** @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} */
async function within(ms, promise) {
  /** @type {any} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new DOMException('the store does not answer', 'TimeoutError')), ms);
  });
  try {
    return /** @type {T} */ (await Promise.race([promise, late]));
  } finally {
    clearTimeout(timer);
  }
}

/** Whether a failure is not that another has the file, or that nobody knows. @param {unknown} error */
const ours = (error) => !['NoModificationAllowedError', 'TimeoutError'].includes(/** @type {any} */ (error)?.name);

/** What is free, if it is too little, else nothing. @param {Store} store @param {number} total */
async function missing(store, total) {
  const { usage = 0, quota = Infinity } = await store.estimate?.() ?? {}, free = Math.max(quota - usage, 0);
  return free < total ? String(free) : '';
}

export class Shelf {
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #store;
  #readOnly;
  #notice;
  #patience;
  /** @type {Entry | undefined} */
  #entry;
  /** All that were found. @type {Entry[]} */
  #found = [];

  /** readOnly: the cache stays as it is; patience: ms.
   * @param {{ store?: Store, readOnly: boolean, notice: (code: string, message: string) => void }} around
   * @param {number} patience */
  constructor({ store, readOnly, notice }, patience) {
    this.#patience = patience;
    this.#store = store;
    this.#readOnly = readOnly;
    this.#notice = notice;
  }

  /** Whether a copy can be begun. */
  get open() {
    return Boolean(this.#store) && !this.#readOnly && !this.#entry;
  }

  /** The copies that are there, which are not used yet: the latest first. @param {string} key */
  async find(key) {
    const store = this.#store;
    if (store) this.#found = await this.#try(() => Entry.find(store, key)) ?? [];
    return this.#found;
  }

  /** All of `into`, from a copy that is not used yet.
   * @param {Entry} entry @param {number} at @param {Uint8Array} into */
  look(entry, at, into) {
    return this.#try(() => entry.read(at, into).then(() => true));
  }

  /** A copy proved to be wrong, and is not complete from now on; or to be right.
   * @param {Entry} entry @param {boolean} doubt */
  async mark(entry, doubt) {
    entry.journal.doubt = doubt || undefined;
    if (!this.#readOnly) await within(this.#patience, entry.close()).catch(() => {});
  }

  /** @param {Entry} entry that was found */
  async use(entry) {
    if (entry.whole) this.kept = 'cached';
    else if (!this.#readOnly && !await this.#try(() => entry.save().then(() => true))) return;
    this.#entry = entry;
  }

  /** A new copy, if there is room. @param {string} stem of its name @param {Journal} journal */
  async create(stem, journal) {
    await this.#try(async () => {
      const store = /** @type {Store} */ (this.#store);
      if (await missing(store, journal.total)) await this.#clear((old) => !old.whole);
      const free = await missing(store, journal.total);
      if (free) throw new Error(`it needs ${journal.total} bytes of storage, and ${free} are free`);
      const taken = this.#found.some(({ name }) => name === `${stem}.gguf`);
      const entry = new Entry(store, `${stem}${taken ? `-${Date.now().toString(16)}` : ''}.gguf`, journal);
      try {
        await entry.save();
        this.#entry = entry;
      } catch (error) {
        // What another tab stores is not ours to remove, not even when it has finished a moment later.
        if (ours(error)) await entry.remove().catch(() => {});
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
    if (count === undefined) this.kept = 'none';
    return count ?? 0;
  }

  /** @param {number} at @param {Uint8Array} bytes @param {number} journalEvery bytes that may be lost */
  async put(at, bytes, journalEvery) {
    if (!this.#readOnly && this.#entry) await this.#try(async () => this.#entry?.put(at, bytes, journalEvery), true);
  }

  /** @param {string} digest that the bytes were found to have @param {GemmaError} [error] why loading failed */
  async finish(digest, error) {
    const entry = this.#entry;
    this.#entry = undefined;
    try {
      if (entry) await within(this.#patience, this.#leave(entry, digest, error));
    } catch (problem) {
      // Another tab may have a whole copy, which does not matter.
      if (this.kept === 'none') this.tell(problem);
    }
  }

  /** @param {Entry} entry @param {string} digest @param {GemmaError} [error] */
  async #leave(entry, digest, error) {
    if (this.#readOnly) return entry.leave();
    const wrong = error?.code && !INNOCENT.includes(error.code);
    if (this.kept === 'cached' && !error && !digest && entry.complete) {
      // When it was used; another tab may have it, which does not matter, and is not waited for.
      entry.close().catch(() => {});
      return;
    }
    if (wrong && this.kept !== 'cached') return entry.remove();
    if (wrong) entry.journal.doubt = true;
    if (!error) entry.journal.doubt = undefined;
    if (!error && digest) entry.journal.sha256 = digest;
    await entry.close();
    if (error || !entry.complete || this.kept !== 'none') return;
    this.kept = 'stored';
    await this.#clear((old) => old !== entry);
  }

  /** Of the copies that were found. @param {(old: Entry) => boolean} which */
  async #clear(which) {
    const old = this.#found.filter(which);
    this.#found = this.#found.filter((entry) => !which(entry));
    for (const entry of old) await entry.remove().catch(() => {});
  }

  /** @param {unknown} error why nothing is kept */
  tell(error) {
    const { name = '', message = String(error) } = Object(error);
    const what = this.#found.some(({ whole }) => whole) ? 'the stored copy stays as it is, and is not used now'
      : 'the model is not kept for the next time';
    this.#notice('not-cached', `${what}: ${WORDS[name] ?? message}`);
  }

  /** writing: what could not be written is not begun again where it ended.
   * @template T @param {() => Promise<T>} f @param {boolean} [writing] @returns {Promise<T | undefined>} */
  async #try(f, writing = false) {
    try {
      return await within(this.#patience, f());
    } catch (error) {
      const entry = this.#entry;
      this.#entry = this.#store = undefined;
      const gone = writing && ours(error) && !entry?.whole ? entry?.remove() : entry?.leave();
      if (gone) await within(this.#patience, gone).catch(() => {});
      this.tell(error);
      return undefined;
    }
  }
}
