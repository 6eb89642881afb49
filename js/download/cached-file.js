/* cached-file: one file of the cache, as a load sees it. Nothing here throws: if the store fails, a notice says so and
 * the load continues without it. The rules of the store, which tests/js/store-faults.test.js checks:
 *   reading never deletes, nor does any answer of a server: a load that only reads has no store that removes
 *   a complete copy is removed when another one is complete, flushed and loaded as a model, or when the user asks
 *   a copy that proves wrong is marked (`doubt`) and no longer complete, but stays until then
 *   a copy that this load began is removed if it proves to be no model, or cannot be written
 *   short reads and writes are continued; one without progress is an error
 *   a store gets no more time than a stalled connection
 *   one tab or process stores a file at a time (Store.lock); others wait while it makes progress, and read its copy */
/** @import { Store } from '../protocol.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { Journal } from './entries.js' */
/** @import { EntryDeps } from './entry.js' */
/** @import { Range } from './lanes.js' */
import { Entry } from './entry.js';
import { sleep } from './http.js';

/** Failures that cast no doubt on the cached bytes. */
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
/** Interval at which another tab's progress is checked. */
const WAIT_MS = 200;
/** Reasons for a missing copy, by the name of the store's error. @type {Record<string, string>} */
const WORDS = {
  QuotaExceededError: 'The storage is full.',
  NoModificationAllowedError: 'Another tab is storing it.',
};

/** The error if another tab or process has locked the file. @returns {never} */
function taken() {
  throw new DOMException('', 'NoModificationAllowedError');
}

/** Rejects with a TimeoutError if a promise takes longer than `ms`.
 * @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} */
export async function within(ms, promise) {
  /** @type {any} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new DOMException('The store did not answer in time.', 'TimeoutError')), ms);
  });
  try {
    return /** @type {T} */ (await Promise.race([promise, late]));
  } finally {
    clearTimeout(timer);
  }
}

/** Returns whether a failure is this load's own: not another tab's lock, not a timeout. @param {unknown} error */
const ours = (error) => !['NoModificationAllowedError', 'TimeoutError'].includes(/** @type {any} */ (error)?.name);

/** Returns the free bytes if they are too few, else ''. @param {Store} store @param {number} total */
async function missing(store, total) {
  const { usage = 0, quota = Infinity } = (await store.estimate?.()) ?? {};
  const free = Math.max(quota - usage, 0);
  return free < total ? String(free) : '';
}

/** The cached copy of one file, or nothing if the store failed. */
export class CachedFile {
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #store;
  #readOnly;
  #deps;
  #notice;
  #patience;
  /** @type {Entry | undefined} */
  #entry;
  /** @type {import('../protocol.js').Lock | undefined} */
  #lock;
  /** Copies that find() returned. @type {Entry[]} */
  #found = [];

  /** @param {EntryDeps & { store?: Store, notice: (code: string, message: string) => void }} deps
   * @param {number} patience ms for each operation of the store */
  constructor(deps, patience) {
    this.#patience = patience;
    this.#deps = deps;
    this.#store = deps.store;
    this.#readOnly = deps.readOnly;
    this.#notice = deps.notice;
  }

  /** Whether the store is usable, so that a copy can be begun. */
  get open() {
    return Boolean(this.#store) && !this.#readOnly && !this.#entry;
  }

  /** Takes the right to store a file. Waits while another tab has it and makes progress. Returns whether it waited.
   * @param {string} key @param {(have: number, total: number) => void} watch */
  async lock(key, watch) {
    const store = this.#store;
    if (!store?.lock || this.#lock) return false;
    for (let seen = '', since = Date.now(), waited = false; ; waited = true) {
      this.#lock = await this.#try(async () => {
        const lock = await store.lock?.(key);
        if (!this.#store) lock?.free(); // too late
        return lock;
      });
      if (this.#lock || !this.#store) return waited;
      const [{ journal } = { journal: undefined }] = await this.find(key);
      const now = `${journal?.turn} ${journal?.total}`;
      if (journal)
        watch(
          journal.have.reduce((sum, [a, b]) => sum + b - a, 0),
          journal.total,
        );
      if (now !== seen) [seen, since] = [now, Date.now()];
      else if (Date.now() - since > 2 * this.#patience) {
        await this.#try(async () => taken());
        this.#found = [];
        return waited;
      }
      await sleep(WAIT_MS);
    }
  }

  /** Removes the lock of a process that was killed between its last byte and freeing it. @param {string} key */
  tidy(key) {
    try {
      this.#store?.tidy?.(key);
    } catch {
      /* it stays in a folder that cannot be written */
    }
  }

  /** Finds the copies of a file, the latest first. @param {string} key */
  async find(key) {
    const store = this.#store;
    if (store) this.#found = (await this.#try(() => Entry.find(store, key, this.#deps))) ?? [];
    return this.#found;
  }

  /** Reads from a copy before use(), up to its first corrupt piece. Returns the count.
   * @param {Entry} entry @param {number} at @param {Uint8Array} into */
  look(entry, at, into) {
    return this.#try(() => entry.read(at, into));
  }

  /** Marks a copy as wrong, and thus not complete, or as right.
   * @param {Entry} entry @param {boolean} doubt */
  async mark(entry, doubt) {
    entry.journal.doubt = doubt || undefined;
    if (!this.#readOnly) await within(this.#patience, entry.close()).catch(() => {});
  }

  /** Reads and continues this copy. @param {Entry} entry from find() */
  async use(entry) {
    if (entry.wasWhole) this.kept = 'cached';
    else if (!this.#readOnly && !(await this.#try(() => entry.save().then(() => true)))) return;
    this.#entry = entry;
  }

  /** Begins a new copy, if there is space. @param {string} stem of its name @param {Journal} journal */
  async create(stem, journal) {
    await this.#try(async () => {
      const store = /** @type {Store} */ (this.#store);
      if (await missing(store, journal.total)) await this.#clear((old) => !old.whole);
      const free = await missing(store, journal.total);
      if (free) throw new Error(`It needs ${journal.total} bytes of storage, and ${free} are free.`);
      const taken = this.#found.some(({ name }) => name === `${stem}.gguf`);
      const entry = new Entry(store, `${stem}${taken ? `-${Date.now().toString(16)}` : ''}.gguf`, journal, this.#deps);
      // A file without a journal is not a copy: its contents are unknown.
      if (!taken && (await store.size(entry.name))) await store.remove(entry.name);
      try {
        await entry.save();
        this.#entry = entry;
      } catch (error) {
        // A file that another tab stores must stay, even if it finished a moment later.
        if (ours(error)) await entry.remove().catch(() => {});
        throw error;
      }
    });
  }

  /** Bytes of the whole file, if there is a copy, complete or partial. */
  get total() {
    return this.#entry?.journal.total;
  }

  /** SHA-256 that the copy was found to have; empty if it was not checked. */
  get sha256() {
    return this.#entry?.journal.sha256 ?? '';
  }

  /** Bytes of a piece that is checked as a whole, 1 without checks. */
  get grain() {
    return this.#entry?.journal.piece ?? 1;
  }

  /** Returns the end of the cached range that contains `at`, or `at` if none does. @param {number} at */
  held(at) {
    return this.#entry?.heldTo(at) ?? at;
  }

  /** Returns the start of the first cached range after `at`. @param {number} at */
  gap(at) {
    return this.#entry?.gapTo(at) ?? Infinity;
  }

  /** Sets the number of bytes that the engine needs. @param {number} need up to the last tensor's end */
  need(need) {
    if (this.#entry) this.#entry.journal.need = need;
  }

  /** Returns the part of `into` that is best read at once. @param {number} at @param {Uint8Array} into */
  pieces(at, into) {
    return into.subarray(0, this.#entry?.pieces(at, into.length) ?? 0);
  }

  /** Reads up to the first corrupt piece. Returns the count.
   * @param {number} at @param {Uint8Array} into */
  async read(at, into) {
    let wanted = true; // false after a timeout: a late read must not touch `into`
    const count = await this.#try(async () => this.#entry?.read(at, into, () => wanted));
    wanted = false;
    if (count === undefined) this.kept = 'none';
    return count ?? 0;
  }

  /** Returns the name of the corrupt piece at `at`, '' if it is not corrupt. @param {number} at */
  lost(at) {
    return this.#entry?.lost(at) ?? '';
  }

  /** Writes bytes of a lane. Returns false if they are not those of the corrupt piece.
   * @param {Range} lane @param {number} at @param {number} end
   * @param {{ journalEvery: number, same: boolean }} how journalEvery: bytes that may be lost; same: see Entry */
  async put(lane, at, end, how) {
    return (
      (await this.#try(async () => {
        if (this.#lock?.lost) taken();
        // A copy of the lane's fields: a lane that is left gets another buffer.
        return this.#entry?.put({ start: lane.start, bytes: lane.bytes }, at, end, how);
      }, true)) ?? true
    );
  }

  /** Waits for writes that complete the copy. @param {Promise<void>} rest */
  async wait(rest) {
    if (this.#entry && !this.#entry.complete) await within(this.#patience, rest).catch(() => {});
  }

  /** Closes the copy, or removes it if it is not a model.
   * @param {string} digest that the bytes were found to have @param {ModelError} [error] why loading failed
   * @param {boolean} [reads] whether the copy is read from now on */
  async finish(digest, error, reads = false) {
    const entry = this.#entry;
    if (!reads) this.#entry = undefined;
    try {
      if (entry) await within(this.#patience, this.#leave(entry, digest, error, reads));
    } catch (problem) {
      // If the file was cached already, the failure does not matter: another tab may hold it.
      if (this.kept === 'none') this.tell(problem);
    } finally {
      this.#lock?.free();
      this.#lock = undefined;
    }
  }

  /** Saves the journal and closes the file of the store; the next read opens it again. */
  async rest() {
    if (this.#entry) await within(this.#patience, this.#entry.close()).catch(() => {});
  }

  /** @param {Entry} entry @param {string} digest @param {ModelError} [error] @param {boolean} [reads] see finish() */
  async #leave(entry, digest, error, reads) {
    if (this.#readOnly) return entry.leave();
    const wrong = error?.code && !INNOCENT.includes(error.code);
    if (this.kept === 'cached' && !error && !digest && entry.complete && !entry.mended) {
      // Saves only the time of use, which may fail while another tab has the file. Reads must not meet its writing.
      const saved = entry.close().catch(() => {});
      return reads ? saved : undefined;
    }
    if (wrong && this.kept !== 'cached') return entry.remove();
    if (wrong) entry.journal.doubt = true;
    if (!error) entry.journal.doubt = undefined;
    if (!error && digest) entry.journal.sha256 = digest;
    await entry.close();
    if (error || !entry.complete || this.kept !== 'none') return;
    if (!(await entry.there())) throw new Error('The copy was removed or changed while it was written.');
    this.kept = 'stored';
    await this.#clear((old) => old !== entry);
  }

  /** Removes copies that were found. @param {(old: Entry) => boolean} which */
  async #clear(which) {
    const old = this.#found.filter(which);
    this.#found = this.#found.filter((entry) => !which(entry));
    for (const entry of old) await entry.remove().catch(() => {});
  }

  /** Reports that nothing is cached. @param {unknown} error */
  tell(error) {
    const { name = '', message = String(error) } = Object(error);
    const what = this.#found.some(({ whole }) => whole)
      ? 'The cached copy is kept, but not used now'
      : 'The model is not cached for the next visit';
    this.#notice('not-cached', `${what}. ${WORDS[name] ?? message}`);
  }

  /** Runs an operation of the store; a failure gives the store up. writing: removes what this load wrote so far.
   * @template T @param {() => Promise<T>} f @param {boolean} [writing] @returns {Promise<T | undefined>} */
  async #try(f, writing = false) {
    try {
      return await within(this.#patience, f());
    } catch (error) {
      const entry = this.#entry;
      this.#entry = this.#store = undefined;
      const gone = writing && ours(error) && !entry?.wasWhole ? entry?.remove() : entry?.leave();
      if (gone) await within(this.#patience, gone).catch(() => {});
      this.tell(error);
      return undefined;
    }
  }
}
