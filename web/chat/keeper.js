/**
 * keeper: what is open goes into the archive: each turn when it begins and ends, a running answer every second, and
 * what there is when the page is left. A draft of the next message too.
 * @module
 */
import { archive, showLibrary } from '../history/library.js';
import { fail, resolve } from '../shell/notices.js';
import { leaveBehind, leftBehind } from '../history/storage.js';

/** @typedef {import('./conversation.js').Conversation} Conversation */
/** @typedef {import('../history/archive.js').Draft} Draft */
/** @typedef {import('../history/archive.js').Head} Head */
/** id: of the conversation. @typedef {{ draft: Draft, id: string }} Written */

const NOT_KEPT =
  'This conversation is not saved: the browser has no room for it. Delete conversations or stored models, or' +
  ' export it before you close this tab.';
const PARTLY_EVERY = 1000;
const DRAFT_AFTER = 300;
/** The draft of a conversation that has no message yet. */
const NEW = 'new';

/** @param {Head | null} [head] */
const draftId = (head) => head?.id ?? NEW;

/** @param {Draft} draft */
const isEmpty = ({ text, files }) => !text && !files.length;

export class Keeper {
  #conversation;
  #timer = 0;
  #draftTimer = 0;
  /** What was typed here last: another tab may send a message of its own. @type {Written | null} */ #typed = null;
  /** A draft that is not written yet. @type {Written | null} */ #waiting = null;
  /** Whether the failure to keep it was shown: once closed it stays closed until it is kept again. */ #said = false;
  /** Whether not all is kept. If it is, nothing is written: another tab may have deleted it since. */ #news = false;
  /** Whether another tab has gone on with what is open here. */ #elsewhere = false;
  #puts = 0;

  /** @param {Conversation} conversation */
  constructor(conversation) {
    this.#conversation = conversation;
    const leave = (/** @type {boolean} */ going) => {
      conversation.flush();
      const { head, tree } = conversation;
      const waiting = this.#waiting;
      const typed = waiting ?? this.#typed;
      const said = this.#news && head && { head, body: tree.kept(), news: tree.news };
      leaveBehind(archive.kept && (said || typed) ? { ...typed, ...said } : null);
      if (!said && !waiting) return;
      // A page that goes has no time to read what is there, unless it must.
      const put = said && this.#put(true, !going || this.#elsewhere);
      void Promise.all([put, waiting && this.#putDraft(waiting.draft, waiting.id)]).then(() =>
        leaveBehind(archive.kept ? this.#typed : null),
      );
    };
    addEventListener('pagehide', () => leave(true));
    addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && leave(false));
  }

  /** What the page was left with: the archive may not have had the time for all of it. */
  async recover() {
    const left = leftBehind();
    if (!left || !archive.kept) return;
    try {
      if (left.head && left.body) await this.#bring(left.head, left.body, left.news);
      if (left.id && left.draft) await archive.setDraft(left.id, isEmpty(left.draft) ? null : left.draft);
      leaveBehind(null);
    } catch {
      // No room: the next time.
    }
  }

  /** Where another tab has gone on since, of what both have its own counts. @param {Head} head
   * @param {import('../history/tree.js').Kept} body @param {import('../history/tree.js').News} [news] */
  async #bring(head, body, news) {
    const there = await archive.get(head.id);
    const since = there && there.head.updated > head.updated;
    if (since) await archive.put(head, { ...body, leaf: there.body.leaf }, { news: { own: [], gone: [], at: 0 } });
    else await archive.put(head, body, { news });
  }

  /** @param {boolean} now   a turn has begun or ended; else some of an answer has come */
  changed(now) {
    this.#news = true;
    if (now) {
      clearTimeout(this.#timer);
      this.#timer = 0;
      void this.#put(true).then(showLibrary);
    } else
      this.#timer ||= window.setTimeout(() => {
        this.#timer = 0;
        void this.#put(false);
      }, PARTLY_EVERY);
  }

  /** What has changed is kept now: another conversation is about to be open. */
  flush() {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    void this.#put(false);
  }

  /** @param {boolean} found   by the words that have come @param {boolean} [beside]   what another tab has said */
  async #put(found, beside = true) {
    const { head, tree } = this.#conversation;
    if (!head) return;
    const mine = ++this.#puts;
    const { news } = tree;
    try {
      const now = await archive.put(head, tree.kept(), { found, news: beside ? news : undefined });
      tree.settle(news);
      this.#conversation.join(now);
      if (mine === this.#puts && !this.#timer && !this.#conversation.busy) this.#news = false;
      resolve('keep');
      this.#said = false;
    } catch {
      if (!this.#said) fail('keep', NOT_KEPT);
      this.#said = true;
    }
  }

  /** Another tab has changed a conversation. @param {string} id */
  async heard(id) {
    void showLibrary();
    if (this.#conversation.head?.id !== id) return;
    this.#elsewhere = true;
    const one = await archive.get(id).catch(() => null);
    // An answer that runs there is shown when it is there.
    const last = one?.body.said.find(({ id }) => id === one.body.leaf);
    if (one && last?.state !== 'partial') this.#conversation.join(one, !this.#news);
  }

  /** @param {Draft} draft */
  typed(draft) {
    const id = draftId(this.#conversation.head);
    // Another conversation may be open when it is time.
    if (this.#waiting && this.#waiting.id !== id) void this.#putDraft(this.#waiting.draft, this.#waiting.id);
    clearTimeout(this.#draftTimer);
    this.#waiting = { draft, id };
    if (this.#typed && isEmpty(draft)) leaveBehind(null); // sent: it may be there since the page was hidden
    this.#typed = isEmpty(draft) ? null : this.#waiting;
    if (isEmpty(draft)) void this.#putDraft(draft, id);
    else this.#draftTimer = window.setTimeout(() => void this.#putDraft(draft, id), DRAFT_AFTER);
  }

  /** @param {Draft} draft @param {string} id */
  async #putDraft(draft, id) {
    clearTimeout(this.#draftTimer);
    await archive.setDraft(id, isEmpty(draft) ? null : draft).catch(() => {});
    if (this.#waiting?.draft === draft) this.#waiting = null; // not before: the page may go meanwhile
  }

  /** What was typed here a moment ago. */
  get unwritten() {
    return this.#waiting?.id === draftId(this.#conversation.head) ? this.#waiting.draft : null;
  }

  /** What was being written in a conversation. @param {Head | null} [head]   none: in a new one
   * @returns {Promise<Draft>} */
  async draft(head) {
    const found = await archive.draft(draftId(head)).catch(() => undefined);
    return typeof found === 'object' ? found : { text: found ?? '', files: [] }; // once it was a text alone
  }
}
