/**
 * tree: all messages of a conversation. Edited questions and retried answers are siblings of the old ones; the path
 * from the root to one leaf is shown. Independent of the page and of models.
 * @module
 */

/**
 * @typedef {object} Said
 * @property {string} id
 * @property {string | null} parent
 * @property {'user' | 'assistant'} role
 * @property {string} text
 * @property {string} [thoughts]   the model's thoughts before an answer
 * @property {number} [thoughtMs]   duration of the thoughts in milliseconds
 * @property {Attached[]} [files]   attached texts
 * @property {'whole' | 'cut' | 'partial'} state   cut: stopped by the user or a limit; partial: the page was closed
 * @property {string} [stats]   the numbers under an answer
 * @property {string} [hint]   tooltip of these numbers
 * @property {string} [model]   name of the model that answered
 * @property {boolean} [full]   the answer ended because the context was full
 */

/** @typedef {{ name: string, text: string }} Attached */

/** @typedef {{ said: Said[], leaf: string | null }} Kept */

/** Changes since the last save. own: ids of added and changed messages; gone: ids of removed ones; at: sequence
 * number of the last change.
 * @typedef {{ own: string[], gone: string[], at: number }} News */

/** Returns an id that is unique enough for one browser; ids sort by age. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return Date.now().toString(36) + [...random].map((n) => n.toString(36)).join('');
}

/** The messages of one conversation, the shown leaf, and the changes that are not saved yet. */
export class Tree {
  /** @type {Map<string, Said>} */ #said = new Map();
  /** Sequence number of the last unsaved change, by id. @type {Map<string, number>} */ #own = new Map();
  /** @type {Map<string, number>} */ #gone = new Map();
  #turn = 0;
  /** @type {string | null} */ leaf = null;

  /** @param {Kept} [kept] */
  constructor(kept) {
    for (const one of kept?.said ?? []) this.#said.set(one.id, { ...one });
    this.leaf = kept?.leaf && this.#said.has(kept.leaf) ? kept.leaf : null;
  }

  /** Returns a message; undefined if it is unknown or the id is null. @param {string | null} id */
  get(id) {
    return id === null ? undefined : this.#said.get(id);
  }

  /** Adds a message after `parent` (null: at the beginning) and shows it.
   * @param {string | null} parent @param {Said['role']} role @param {string} [text] */
  add(parent, role, text = '') {
    /** @type {Said} */
    const one = { id: newId(), parent, role, text, state: role === 'user' ? 'whole' : 'partial' };
    this.#said.set(one.id, one);
    this.touch(one);
    this.leaf = one.id;
    return one;
  }

  /** Notes that a message has changed and must be saved. Ignores removed messages. @param {Said} one */
  touch(one) {
    if (this.#said.has(one.id)) this.#own.set(one.id, ++this.#turn);
  }

  /** Merges the messages that another tab has stored. Messages that this tab has changed or removed stay as they are.
   * Returns whether any message changed. @param {Said[]} said */
  join(said) {
    const ours = (/** @type {string} */ id) => this.#own.has(id) || this.#gone.has(id);
    const news = said.filter((one) => !ours(one.id) && differ(one, this.#said.get(one.id)));
    for (const one of news) this.#said.set(one.id, Object.assign(this.#said.get(one.id) ?? {}, one));
    return news.length > 0;
  }

  /** Removes a message that no other message follows. @param {Said} one */
  remove(one) {
    this.#said.delete(one.id);
    this.#own.delete(one.id);
    this.#gone.set(one.id, ++this.#turn);
    if (this.leaf !== one.id) return;
    this.leaf = one.parent;
    const others = this.#after(one.parent);
    if (others.length) this.choose(others[others.length - 1]);
  }

  /** Returns the messages from the beginning to the leaf, or to `id`. @param {string | null} [id] */
  path(id = this.leaf) {
    /** @type {Said[]} */
    const found = [];
    for (let one = this.get(id); one && found.length < this.#said.size; one = this.get(one.parent)) found.push(one);
    return found.reverse();
  }

  /** @param {string | null} parent */
  #after(parent) {
    return [...this.#said.values()].filter((one) => one.parent === parent);
  }

  /** Returns the versions of a message, itself included, oldest first. @param {Said} one */
  versions(one) {
    return this.#after(one.parent).filter((other) => other.role === one.role);
  }

  /** Shows a version of a message and the latest messages that follow it. @param {Said} one */
  choose(one) {
    let last = one;
    for (let next = this.#after(one.id); next.length; next = this.#after(last.id)) last = next[next.length - 1];
    this.leaf = last.id;
  }

  /** Returns the messages of a prompt, from `from` (if it is on the path) to `until`, without unanswered questions.
   * @param {string | null} [until] @param {string} [from] */
  messages(until, from) {
    const whole = this.path(until);
    const start = whole.findIndex(({ id }) => id === from);
    const path = whole.slice(Math.max(0, start));
    const answered = path.filter((one, i) => one.role === 'assistant' || path[i + 1]?.role === 'assistant');
    return answered.map((one) => {
      const { role, state, thoughts } = one;
      const said = { role, content: spoken(one), ...(thoughts && { thoughts }) };
      return role === 'assistant' && state !== 'whole' ? { ...said, aborted: true } : said;
    });
  }

  /** Returns another tree with only the path to a message. @param {string} id   its last message */
  branch(id) {
    return new Tree({ said: this.path(id), leaf: id });
  }

  /** Changes that are not saved yet. @returns {News} */
  get news() {
    return { own: [...this.#own.keys()], gone: [...this.#gone.keys()], at: this.#turn };
  }

  /** Records that changes up to number `at` are saved. @param {News} news */
  settle({ at }) {
    for (const news of [this.#own, this.#gone]) {
      for (const [id, turn] of news) if (turn <= at) news.delete(id);
    }
  }

  /** Returns a copy of all messages, for the archive. @returns {Kept} */
  kept() {
    return { said: [...this.#said.values()].map((one) => ({ ...one })), leaf: this.leaf };
  }
}

/** Properties that can change after a message was added. */
const CHANGING = /** @type {const} */ (['text', 'thoughts', 'state', 'stats', 'full']);

/** @param {Said} one @param {Said} [other] */
const differ = (one, other) => !other || CHANGING.some((part) => one[part] !== other[part]);

/** Merges the stored messages (there) with this tab's (here). A message in both has this tab's contents only if this
 * tab has changed it. @param {Kept} there @param {Kept} here @param {News} news @returns {Kept} */
export function merged(there, here, { own, gone }) {
  const theirs = new Map(there.said.map((one) => [one.id, one]));
  const ours = new Set(here.said.map(({ id }) => id));
  const said = here.said.map((one) => (own.includes(one.id) ? one : (theirs.get(one.id) ?? one)));
  // Another tab may have continued from a message that was removed here.
  const before = new Set(there.said.map(({ parent }) => parent));
  const others = there.said.filter(({ id }) => !ours.has(id) && (!gone.includes(id) || before.has(id)));
  let { leaf } = here; // moves to messages that another tab has added after the leaf
  for (let next; (next = others.findLast(({ parent }) => parent === leaf)); ) leaf = next.id;
  return { said: [...said, ...others], leaf };
}

/** Returns a message as a model reads it: the text, then the attached files, each between two lines that name it.
 * @param {Pick<Said, 'text' | 'files'>} said */
export function spoken({ text, files = [] }) {
  const parts = files.map((file) => `--- ${file.name} ---\n${file.text.trimEnd()}\n--- end of ${file.name} ---`);
  return [text, ...parts].filter(Boolean).join('\n\n');
}

/** Maximum indexed words of a conversation: of a pasted book only the beginning is indexed. */
const MOST_WORDS = 4000;
/** Matches scripts without spaces between words, in which Intl.Segmenter finds the words. */
export const BY_SENSE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Khmer}\p{sc=Lao}]/u;

/** Returns the different words of texts, in lower case. @param {Iterable<string>} texts */
export function wordsOf(texts) {
  const found = new Set();
  for (const text of texts) {
    for (const [run] of text.toLocaleLowerCase().matchAll(/[\p{L}\p{M}\p{N}]+/gu)) {
      for (const word of BY_SENSE.test(run) ? segments(run) : [run]) found.add(word.slice(0, 40));
      if (found.size >= MOST_WORDS) return [...found];
    }
  }
  return [...found];
}

/** Number of characters shown before a search match. Twice as many follow it. */
const AROUND = 40;

/** Returns the first word that begins with a word of the question, with the text around it.
 * @param {string[]} texts @param {string} question @returns {[before: string, hit: string, after: string] | null} */
export function hitIn(texts, question) {
  for (const word of wordsOf([question])) {
    const start = BY_SENSE.test(word) ? '' : '(?<![\\p{L}\\p{M}\\p{N}])';
    const pattern = new RegExp(start + word, 'iu');
    for (const text of texts) {
      const found = pattern.exec(text);
      if (!found) continue;
      const [{ length }] = found;
      const end = found.index + length;
      const cut = (/** @type {number} */ from, /** @type {number} */ to) =>
        text.slice(Math.max(0, from), to).replace(/\s+/g, ' ');
      const before = (found.index > AROUND ? '…' : '') + cut(found.index - AROUND, found.index);
      return [before, found[0], cut(end, end + 2 * AROUND)];
    }
  }
  return null;
}

/** @param {string} run */
function segments(run) {
  return Array.from(new Intl.Segmenter(undefined, { granularity: 'word' }).segment(run), ({ segment }) => segment);
}
