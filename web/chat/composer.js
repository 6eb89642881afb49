/**
 * composer: the message field. Enter sends, Shift+Enter breaks the line, ↑ in an empty field brings the last message
 * back. Shows how much of the context is in use, and how much the message would add.
 * @module
 */
import { Attachments } from './attachments.js';
import { box, button, byId, hasTouch, onClick, onSubmit } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { actions, latest, state, watch } from '../shell/store.js';
import { spoken } from '../history/tree.js';

/** @import { Draft } from '../shell/store.js' */

/** Pause in typing after which tokens are counted, in milliseconds. */
const COUNT_AFTER = 150;

/** @returns {Draft} */
const nothing = () => ({ text: '', files: [] });

/** The message field with its attachments, which holds a draft or an earlier message to edit. */
export class Composer {
  #field = byId('input', HTMLTextAreaElement);
  #attachments;
  #conversation;
  #keeper;
  #follow;
  /** The draft to restore after an earlier message was edited; null: none is being edited. @type {Draft | null} */
  #before = null;

  /** @param {import('./conversation.js').Conversation} conversation @param {import('./keeper.js').Keeper} keeper
   * @param {import('./follow.js').Follow} follow */
  constructor(conversation, keeper, follow) {
    this.#conversation = conversation;
    this.#keeper = keeper;
    this.#follow = follow;
    this.#attachments = new Attachments(this.#field, () => {
      follow.keep();
      this.#typed();
    });
    if (hasTouch()) this.#field.enterKeyHint = 'enter';
    this.#field.addEventListener('input', () => {
      this.#grow();
      this.#typed();
    });
    this.#field.addEventListener('keydown', (event) => this.#pressed(event));
    onSubmit('composer', () => this.#send());
    onClick('stop', () => conversation.stop());
    onClick('editing-cancel', () => this.#leave());
    watch(['busy'], () => showBusy(this.#field));
    watch(['used', 'model'], showContext);
    watch(['model'], () => showMode(this.#field));
    watch(['busy', 'model', 'used'], () => state.busy || countDraft(this.#draft()));
    this.#act();
  }

  /** The draft of the next message, even while an earlier message is edited in the field. */
  get message() {
    return this.#before ?? this.#draft();
  }

  /** Puts the draft of another conversation into the field. Ends editing. @param {Draft} kept */
  draft(kept) {
    const editing = this.#conversation.tree.get(kept.editing ?? null);
    this.#conversation.editing = editing ?? null;
    this.#before = (editing && kept.before) ?? null;
    this.#attachments.place++;
    this.#set(kept);
  }

  #draft() {
    return { text: this.#field.value, files: [...this.#attachments.files] };
  }

  #grow() {
    this.#field.style.height = 'auto';
    this.#field.style.height = `${this.#field.scrollHeight + 2}px`;
    this.#follow.keep();
  }

  #typed() {
    const draft = this.#draft();
    const before = this.#before;
    const edited = before && spoken(draft) && { ...draft, before, editing: this.#conversation.editing?.id };
    this.#keeper.typed(edited || this.message);
    countDraft(draft);
  }

  /** @param {Draft} draft */
  #set({ text, files }) {
    box('editing').hidden = !this.#before;
    this.#field.value = text;
    this.#attachments.set(files);
    this.#grow();
    if (this.#before) countDraft({ text, files });
    else this.#typed();
  }

  #back() {
    const kept = this.#before ?? nothing();
    this.#before = null;
    this.#set(kept);
  }

  #leave() {
    this.#conversation.editing = null;
    this.#back();
    this.#field.focus();
  }

  #send() {
    const [text, { files }] = [this.#field.value.trim(), this.#attachments];
    if (state.busy || !(text || files.length)) return;
    // send() gives a new conversation its id, so the draft that is stored without an id is cleared first.
    if (!this.#before) this.#keeper.typed(nothing());
    if (this.#conversation.send({ text, files })) this.#back();
    else if (!this.#before) this.#keeper.typed({ text, files });
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.key === 'Escape' && !event.isComposing && this.#before) {
      event.stopPropagation();
      return this.#leave();
    }
    if (event.key === 'ArrowUp' && !this.#field.value && !this.#attachments.files.length) {
      event.preventDefault();
      return this.#set(this.#conversation.message);
    }
    // Enter does not send while an input method composes a character (isComposing; keyCode 229 in Safari), nor on touch
    // keyboards, where Shift+Enter cannot break the line.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229 || hasTouch()) return;
    event.preventDefault();
    byId('composer', HTMLFormElement).requestSubmit();
  }

  /** Implements the actions of store.js that send or change the message. */
  #act() {
    actions.say = (said) => {
      const now = this.message;
      this.#keeper.typed(nothing());
      this.#conversation.send(said);
      this.#keeper.typed(now);
    };
    actions.edit = (said) => {
      this.#before ??= this.#draft();
      this.#set(said);
      this.#field.focus();
    };
    actions.ask = ({ text, files }) => {
      if (!this.#field.value) this.#field.value = text;
      this.#grow();
      this.#attachments.add(files);
      this.#field.focus();
    };
  }
}

/** Shows Stop instead of Send while an answer runs. If the focused button disappears, the message field gets the focus.
 * @param {HTMLTextAreaElement} field */
function showBusy(field) {
  const { busy } = state;
  const at = document.activeElement;
  const held = at === button('send') || at === button('stop') || (busy && at === document.body && !hasTouch());
  button('send').hidden = busy;
  button('stop').hidden = !busy;
  if (held) field.focus();
}

/** Shows whether the model chats, or continues a text because it has no chat template.
 * @param {HTMLTextAreaElement} field */
function showMode(field) {
  if (!state.model) return;
  const chats = state.model.info.chatTemplate;
  field.placeholder = t(chats ? 'message' : 'text.write');
  field.ariaLabel = t(chats ? 'message' : 'text.continue');
}

function showContext() {
  const { used, model } = state;
  const length = model?.info.contextLength ?? 0;
  box('meter-text').textContent = t('context', { used: Math.min(used, length), all: length });
  byId('meter', HTMLProgressElement).value = length ? Math.min(1, used / length) : 0;
}

const drafts = latest();

/** @param {Draft} draft */
function countDraft(draft) {
  const { model } = state;
  const text = spoken(draft);
  const place = box('draft-tokens');
  const isLatest = drafts();
  place.classList.remove('over');
  if (!text || !model) return place.replaceChildren();
  setTimeout(async () => {
    if (!isLatest() || model !== state.model) return;
    const { length } = await model.tokenize(text).catch(() => ({ length: -1 }));
    if (length < 0 || !isLatest()) return;
    const free = Math.max(0, model.info.contextLength - state.used);
    const counts = { used: length, over: length - free, left: free - length };
    place.classList.toggle('over', length > free);
    place.textContent = t(length > free ? 'draft.over' : 'draft.left', counts);
  }, COUNT_AFTER);
}
