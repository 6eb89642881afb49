/**
 * archive: the conversations of this browser, in IndexedDB: a head for each (name, dates, settings), read for lists;
 * its words, an index for searches; and a body (all that was said), read when it is opened. Nothing is held in memory
 * but what was asked for. Where there is no IndexedDB, or when nothing is to be kept, the same in memory, until the
 * page goes.
 * @module
 */
import { BY_SENSE, merged, spoken, wordsOf } from './tree.js';

/** @typedef {import('./tree.js').Kept} Kept */

/**
 * @typedef {object} Head
 * @property {string} id
 * @property {string} title
 * @property {boolean} [named]    by the person: stays as it is
 * @property {0 | 1} pinned
 * @property {number} created     milliseconds since 1970
 * @property {number} updated
 * @property {string} [system]
 * @property {Record<string, unknown>} [settings]
 * @property {ModelNote} [model]  who answered last
 * @property {string} [from]      the first message that the model is still told
 */

/** Enough to load it again, if it did not come from a file that was chosen.
 * @typedef {{ label: string, kind?: string, source?: string | { repo: string, file: string, revision?: string },
 *   bytes?: number }} ModelNote */

/** @typedef {{ text: string, files: import('./tree.js').Attached[] }} Draft */

const NAME = 'gemma-wasm';
const VERSION = 1;
const STORES = ['heads', 'words', 'bodies', 'drafts'];
/** Of so many letters the beginning of a word will do: of fewer, half of all words would be found. */
const BEGINNING = 3;

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function committed(transaction) {
  return new Promise((resolve, reject) => {
    // Not left to its last request's end: a page that is being left does not see that any more.
    transaction.commit();
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

/** @returns {Promise<IDBDatabase>} */
async function openDatabase() {
  const request = indexedDB.open(NAME, VERSION);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('heads', { keyPath: 'id' }).createIndex('order', ['pinned', 'updated']);
    request.result.createObjectStore('words', { keyPath: 'id' }).createIndex('words', 'words', { multiEntry: true });
    request.result.createObjectStore('bodies', { keyPath: 'id' });
    request.result.createObjectStore('drafts');
  };
  const database = await done(request);
  database.onversionchange = () => database.close();
  return database;
}

/** The archive of this browser; in memory where there is none. @returns {Promise<Archive>} */
export async function openArchive() {
  try {
    return new StoredArchive(await openDatabase());
  } catch {
    return new MemoryArchive();
  }
}

/** @typedef {StoredArchive | MemoryArchive} Archive */

/** How many heads a list shows at once. */
export const PAGE = 60;

class StoredArchive {
  kept = true;
  #database;
  /** Between tabs: ids of conversations that have changed. */
  #channel = new BroadcastChannel(NAME);

  /** @param {IDBDatabase} database */
  constructor(database) {
    this.#database = database;
  }

  /** @param {(id: string) => void} f   when another tab has changed one */
  heard(f) {
    this.#channel.onmessage = ({ data }) => f(data);
  }

  /** @param {string} store */
  #read(store) {
    return this.#database.transaction(store).objectStore(store);
  }

  /** Pinned ones first, then the latest. @param {number} [limit] @returns {Promise<Head[]>} */
  async list(limit = PAGE) {
    /** @type {Head[]} */
    const found = [];
    const request = this.#read('heads').index('order').openCursor(null, 'prev');
    return new Promise((resolve, reject) => {
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor || found.length === limit) return resolve(found);
        found.push(cursor.value);
        cursor.continue();
      };
    });
  }

  /** Conversations in which every word of the question stands, or a word that begins so.
   * @param {string} question @param {number} [limit] @returns {Promise<Head[]>} */
  async search(question, limit = PAGE) {
    const words = wordsOf([question]);
    if (!words.length) return this.list(limit);
    const index = this.#read('words').index('words');
    const found = await Promise.all(
      words.map((word) =>
        done(
          index.getAllKeys(
            word.length < BEGINNING && !BY_SENSE.test(word) ? word : IDBKeyRange.bound(word, `${word}\uffff`),
          ),
        ),
      ),
    );
    const sets = found.map((keys) => new Set(keys));
    const heads = this.#read('heads');
    const order = (await done(heads.index('order').getAllKeys())).reverse();
    const ids = order.filter((id) => sets.every((set) => set.has(id))).slice(0, limit);
    const store = this.#read('heads');
    return (await Promise.all(ids.map((id) => done(store.get(id))))).filter(Boolean);
  }

  /** @param {string} id @returns {Promise<{ head: Head, body: Kept } | null>} */
  async get(id) {
    const transaction = this.#database.transaction(['heads', 'bodies']);
    const [head, body] = await Promise.all([
      done(transaction.objectStore('heads').get(id)),
      done(transaction.objectStore('bodies').get(id)),
    ]);
    return head && body ? { head, body: body.kept } : null;
  }

  /** All parts, or none. Gives what is there now. @param {Head} head @param {Kept} body
   * @param {object} [how]
   * @param {boolean} [how.found]   whether it is to be found by its words as they are now, which costs more
   * @param {import('./tree.js').News} [how.news]   where another tab may have gone on too; none: this alone counts
   * @returns {Promise<{ head: Head, body: Kept }>} */
  async put(head, body, { found = true, news } = {}) {
    const transaction = this.#database.transaction(['heads', 'words', 'bodies'], 'readwrite');
    const heads = transaction.objectStore('heads');
    const bodies = transaction.objectStore('bodies');
    const old = news && (await Promise.all([done(heads.get(head.id)), done(bodies.get(head.id))]));
    const there = old?.[0] && old[1] && { head: old[0], body: old[1].kept };
    // One that another tab has deleted is there again when something is said, not when an answer ends.
    const asked = body.said.some(({ id, role }) => role === 'user' && news?.own.includes(id));
    if (news && !there && !asked) return { head, body };
    const now = news && there ? together(there, { head, body }, news) : { head, body };
    heads.put(now.head);
    bodies.put({ id: head.id, kept: now.body });
    if (found) transaction.objectStore('words').put({ id: head.id, words: wordsIn(now.head, now.body) });
    await committed(transaction);
    if (found) this.#channel.postMessage(head.id);
    return now;
  }

  /** @param {string} id */
  async has(id) {
    return (await done(this.#read('heads').count(id))) > 0;
  }

  /** Change what is known about one: its name, whether it is pinned. @param {string} id @param {Partial<Head>} news */
  async change(id, news) {
    const transaction = this.#database.transaction(['heads', 'words', 'bodies'], 'readwrite');
    const heads = transaction.objectStore('heads');
    const [old, body] = await Promise.all([done(heads.get(id)), done(transaction.objectStore('bodies').get(id))]);
    if (!old || !body) return;
    const head = { ...old, ...news };
    heads.put(head);
    if ('title' in news) transaction.objectStore('words').put({ id, words: wordsIn(head, body.kept) });
    await committed(transaction);
    this.#channel.postMessage(id);
  }

  /** @param {string} id */
  async remove(id) {
    const transaction = this.#database.transaction(STORES, 'readwrite');
    for (const store of STORES) transaction.objectStore(store).delete(id);
    await committed(transaction);
    this.#channel.postMessage(id);
  }

  async clear() {
    const transaction = this.#database.transaction(STORES, 'readwrite');
    for (const store of STORES) transaction.objectStore(store).clear();
    await committed(transaction);
  }

  /** What was being written. @param {string} id @returns {Promise<Draft | undefined>} */
  async draft(id) {
    return done(this.#read('drafts').get(id));
  }

  /** @param {string} id @param {Draft | null} draft */
  async setDraft(id, draft) {
    const transaction = this.#database.transaction('drafts', 'readwrite');
    if (draft) transaction.objectStore('drafts').put(draft, id);
    else transaction.objectStore('drafts').delete(id);
    await committed(transaction);
  }

  async count() {
    return done(this.#read('heads').count());
  }

  /** Everything, one after the other: for export. @returns {AsyncGenerator<{ head: Head, body: Kept }>} */
  async *all() {
    for (const id of await done(this.#read('heads').getAllKeys())) {
      const one = await this.get(String(id));
      if (one) yield one;
    }
  }
}

export class MemoryArchive {
  kept = false;
  /** @type {Map<string, { head: Head, body: Kept, words: string[] }>} */ #all = new Map();
  /** @type {Map<string, Draft>} */ #drafts = new Map();

  /** @param {number} [limit] @returns {Promise<Head[]>} */
  async list(limit = PAGE) {
    return inOrder([...this.#all.values()].map(({ head }) => head)).slice(0, limit);
  }

  /** @param {string} question @param {number} [limit] @returns {Promise<Head[]>} */
  async search(question, limit = PAGE) {
    const asked = wordsOf([question]);
    const fits = (/** @type {string[]} */ words) => asked.every((word) => words.some((w) => w.startsWith(word)));
    return inOrder([...this.#all.values()].filter(({ words }) => fits(words)).map(({ head }) => head)).slice(0, limit);
  }

  /** @param {string} id */
  async get(id) {
    const { head, body } = this.#all.get(id) ?? {};
    return head && body ? structuredClone({ head, body }) : null;
  }

  heard() {}

  /** No other tab has it. @param {Head} head @param {Kept} body */
  async put(head, body) {
    this.#all.set(head.id, structuredClone({ head, body, words: wordsIn(head, body) }));
    return { head, body };
  }

  /** @param {string} id @param {Partial<Head>} news */
  async change(id, news) {
    const one = this.#all.get(id);
    if (one) await this.put({ ...one.head, ...news }, one.body);
  }

  /** @param {string} id */
  async remove(id) {
    this.#all.delete(id);
    this.#drafts.delete(id);
  }

  async clear() {
    this.#all.clear();
    this.#drafts.clear();
  }

  /** @param {string} id */
  async has(id) {
    return this.#all.has(id);
  }

  /** @param {string} id */
  async draft(id) {
    return this.#drafts.get(id);
  }

  /** @param {string} id @param {Draft | null} draft */
  async setDraft(id, draft) {
    if (draft) this.#drafts.set(id, draft);
    else this.#drafts.delete(id);
  }

  async count() {
    return this.#all.size;
  }

  /** @returns {AsyncGenerator<{ head: Head, body: Kept }>} */
  async *all() {
    for (const id of this.#all.keys()) yield/** @type {{ head: Head, body: Kept }} */ (await this.get(id));
  }
}

/** @typedef {{ head: Head, body: Kept }} Whole */

/** The name and the pin are the list's, and change through it alone.
 * @param {Whole} there @param {Whole} here @param {import('./tree.js').News} news @returns {Whole} */
function together(there, here, news) {
  const { title, named, pinned, updated } = there.head;
  const head = { ...here.head, title, pinned, updated: Math.max(updated, here.head.updated), ...(named && { named }) };
  return { head, body: merged(there.body, here.body, news) };
}

/** What it can be found by. @param {Head} head @param {Kept} body */
function wordsIn(head, body) {
  return wordsOf([head.title, ...body.said.map(spoken)]);
}

/** @param {Head[]} heads */
function inOrder(heads) {
  return heads.sort((a, b) => b.pinned - a.pinned || b.updated - a.updated);
}
