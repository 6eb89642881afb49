/**
 * openings: opens a conversation: from the list, by its address, or a new one. Only the latest request has an effect.
 * @module
 */
import { actions, latest, state, update } from '../shell/store.js';
import { route } from '../shell/route.js';
import { Tree } from '../history/tree.js';

/** @import { Keeper } from './keeper.js' */

/** Handles requests to open a conversation. */
export class Openings {
  #latest = latest();
  /** Id of the conversation that is being opened, null for a new one; undefined if none is being opened.
   * @type {string | null | undefined} */
  #next;
  #conversation;
  #keeper;
  #composer;
  #library;

  /** @param {import('./conversation.js').Conversation} conversation @param {Keeper} keeper
   * @param {import('./composer.js').Composer} composer
   * @param {import('../history/library.js').Library} library */
  constructor(conversation, keeper, composer, library) {
    this.#conversation = conversation;
    this.#keeper = keeper;
    this.#composer = composer;
    this.#library = library;
    actions.open = (id) => {
      if (state.panel === 'settings') update({ panel: '' });
      return this.open(id);
    };
  }

  /** The id of the conversation that is open or about to be opened. */
  get id() {
    return this.#next === undefined ? state.id : this.#next;
  }

  /** Opens a conversation after stopping a running answer. Opens a new one if the id is unknown.
   * @param {string | null} id   from the archive; null: a new conversation
   * @param {{ instead?: boolean, along?: boolean }} [how]   instead: replaces the history entry; along: the current
   * draft moves to the opened conversation */
  async open(id, { instead = false, along = false } = {}) {
    const isLatest = this.#latest();
    const before = state.id;
    this.#next = id;
    await this.#conversation.halt(); // saves the end of a running answer before the archive is read
    if (!isLatest()) return;
    const one = id ? await this.#library.archive.get(id).catch(() => null) : null;
    const written = await this.#keeper.draft(one?.head);
    if (!isLatest()) return;
    this.#next = undefined;
    // If a message was sent while the draft was read, it has already begun the new conversation.
    if (id === null && before === null && state.id !== null) return;
    this.#keeper.flush();
    const now = this.#composer.message;
    if (along && !this.#conversation.editing) this.#keeper.typed({ text: '', files: [] });
    await this.#conversation.open(one && { head: one.head, tree: new Tree(one.body) });
    // The draft is set in the same task as the conversation, so that text typed afterwards stays.
    this.#composer.draft(along && (now.text || now.files.length) ? now : (this.#keeper.unwritten ?? written));
    route.show({ instead: instead || (id !== null && !one) });
    if (!/^(loading|opening)$/.test(state.phase)) {
      actions.rest();
      actions.focus();
    }
    this.#library.leave();
    await this.#library.show();
  }
}
