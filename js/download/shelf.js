/* shelf: one file's side of the cache. Nothing here throws: when the store fails, that is told, and the shelf is empty
 * from then on; the load goes on without it. The rules of the store, which tests/js/store-faults.test.js holds to:
 *   reading never deletes, and what a server answers does not either: a load that only reads has no store that removes
 *   a complete copy goes when another one is complete, flushed, and was loaded as a model; or when the user says so
 *   a copy that proves to be wrong is marked (`doubt`) and not complete any more, but stays until then
 *   what was begun in this load goes with it when it proves to be no model, or cannot be written
 *   a short read is read on, a short write is written on; one that gets nowhere is an error
 *   no store is waited for longer than a stalled connection
 *   one tab or process stores a file at a time (Store.lock); others wait as long as it gets on, and read its copy */
/** @import { Store } from '../protocol.js' */
/** @import { GemmaError } from '../errors.js' */
/** @import { Journal } from './entries.js' */
/** @import { Means } from './entry.js' */
/** @import { Range } from './lanes.js' */
import { Entry } from './entry.js';
import { sleep } from './http.js';

/** Failures that do not make the stored bytes doubtful. */
const INNOCENT = [
  'network-error',
  'http-error',
  'truncated',
  'no-memory',
  'bad-option',
  'bad-part',
  'aborted',
  'copy-damaged',
  'engine-fault',
];
/** Between two looks at what another one has. */
const WAIT_MS = 200;
/** Why there is no copy, by the name of the store's error. @type {Record<string, string>} */
const WORDS = { QuotaExceededError: 'there is no room', NoModificationAllowedError: 'another tab is storing it' };

/** @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} */
export async function within(ms, promise) {
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
  const { usage = 0, quota = Infinity } = (await store.estimate?.()) ?? {};
  const free = Math.max(quota - usage, 0);
  return free < total ? String(free) : '';
}

export class Shelf {
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #store;
  #readOnly;
  #means;
  #notice;
  #patience;
  /** @type {Entry | undefined} */
  #entry;
  /** @type {import('../protocol.js').Lock | undefined} */
  #lock;
  /** All that were found. @type {Entry[]} */
  #found = [];

  /** readOnly: the cache stays as it is; patience: ms.
   * @param {Means & { store?: Store, notice: (code: string, message: string) => void }} around
   * @param {number} patience */
  constructor(around, patience) {
    this.#patience = patience;
    this.#means = around;
    this.#store = around.store;
    this.#readOnly = around.readOnly;
    this.#notice = around.notice;
  }

  /** Whether a copy can be begun. */
  get open() {
    return Boolean(this.#store) && !this.#readOnly && !this.#entry;
  }

  /** The right to store a file: waits for who has it, as long as that one gets on. Gives whether it had to wait.
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
        await this.#try(async () => {
          throw new DOMException('', 'NoModificationAllowedError');
        });
        this.#found = [];
        return waited;
      }
      await sleep(WAIT_MS);
    }
  }

  /** A process that is killed between the last byte and freeing its lock leaves it. @param {string} key */
  tidy(key) {
    try {
      this.#store?.tidy?.(key);
    } catch {
      /* in a folder that cannot be written it stays */
    }
  }

  /** The copies that are there, which are not used yet: the latest first. @param {string} key */
  async find(key) {
    const store = this.#store;
    if (store) this.#found = (await this.#try(() => Entry.find(store, key, this.#means))) ?? [];
    return this.#found;
  }

  /** From a copy that is not used yet, up to the first piece that is not what was written; gives the count.
   * @param {Entry} entry @param {number} at @param {Uint8Array} into */
  look(entry, at, into) {
    return this.#try(() => entry.read(at, into));
  }

  /** A copy proved to be wrong, and is not complete from now on; or to be right.
   * @param {Entry} entry @param {boolean} doubt */
  async mark(entry, doubt) {
    entry.journal.doubt = doubt || undefined;
    if (!this.#readOnly) await within(this.#patience, entry.close()).catch(() => {});
  }

  /** @param {Entry} entry that was found */
  async use(entry) {
    if (entry.wasWhole) this.kept = 'cached';
    else if (!this.#readOnly && !(await this.#try(() => entry.save().then(() => true)))) return;
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
      const entry = new Entry(store, `${stem}${taken ? `-${Date.now().toString(16)}` : ''}.gguf`, journal, this.#means);
      // Without a journal it is none: nobody knows what it was, or where it ended.
      if (!taken && (await store.size(entry.name))) await store.remove(entry.name);
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

  /** As much of `into` as is best read at once. @param {number} at @param {Uint8Array} into */
  pieces(at, into) {
    return into.subarray(0, this.#entry?.pieces(at, into.length) ?? 0);
  }

  /** Up to the first piece that is not what was written; gives the count.
   * @param {number} at @param {Uint8Array} into */
  async read(at, into) {
    let wanted = true; // a store that was given up may still come: what it has then is left
    const count = await this.#try(async () => this.#entry?.read(at, into, () => wanted));
    wanted = false;
    if (count === undefined) this.kept = 'none';
    return count ?? 0;
  }

  /** What is wrong with what lies at `at`, if it was found to be damaged. @param {number} at */
  lost(at) {
    return this.#entry?.lost(at) ?? '';
  }

  /** Bytes of a lane; false: they are not what was lost.
   * @param {Range} lane @param {number} at @param {number} end
   * @param {{ journalEvery: number, same: boolean }} how journalEvery: bytes that may be lost; same: see Entry */
  async put(lane, at, end, how) {
    return (
      (await this.#try(async () => {
        if (this.#lock?.lost) throw new DOMException('', 'NoModificationAllowedError');
        // As it is now: a lane that is left has other bytes.
        return this.#entry?.put({ start: lane.start, bytes: lane.bytes }, at, end, how);
      }, true)) ?? true
    );
  }

  /** For what makes the copy complete. @param {Promise<void>} rest */
  async wait(rest) {
    if (this.#entry && !this.#entry.complete) await within(this.#patience, rest).catch(() => {});
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
    } finally {
      this.#lock?.free();
    }
  }

  /** @param {Entry} entry @param {string} digest @param {GemmaError} [error] */
  async #leave(entry, digest, error) {
    if (this.#readOnly) return entry.leave();
    const wrong = error?.code && !INNOCENT.includes(error.code);
    if (this.kept === 'cached' && !error && !digest && entry.complete && !entry.mended) {
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
    if (!(await entry.there())) throw new Error('the copy was removed, or changed, while it was written');
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
    const what = this.#found.some(({ whole }) => whole)
      ? 'the stored copy stays as it is, and is not used now'
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
      const gone = writing && ours(error) && !entry?.wasWhole ? entry?.remove() : entry?.leave();
      if (gone) await within(this.#patience, gone).catch(() => {});
      this.tell(error);
      return undefined;
    }
  }
}
