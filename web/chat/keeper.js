/**
 * keeper: saves the open conversation: each turn when it begins and ends, a running answer every second, and the
 * current state when the user leaves the page. Saves the draft of the next message too.
 * @module
 */
import { lineOf, savingError, withDetails } from '../shell/errors.js';
import { addLater, t } from '../shell/language.js';
import { fail, resolve } from '../shell/notices.js';
import { actions, latest, state, update } from '../shell/store.js';
import { leaveBehind, leftBehind } from '../history/storage.js';

/** @import { Conversation } from './conversation.js' */
/** @import { Draft } from '../shell/store.js' */
/** @import { Head } from '../history/archive.js' */
/** @import { Left } from '../history/storage.js' */

const PARTLY_EVERY = 1000;
const DRAFT_AFTER = 300;
/** Key of the draft of a conversation that has no message yet. */
const NEW = 'new';

/** @param {Head | null} [head] */
const draftId = (head) => head?.id ?? NEW;

/** @param {Draft} draft */
const isEmpty = ({ text, files }) => !text && !files.length;

/** @param {unknown} error */
async function notSaved(error) {
  await addLater();
  const shown = savingError(error);
  fail('keep', withDetails(shown === error ? t('save.failed') : lineOf(shown), shown));
}

/** Saves the open conversation and its draft in the library's archive. */
export class Keeper {
  #conversation;
  #library;
  #timer = 0;
  #draftTimer = 0;
  /** The latest draft typed in this tab; other tabs have their own drafts. @type {Left | null} */ #typed = null;
  /** Drafts that are not saved yet, by id. @type {Map<string, Draft>} */ #unsaved = new Map();
  /** Whether the page has shown a failure to save since the last success. */
  #said = false;
  /** Whether there are unsaved changes. Without any, nothing is written, because another tab may have deleted the
   * conversation. */
  #news = false;
  /** Whether another tab has changed the open conversation. */ #elsewhere = false;
  /** Messages and a draft of the last visit that could not be saved. @type {Left | null} */ #left = null;
  #puts = latest();

  /** @param {Conversation} conversation @param {import('../history/library.js').Library} library */
  constructor(conversation, library) {
    this.#conversation = conversation;
    this.#library = library;
    conversation.on = {
      changed: (now) => this.changed(now),
      branched: ({ head, tree }) => {
        const open = () => actions.open(head.id);
        void this.#archive.put(head, tree.kept()).then(open, notSaved);
      },
    };
    library.on = {
      changed: (id, news) => {
        if (conversation.head?.id !== id) return;
        Object.assign(conversation.head, news);
        update({ title: conversation.head.title });
      },
      heard: (id) => void this.#heard(id),
      kept: () => {
        // The stored archive may lack the open conversation, so all its messages count as changed.
        for (const one of conversation.tree.kept().said) conversation.tree.touch(one);
        this.changed(true);
      },
      removed: () => void conversation.sweep(),
    };
    const leave = (/** @type {boolean} */ going) => {
      conversation.flush();
      const { head, tree } = conversation;
      const draft = this.unwritten;
      const said = this.#news && head && { head, body: tree.kept(), news: tree.news };
      this.#leaveBehind({ ...(draft && { draft, id: draftId(head) }), ...said });
      const writes = this.#putDrafts();
      // Merging takes time, so an unloading page merges only with a conversation that another tab has changed.
      if (said) writes.push(this.#put(true, !going || this.#elsewhere));
      void Promise.all(writes).then((saved) => saved.every(Boolean) && this.#leaveBehind());
    };
    addEventListener('pagehide', () => leave(true));
    addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && leave(false));
  }

  get #archive() {
    return this.#library.archive;
  }

  /** @param {Left} [more]   messages and a draft that are not saved yet */
  #leaveBehind(more) {
    const left = { ...this.#left, ...this.#typed, ...more };
    leaveBehind(this.#archive.kept && Object.keys(left).length ? left : null);
  }

  /** Saves the messages and the draft that the last visit had no time to save. */
  async recover() {
    const left = leftBehind();
    if (!left || !this.#archive.kept) return;
    this.#left = left;
    try {
      if (left.head && left.body) await this.#bring(left.head, left.body, left.news);
      if (left.id && left.draft) await this.#archive.setDraft(left.id, isEmpty(left.draft) ? null : left.draft);
      this.#left = null;
      leaveBehind(null);
    } catch {
      // Saving failed, for example because there is no space. The next visit tries again.
    }
  }

  /** Saves the messages that the last visit could not. If another tab has changed the conversation since, its messages
   * win. @param {Head} head
   * @param {import('../history/tree.js').Kept} body @param {import('../history/tree.js').News} [news] */
  async #bring(head, body, news) {
    const archive = this.#archive;
    const there = await archive.get(head.id);
    const since = there && there.head.updated > head.updated;
    if (since) await archive.put(head, { ...body, leaf: there.body.leaf }, { news: { own: [], gone: [], at: 0 } });
    else await archive.put(head, body, { news });
  }

  /** Notes that the conversation has changed. Saves it now or within PARTLY_EVERY ms.
   * @param {boolean} now   true if a turn has begun or ended; false if a part of an answer has arrived */
  changed(now) {
    this.#news = true;
    if (now) void this.#put(true).then(() => this.#library.show());
    else this.#timer ||= window.setTimeout(() => void this.#put(false), PARTLY_EVERY);
  }

  /** Copies changed settings to the open conversation, which has its own settings. */
  settings() {
    const { head } = this.#conversation;
    if (!head) return;
    head.settings = { ...state.settings };
    this.changed(false);
  }

  /** Saves changes now instead of after a pause, because another conversation is being opened. */
  flush() {
    this.#putDrafts();
    if (this.#timer) void this.#put(false);
  }

  /** Saves the conversation. Returns whether that succeeded. @param {boolean} found   updates the search index
   * @param {boolean} [beside]   merges what another tab has added */
  async #put(found, beside = true) {
    const { head, tree } = this.#conversation;
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (!head) return false;
    const isLatest = this.#puts();
    const { news } = tree;
    try {
      const now = await this.#archive.put(head, tree.kept(), { found, news: beside ? news : undefined });
      tree.settle(news);
      this.#conversation.join(now);
      this.#said = false;
      if (!isLatest()) return true; // a later write, which may already have failed, decides what is shown
      if (!this.#timer && !this.#conversation.busy) this.#news = false;
      resolve('keep');
      return true;
    } catch (error) {
      return this.#failed(error);
    }
  }

  /** @param {unknown} error */
  #failed(error) {
    if (!this.#said) void notSaved(error);
    this.#said = true;
    return false;
  }

  /** Handles the message that another tab has changed a conversation. @param {string} id */
  async #heard(id) {
    if (!this.#archive.kept) return;
    void this.#library.show();
    if (state.id !== id) return;
    this.#elsewhere = true;
    const one = await this.#archive.get(id).catch(() => null);
    // An answer that the other tab is still generating is shown once it has ended.
    const last = one?.body.said.find(({ id }) => id === one.body.leaf);
    if (one && last?.state !== 'partial') this.#conversation.join(one, !this.#news);
  }

  /** Notes the draft of the open conversation. Saves it after DRAFT_AFTER ms, an empty one at once.
   * @param {Draft} draft */
  typed(draft) {
    const id = draftId(this.#conversation.head);
    clearTimeout(this.#draftTimer);
    const had = this.#typed;
    this.#typed = isEmpty(draft) ? null : { draft, id };
    this.#unsaved.set(id, draft);
    if (this.#typed) this.#draftTimer = window.setTimeout(() => this.#putDrafts(), DRAFT_AFTER);
    else this.#putDrafts();
    if (had && !this.#typed) this.#leaveBehind(); // after sending, the copy in sessionStorage is obsolete
  }

  /** Saves the drafts. Returns for each draft whether it was saved. */
  #putDrafts() {
    clearTimeout(this.#draftTimer);
    return [...this.#unsaved].map(async ([id, draft]) => {
      try {
        await this.#archive.setDraft(id, isEmpty(draft) ? null : draft);
      } catch (error) {
        return this.#failed(error);
      }
      if (this.#unsaved.get(id) === draft) this.#unsaved.delete(id); // kept until saved: the page may unload meanwhile
      return true;
    });
  }

  /** The open conversation's draft, if it is not saved yet. */
  get unwritten() {
    return this.#unsaved.get(draftId(this.#conversation.head));
  }

  /** Returns the saved draft of a conversation, an empty one if there is none or it cannot be read.
   * @param {Head | null} [head]   null or undefined: a new conversation @returns {Promise<Draft>} */
  async draft(head) {
    return (await this.#archive.draft(draftId(head)).catch(() => undefined)) ?? { text: '', files: [] };
  }
}
