/* cached-file: the cached copies of one file during a load. No method throws: if the store fails, the load sends a
 * notice and continues without the cache. Rules, which tests/js/store-faults.test.js checks:
 *   - Neither a read nor a server's response deletes a copy.
 *   - A complete copy is deleted only by the user, or once another copy is complete, flushed and loaded as a model.
 *   - A complete copy whose bytes turn out to be wrong is only marked (`doubt`). It then no longer counts as complete.
 *   - A copy that this load created is deleted if the file turns out not to be a model, or a write fails.
 *   - Short reads and writes are continued. A read or write without progress is an error.
 *   - An operation of the store has the same time limit as a stalled connection.
 *   - One tab or process at a time stores a file (Store.lock). Others wait while it makes progress, and read its
 *     copy. */
/** @import { Store } from '../protocol.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { Journal } from './entries.js' */
/** @import { EntryDeps } from './entry.js' */
/** @import { Lane } from './lanes.js' */
import { messageOf } from '../errors.js';
import { Entry } from './entry.js';
import { copyReplaced, locked, noSpace, storeTimeout } from './errors.js';
import { sleep } from './http.js';

/** Codes of a load's errors that do not mean that the cached bytes are wrong. */
const INNOCENT = [
  'network-error',
  'http-error',
  'truncated',
  'no-memory',
  'bad-option',
  'bad-split',
  'aborted',
  'cache-corrupt',
  'engine-fault',
];
/** Interval in ms at which a waiting load checks whether the tab with the lock makes progress. */
const WAIT_MS = 200;
/** Reasons why a file is not cached, by the name of the store's error. @type {Record<string, string>} */
const WORDS = {
  QuotaExceededError: 'The storage is full.',
  NoModificationAllowedError: 'Another tab is storing it.',
};

/** Rejects with a TimeoutError if a promise takes longer than `ms`.
 * @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} */
export async function within(ms, promise) {
  /** @type {any} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(storeTimeout()), ms);
  });
  try {
    return /** @type {T} */ (await Promise.race([promise, late]));
  } finally {
    clearTimeout(timer);
  }
}

/** Returns whether an error comes from this load's use of the store, not from another tab's lock or a timeout.
 * @param {unknown} error */
const ours = (error) => !['NoModificationAllowedError', 'TimeoutError'].includes(/** @type {any} */ (error)?.name);

/** Returns the number of free bytes, as a text, if `total` bytes do not fit into the store; otherwise ''.
 * @param {Store} store @param {number} total */
async function missing(store, total) {
  const { usage = 0, quota = Infinity } = (await store.estimate?.()) ?? {};
  const free = Math.max(quota - usage, 0);
  return free < total ? String(free) : '';
}

/** The cached copy of one file. After a failure of the store, it behaves as if there were no copy. */
export class CachedFile {
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #store;
  #deps;
  #patience;
  /** @type {Entry | undefined} */
  #entry;
  /** @type {import('../protocol.js').Lock | undefined} */
  #lock;
  /** @type {Entry[]} */
  #found = [];
  /** @type {Set<Promise<unknown>>} */
  #running = new Set();

  /** @param {EntryDeps & { store?: Store, notice: (code: string, message: string) => void }} deps
   * @param {number} patience maximum ms for each operation of the store */
  constructor(deps, patience) {
    this.#patience = patience;
    this.#deps = deps;
    this.#store = deps.store;
  }

  /** Whether a new copy can be created: the store works and there is no copy yet. */
  get open() {
    return Boolean(this.#store) && !this.#deps.readOnly && !this.#entry;
  }

  /** Locks a file, so that only this load stores it. Waits while another tab has the lock and makes progress. Returns
   * whether to look for copies again, because another tab may have stored one meanwhile.
   * @param {string} key @param {(have: number, total: number) => void} watch */
  async lock(key, watch) {
    const store = this.#store;
    if (!store?.lock || this.#lock) return false;
    for (let seen = '', since = Date.now(); ; ) {
      this.#lock = await this.#try(async () => {
        const lock = await store.lock?.(key);
        if (!this.#store) lock?.free(); // the store failed while the lock was requested, so the lock is freed
        return lock;
      });
      if (this.#lock || !this.#store) return Boolean(this.#lock);
      const [{ journal } = { journal: undefined }] = await this.find(key);
      const now = `${journal?.turn} ${journal?.total}`;
      if (journal)
        watch(
          journal.have.reduce((sum, [a, b]) => sum + b - a, 0),
          journal.total,
        );
      if (now !== seen) [seen, since] = [now, Date.now()];
      else if (Date.now() - since > 2 * this.#patience) {
        await this.#try(() => Promise.reject(locked()));
        this.#found = [];
        return true;
      }
      await sleep(WAIT_MS, true);
    }
  }

  /** Removes the lock file of a process that was killed after it stored the last byte.
   * @param {string} key */
  tidy(key) {
    try {
      this.#store?.tidy?.(key);
    } catch {
      /* The lock file stays if its folder cannot be written. */
    }
  }

  /** Finds the copies of a file, most recently used first. @param {string} key */
  async find(key) {
    const store = this.#store;
    if (store) this.#found = (await this.#try(() => Entry.find(store, key, this.#deps))) ?? [];
    return this.#found;
  }

  /** Reads from a copy that this load does not use yet, up to its first corrupt piece. Returns the number of bytes
   * read, or undefined if the store fails.
   * @param {Entry} entry @param {number} at @param {Uint8Array} into */
  look(entry, at, into) {
    return this.#try(() => entry.read(at, into));
  }

  /** Marks a copy as wrong, so that it no longer counts as complete, or removes the mark.
   * @param {Entry} entry @param {boolean} doubt */
  async mark(entry, doubt) {
    entry.journal.doubt = doubt || undefined;
    await within(this.#patience, entry.close()).catch(() => {});
  }

  /** Sets a complete copy as the one that this load reads. @param {Entry} entry from find() */
  use(entry) {
    this.kept = 'cached';
    this.#entry = entry;
  }

  /** Sets an incomplete copy as the one that this load reads and completes. @param {Entry} entry from find() */
  async continue(entry) {
    if (await this.#try(() => entry.save().then(() => true))) this.#entry = entry;
  }

  /** Creates a new copy, if there is enough storage. @param {string} stem start of the file's name
   * @param {Journal} journal */
  async create(stem, journal) {
    await this.#try(async () => {
      const store = /** @type {Store} */ (this.#store);
      if (await missing(store, journal.total)) await this.#clear((old) => !old.whole);
      const free = await missing(store, journal.total);
      if (free) throw noSpace(journal.total, free);
      const taken = this.#found.some(({ name }) => name === `${stem}.gguf`);
      const entry = new Entry(store, `${stem}${taken ? `-${Date.now().toString(16)}` : ''}.gguf`, journal, this.#deps);
      // A file of this name without a journal has unknown contents, so it is removed.
      if (!taken && (await store.size(entry.name))) await store.remove(entry.name);
      try {
        await entry.save();
        this.#entry = entry;
      } catch (error) {
        // Keeps the file if another tab has locked it, because that tab may have completed it since.
        if (ours(error)) await entry.remove().catch(() => {});
        throw error;
      }
    });
  }

  /** Bytes of the whole file, if there is a copy, complete or partial. */
  get total() {
    return this.#entry?.journal.total;
  }

  /** SHA-256 computed from the copy's bytes; empty if it was not computed. */
  get sha256() {
    return this.#entry?.journal.sha256 ?? '';
  }

  /** Size in bytes of the copy's pieces, each of which has a checksum; 1 if there is no copy. */
  get grain() {
    return this.#entry?.journal.piece ?? 1;
  }

  /** Returns the end of the stored range that contains `at`, or `at` if none does or there is no copy.
   * @param {number} at */
  held(at) {
    return this.#entry?.heldTo(at) ?? at;
  }

  /** Returns the start of the first stored range after `at`, Infinity if there is none. @param {number} at */
  gap(at) {
    return this.#entry?.gapTo(at) ?? Infinity;
  }

  /** Records in the journal how many bytes the engine needs. The copy is complete once these are stored.
   * @param {number} need bytes up to the end of the last tensor */
  need(need) {
    if (this.#entry) this.#entry.journal.need = need;
  }

  /** Returns the part of `into` that one read() at offset `at` should fill (Entry.pieces()), empty if there is no
   * copy.
   * @param {number} at @param {Uint8Array} into */
  pieces(at, into) {
    return into.subarray(0, this.#entry?.pieces(at, into.length) ?? 0);
  }

  /** Reads from the copy up to its first corrupt piece. Returns the number of bytes read.
   * @param {number} at @param {Uint8Array} into */
  async read(at, into) {
    let wanted = true; // false once the read has ended or timed out: a late read must not write to `into`
    const count = await this.#try(async () => this.#entry?.read(at, into, () => wanted));
    wanted = false;
    if (count === undefined) this.kept = 'none';
    return count ?? 0;
  }

  /** Returns the description of a corrupt piece for messages, or '' if the piece at offset `at` is not corrupt.
   * @param {number} at */
  lost(at) {
    return this.#entry?.lost(at) ?? '';
  }

  /** Writes bytes of a lane (lanes.js). Returns false if the bytes cannot replace a corrupt piece.
   * @param {Lane} lane @param {number} at @param {number} end
   * @param {{ journalEvery: number, same: boolean }} how see Entry.put() */
  async put(lane, at, end, how) {
    return (
      (await this.#try(async () => {
        if (this.#lock?.lost) throw locked();
        // Copies the lane's fields: if the write times out, leave() replaces its buffer.
        return this.#entry?.put({ start: lane.start, bytes: lane.bytes }, at, end, how);
      }, true)) ?? true
    );
  }

  /** If the copy is incomplete, waits for the pending writes, which may complete it.
   * @param {Promise<void>} rest resolves after these writes */
  async wait(rest) {
    if (this.#entry && !this.#entry.complete) await within(this.#patience, rest).catch(() => {});
  }

  /** Closes the copy after the load, or removes it if it is not a model.
   * @param {string} digest SHA-256 of the loaded bytes, if it was checked @param {ModelError} [error] why loading
   * failed
   * @param {boolean} [reads] whether Download.at() will read the copy after the load */
  async finish(digest, error, reads = false) {
    const entry = this.#entry;
    if (!reads) this.#entry = undefined;
    try {
      // Waits for pending operations: a write after the close would open the file again.
      await within(this.#patience, Promise.allSettled([...this.#running]));
      if (entry) await within(this.#patience, this.#leave(entry, digest, error, reads));
    } catch (problem) {
      // If the file was cached before, a failed update of its journal is not reported: another tab may have it open.
      if (this.kept === 'none') this.tell(problem);
    } finally {
      this.#lock?.free();
      this.#lock = undefined;
    }
  }

  /** Saves the journal and frees the lock: the copy stays incomplete, and is only read from now on. Must not overlap
   * with writes. */
  async freeze() {
    const entry = this.#entry;
    if (entry) await this.#try(() => entry.freeze());
    this.#lock?.free();
    this.#lock = undefined;
  }

  /** Closes the copy's file, after saving its journal if pieces were repaired. The next read opens the file again. */
  async rest() {
    await within(this.#patience, Promise.allSettled([...this.#running])).catch(() => {});
    if (this.#entry) await within(this.#patience, this.#entry.rest()).catch(() => {});
  }

  /** Updates and closes the copy, or removes it.
   * @param {Entry} entry @param {string} digest @param {ModelError} [error] @param {boolean} [reads] see finish() */
  async #leave(entry, digest, error, reads) {
    if (this.#deps.readOnly) return entry.leave();
    const wrong = error?.code && !INNOCENT.includes(error.code);
    if (this.kept === 'cached' && !error && !digest && entry.complete && !entry.mended) {
      // Saves only the time of use. Ignores a failure, because another tab may have the file open. If reads of the copy
      // follow, waits for the write, so that the reads do not overlap with the write.
      const saved = entry.close().catch(() => {});
      return reads ? saved : undefined;
    }
    if (wrong && this.kept !== 'cached') return entry.remove();
    if (wrong) entry.journal.doubt = true;
    if (!error) entry.journal.doubt = undefined;
    if (!error && digest) entry.journal.sha256 = digest;
    await entry.close();
    if (error || !entry.complete || this.kept !== 'none') return;
    if (!(await entry.there())) throw copyReplaced();
    this.kept = 'stored';
    entry.state = 'whole';
    await this.#clear((old) => old !== entry);
  }

  /** @param {(old: Entry) => boolean} which */
  async #clear(which) {
    const old = this.#found.filter(which);
    this.#found = this.#found.filter((entry) => !which(entry));
    for (const entry of old) await entry.remove().catch(() => {});
  }

  /** Sends the notice that the file is not cached. @param {any} error */
  tell(error) {
    const what = this.#found.some(({ whole }) => whole)
      ? 'The cached copy is kept, but cannot be used now'
      : 'The model is not cached for the next visit';
    this.#deps.notice('not-cached', `${what}. ${WORDS[error?.name] ?? messageOf(error)}`);
  }

  /** Runs an operation of the store. If it fails, stops using the store and, with `writing`, removes what this load
   * wrote.
   * @template T @param {() => Promise<T>} f @param {boolean} [writing] @returns {Promise<T | undefined>} */
  async #try(f, writing = false) {
    const work = f();
    this.#running.add(work);
    try {
      return await within(this.#patience, work);
    } catch (error) {
      const entry = this.#entry;
      const store = this.#store;
      this.#entry = this.#store = undefined;
      const gone = writing && ours(error) && entry?.state === 'writing' ? entry.remove() : entry?.leave();
      if (gone) await within(this.#patience, gone).catch(() => {});
      if (store) this.tell(error); // only the first of several parallel failures is reported
      return undefined;
    } finally {
      this.#running.delete(work);
    }
  }
}
