/**
 * archive: the conversations of this browser in IndexedDB. Each has a head (name, dates, settings) for lists, an index
 * of its words for searches, and a body with its messages. Without IndexedDB, or if nothing may be saved, they are in
 * memory.
 * @module
 */
import { BY_SENSE, merged, spoken, wordsOf } from './tree.js';

/** @import { Kept, News } from './tree.js' */
/** @import { Draft } from '../shell/store.js' */

/**
 * @typedef {object} Head
 * @property {string} id
 * @property {string} title
 * @property {boolean} [named]    the user has named it
 * @property {0 | 1} pinned
 * @property {number} created
 * @property {number} updated
 * @property {string} [system]
 * @property {Record<string, unknown>} [settings]
 * @property {ModelNote} [model]  the model that answered last
 * @property {string} [from]      the first message of the prompt
 */

/** Data that suffices to load a model again, unless it came from a file.
 * @typedef {{ label: string, kind?: string, source?: string | { repo: string, file: string, revision?: string },
 *   bytes?: number }} ModelNote */

const NAME = 'gemma-wasm';
const VERSION = 1;
const STORES = ['heads', 'words', 'bodies', 'drafts'];
/** Minimum length of a search word that is matched as a prefix. Shorter words would match too much. */
const BEGINNING = 3;
/** Returns whether a search word must be a whole word of the text. @param {string} word */
const isWhole = (word) => word.length < BEGINNING && !BY_SENSE.test(word);

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
    // Commits explicitly, because an unloading page does not see its last request succeed.
    transaction.commit();
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

/** @param {IDBTransaction} transaction @param {string} id @returns {Promise<Whole | null>} */
async function wholeIn(transaction, id) {
  const read = (/** @type {string} */ store) => done(transaction.objectStore(store).get(id));
  const [head, body] = await Promise.all([read('heads'), read('bodies')]);
  return head && body ? { head, body: body.kept } : null;
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

/** Opens the archive in IndexedDB, or one in memory if that fails. Never rejects.
 * @param {(id: string) => void} heard   called when another tab has changed a conversation
 * @returns {Promise<Archive>} */
export async function openArchive(heard) {
  try {
    return new StoredArchive(await openDatabase(), heard);
  } catch {
    return new MemoryArchive();
  }
}

/** @typedef {StoredArchive | MemoryArchive} Archive */

class StoredArchive {
  kept = true;
  #database;
  /** Tells other tabs the ids of conversations that have changed. */
  #channel = new BroadcastChannel(NAME);

  /** @param {IDBDatabase} database @param {(id: string) => void} heard */
  constructor(database, heard) {
    this.#database = database;
    this.#channel.onmessage = ({ data }) => heard(data);
  }

  /** @param {string} store */
  #read(store) {
    return this.#database.transaction(store).objectStore(store);
  }

  /** Finds the conversations in which every word of the question occurs, at least as the beginning of a word: pinned
   * ones first, then the latest. @param {string} question @param {number} [limit] @returns {Promise<Head[]>} */
  async search(question, limit) {
    const index = this.#read('words').index('words');
    const range = (/** @type {string} */ word) => (isWhole(word) ? word : IDBKeyRange.bound(word, `${word}\uffff`));
    const found = await Promise.all(wordsOf([question]).map((word) => done(index.getAllKeys(range(word)))));
    const sets = found.map((keys) => new Set(keys));
    const order = (await done(this.#read('heads').index('order').getAllKeys())).reverse();
    const ids = order.filter((id) => sets.every((set) => set.has(id))).slice(0, limit);
    const store = this.#read('heads');
    return (await Promise.all(ids.map((id) => done(store.get(id))))).filter(Boolean);
  }

  /** @param {string} id @returns {Promise<Whole | null>} */
  async get(id) {
    return wholeIn(this.#database.transaction(['heads', 'bodies']), id);
  }

  /** Saves a conversation; returns the saved version. found: also updates the search index, which takes longer; news:
   * changes of this tab, which are merged with another tab's saved changes.
   * @param {Head} head @param {Kept} body @param {{ found?: boolean, news?: News }} [how]
   * @returns {Promise<Whole>} */
  async put(head, body, { found = true, news } = {}) {
    const transaction = this.#database.transaction(['heads', 'words', 'bodies'], 'readwrite');
    const there = news && (await wholeIn(transaction, head.id));
    // If another tab has deleted the conversation, a new message restores it, but the end of an answer does not.
    const asked = body.said.some(({ id, role }) => role === 'user' && news?.own.includes(id));
    if (news && !there && !asked) return { head, body };
    const now = news && there ? together(there, { head, body }, news) : { head, body };
    transaction.objectStore('heads').put(now.head);
    transaction.objectStore('bodies').put({ id: head.id, kept: now.body });
    if (found) transaction.objectStore('words').put({ id: head.id, words: wordsIn(now.head, now.body) });
    await committed(transaction);
    if (found) this.#channel.postMessage(head.id);
    return now;
  }

  /** @param {string} id */
  async has(id) {
    return (await done(this.#read('heads').count(id))) > 0;
  }

  /** @param {string} id @param {Partial<Head>} news */
  async change(id, news) {
    const transaction = this.#database.transaction(['heads', 'words', 'bodies'], 'readwrite');
    const old = await wholeIn(transaction, id);
    if (!old) return;
    const head = { ...old.head, ...news };
    transaction.objectStore('heads').put(head);
    if ('title' in news) transaction.objectStore('words').put({ id, words: wordsIn(head, old.body) });
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

  /** @param {string} id @returns {Promise<Draft | undefined>} */
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

  /** @returns {AsyncGenerator<Whole>} */
  async *all() {
    for (const id of await done(this.#read('heads').getAllKeys())) {
      const one = await this.get(String(id));
      if (one) yield one;
    }
  }
}

/** An archive with the methods of StoredArchive. Its contents are lost when the page is closed. */
export class MemoryArchive {
  kept = false;
  /** @type {Map<string, { head: Head, body: Kept, words: string[] }>} */ #all = new Map();
  /** @type {Map<string, Draft>} */ #drafts = new Map();

  /** Finds the conversations in which every word of the question occurs, at least as the beginning of a word: pinned
   * ones first, then the latest.
   * @param {string} question   '' finds all @param {number} [limit] @returns {Promise<Head[]>} */
  async search(question, limit) {
    const asked = wordsOf([question]);
    /** @param {string[]} words @param {string} word */
    const has = (words, word) => (isWhole(word) ? words.includes(word) : words.some((one) => one.startsWith(word)));
    const found = [...this.#all.values()]
      .filter(({ words }) => asked.every((word) => has(words, word)))
      .map(({ head }) => head);
    return found.sort((a, b) => b.pinned - a.pinned || b.updated - a.updated).slice(0, limit);
  }

  /** Returns a copy of a conversation, or null if there is none. @param {string} id */
  async get(id) {
    const { head, body } = this.#all.get(id) ?? {};
    return head && body ? structuredClone({ head, body }) : null;
  }

  /** Saves a copy of a conversation. Replaces an earlier one without merging: no other tab can change it.
   * @param {Head} head @param {Kept} body */
  async put(head, body) {
    this.#all.set(head.id, structuredClone({ head, body, words: wordsIn(head, body) }));
    return { head, body };
  }

  /** Changes properties of a head. Does nothing for an unknown id. @param {string} id @param {Partial<Head>} news */
  async change(id, news) {
    const one = this.#all.get(id);
    if (one) await this.put({ ...one.head, ...news }, one.body);
  }

  /** Removes a conversation and its draft. @param {string} id */
  async remove(id) {
    this.#all.delete(id);
    this.#drafts.delete(id);
  }

  /** Returns whether there is a conversation with this id. @param {string} id */
  async has(id) {
    return this.#all.has(id);
  }

  /** Returns a draft, or undefined if there is none. @param {string} id */
  async draft(id) {
    return this.#drafts.get(id);
  }

  /** Saves a draft; null removes it. @param {string} id @param {Draft | null} draft */
  async setDraft(id, draft) {
    if (draft) this.#drafts.set(id, draft);
    else this.#drafts.delete(id);
  }

  /** Iterates copies of all conversations, in the order in which they were added. @returns {AsyncGenerator<Whole>} */
  async *all() {
    for (const id of this.#all.keys()) yield/** @type {Whole} */ (await this.get(id));
  }
}

/** @typedef {{ head: Head, body: Kept }} Whole */

/** Merges two copies of a conversation. The name and the pin are those of the stored copy, since only the list
 * changes them.
 * @param {Whole} there @param {Whole} here @param {News} news @returns {Whole} */
function together(there, here, news) {
  const { title, named, pinned, updated } = there.head;
  const head = { ...here.head, title, pinned, updated: Math.max(updated, here.head.updated), ...(named && { named }) };
  return { head, body: merged(there.body, here.body, news) };
}

/** @param {Head} head @param {Kept} body */
function wordsIn(head, body) {
  return wordsOf([head.title, ...body.said.map(spoken)]);
}
