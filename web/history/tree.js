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

/** What was said, changed or taken back here since it was last kept: ids. @typedef {{ own: string[], gone: string[],
 *   at: number }} News */

/** Unique enough for one person's conversations, in an order that shows their age. */
export function newId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return Date.now().toString(36) + [...random].map((n) => n.toString(36)).join('');
}

export class Tree {
  /** @type {Map<string, Said>} */ #said = new Map();
  /** What is news, and its turn among them. @type {Map<string, number>} */ #own = new Map();
  /** @type {Map<string, number>} */ #gone = new Map();
  #turn = 0;
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
    this.touch(one);
    this.leaf = one.id;
    return one;
  }

  /** It changes here. @param {Said} one */
  touch(one) {
    if (this.#said.has(one.id)) this.#own.set(one.id, ++this.#turn);
  }

  /** What another tab has of it: all that is not changed here. Gives whether there was any.
   * @param {Said[]} said */
  join(said) {
    const ours = (/** @type {string} */ id) => this.#own.has(id) || this.#gone.has(id);
    const news = said.filter((one) => !ours(one.id) && differ(one, this.#said.get(one.id)));
    for (const one of news) this.#said.set(one.id, Object.assign(this.#said.get(one.id) ?? {}, one));
    return news.length > 0;
  }

  /** Take back a thing after which nothing was said. @param {Said} one */
  remove(one) {
    this.#said.delete(one.id);
    this.#own.delete(one.id);
    this.#gone.set(one.id, ++this.#turn);
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
    const path = whole.slice(
      Math.max(
        0,
        whole.findIndex(({ id }) => id === from),
      ),
    );
    const answered = path.filter((one, i) => one.role === 'assistant' || path[i + 1]?.role === 'assistant');
    return answered.map((one) => {
      const { role, state } = one;
      const content = spoken(one);
      return role === 'assistant' && state !== 'whole' ? { role, content, aborted: true } : { role, content };
    });
  }

  /** A conversation of its own, of this path alone. @param {string} id   its last */
  branch(id) {
    const said = this.path(id);
    return new Tree({ said, leaf: id });
  }

  /** @returns {News} */
  get news() {
    return { own: [...this.#own.keys()], gone: [...this.#gone.keys()], at: this.#turn };
  }

  /** What was news is kept. @param {News} news */
  settle({ at }) {
    for (const news of [this.#own, this.#gone]) {
      for (const [id, turn] of news) if (turn <= at) news.delete(id);
    }
  }

  /** @returns {Kept} */
  kept() {
    return { said: [...this.#said.values()].map((one) => ({ ...one })), leaf: this.leaf };
  }
}

/** What may change of it. */
const CHANGING = /** @type {const} */ (['text', 'state', 'stats', 'full']);

/** @param {Said} one @param {Said} [other] */
const differ = (one, other) => !other || CHANGING.some((part) => one[part] !== other[part]);

/** What two tabs have of one conversation: all that was said in either. Of what both have that counts which has changed
 * here, else what is there. @param {Kept} there @param {Kept} here @param {News} news @returns {Kept} */
export function merged(there, here, { own, gone }) {
  const theirs = new Map(there.said.map((one) => [one.id, one]));
  const ours = new Set(here.said.map(({ id }) => id));
  const said = here.said.map((one) => (own.includes(one.id) ? one : (theirs.get(one.id) ?? one)));
  // What was taken back here, another tab may have gone on from.
  const before = new Set(there.said.map(({ parent }) => parent));
  const others = there.said.filter(({ id }) => !ours.has(id) && (!gone.includes(id) || before.has(id)));
  let { leaf } = here; // what another tab has said behind it is shown
  for (let next; (next = others.findLast(({ parent }) => parent === leaf)); ) leaf = next.id;
  return { said: [...said, ...others], leaf };
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
