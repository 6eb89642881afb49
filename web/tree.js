/**
 * tree: a conversation with everything that was ever said in it. A question that is edited and an answer
 * that is asked for again stand beside the old ones; what is shown is the path from the beginning to one
 * leaf. Plain data inside, so that it can be kept and sent as it is. Knows no page and no model.
 * @module
 */

/**
 * @typedef {object} Said
 * @property {string} id
 * @property {string | null} parent
 * @property {'user' | 'assistant'} role
 * @property {string} text
 * @property {Attached[]} [files]   texts that were given with it
 * @property {'whole' | 'cut' | 'partial'} state   cut: ended by its reader or a limit; partial: the page went away
 * @property {string} [stats]   the numbers under an answer
 * @property {string} [hint]
 * @property {string} [model]   who answered
 * @property {boolean} [full]   the context ended it
 */

/** @typedef {{ name: string, text: string }} Attached */

/** @typedef {{ said: Said[], leaf: string | null }} Kept */

/** Unique enough for one person's conversations, in an order that shows their age. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return Date.now().toString(36) + [...random].map((n) => n.toString(36)).join('');
}

export class Tree {
  /** @type {Map<string, Said>} */ #said = new Map();
  /** @type {string | null} */ leaf = null;

  /** @param {Kept} [kept] */
  constructor(kept) {
    for (const one of kept?.said ?? []) this.#said.set(one.id, { ...one });
    this.leaf = kept?.leaf && this.#said.has(kept.leaf) ? kept.leaf : null;
  }

  get size() {
    return this.#said.size;
  }

  /** @param {string | null} id */
  get(id) {
    return id === null ? undefined : this.#said.get(id);
  }

  /** A new thing said after `parent` (null: at the beginning); the path leads to it.
   * @param {string | null} parent @param {Said['role']} role @param {string} [text] */
  add(parent, role, text = '') {
    /** @type {Said} */
    const one = { id: newId(), parent, role, text, state: role === 'user' ? 'whole' : 'partial' };
    this.#said.set(one.id, one);
    this.leaf = one.id;
    return one;
  }

  /** Take back a thing after which nothing was said. @param {Said} one */
  remove(one) {
    this.#said.delete(one.id);
    if (this.leaf !== one.id) return;
    this.leaf = one.parent;
    const others = this.#after(one.parent);
    if (others.length) this.choose(others[others.length - 1]);
  }

  /** From the beginning to the leaf, or to `id`. @param {string | null} [id] */
  path(id = this.leaf) {
    /** @type {Said[]} */
    const found = [];
    for (let one = this.get(id); one && found.length < this.size; one = this.get(one.parent)) found.push(one);
    return found.reverse();
  }

  /** @param {string | null} parent */
  #after(parent) {
    return [...this.#said.values()].filter((one) => one.parent === parent);
  }

  /** The versions of a thing, itself among them, oldest first. @param {Said} one */
  versions(one) {
    return this.#after(one.parent).filter((other) => other.role === one.role);
  }

  /** Show this version, and of all that follows it the latest. @param {Said} one */
  choose(one) {
    let last = one;
    for (let next = this.#after(one.id); next.length; next = this.#after(last.id)) last = next[next.length - 1];
    this.leaf = last.id;
  }

  /** What a model is told: questions that have an answer, and the answers, from `from` on (if it is on the way) to
   * `until`. @param {string | null} [until] @param {string} [from] */
  messages(until, from) {
    const whole = this.path(until === undefined ? this.leaf : until);
    const path = whole.slice(Math.max(0, whole.findIndex(({ id }) => id === from)));
    const answered = path.filter((one, i) => one.role === 'assistant' || path[i + 1]?.role === 'assistant');
    return answered.map((one) => {
      const { role, state } = one, content = spoken(one);
      return role === 'assistant' && state !== 'whole' ? { role, content, aborted: true } : { role, content };
    });
  }

  /** A conversation of its own, of this path alone. @param {string} id   its last */
  branch(id) {
    const said = this.path(id);
    return new Tree({ said, leaf: id });
  }

  /** @returns {Kept} */
  kept() {
    return { said: [...this.#said.values()].map((one) => ({ ...one })), leaf: this.leaf };
  }
}

/** A message as a model reads it: the files behind the words, each between two lines that name it.
 * @param {Pick<Said, 'text' | 'files'>} said */
export function spoken({ text, files = [] }) {
  const parts = files.map((file) => `--- ${file.name} ---\n${file.text.trimEnd()}\n--- end of ${file.name} ---`);
  return [text, ...parts].filter(Boolean).join('\n\n');
}

const TITLE = 60;

/** The name of a conversation until somebody gives it one: the beginning of its first message. @param {string} text */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, ' ');
  if (line.length <= TITLE) return line || 'Empty message';
  const cut = line.slice(0, TITLE);
  return `${cut.slice(0, cut.lastIndexOf(' ') > TITLE / 2 ? cut.lastIndexOf(' ') : TITLE)}…`;
}

/** A book that was pasted: its beginning will do. */
const MOST_WORDS = 4000;
/** Writing that puts no blanks between words: they are told apart by what they mean. */
export const BY_SENSE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Khmer}\p{sc=Lao}]/u;

/** The different words of a text, small letters, for searching. @param {Iterable<string>} texts */
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

/** @param {string} run */
function segments(run) {
  if (!Intl.Segmenter) return [run];
  return Array.from(new Intl.Segmenter(undefined, { granularity: 'word' }).segment(run), ({ segment }) => segment);
}
