/**
 * composer: the message field. Enter sends, Shift+Enter breaks the line, ↑ in an empty field brings the last message
 * back. Shows how much of the context is in use, and how much the message would take.
 * @module
 */
import { Attachments } from './attachments.js';
import { box, button, byId, hasTouch, onClick, onSubmit } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { actions, latest, state, watch } from '../shell/store.js';
import { spoken } from '../history/tree.js';

/** @import { Draft } from '../shell/store.js' */

/** Tokens of a message are counted after this pause in typing, in milliseconds. */
const COUNT_AFTER = 150;

/** @returns {Draft} */
const nothing = () => ({ text: '', files: [] });

/** @param {import('./conversation.js').Conversation} conversation @param {import('./keeper.js').Keeper} keeper
 * @param {import('./follow.js').Follow} follow */
export function setUpComposer(conversation, keeper, follow) {
  const field = byId('input', HTMLTextAreaElement);
  /** The draft that the field held before an earlier message was edited in it. @type {Draft | null} */
  let before = null;

  const draft = () => ({ text: field.value, files: [...attachments.files] });
  const message = () => before ?? draft();
  const grow = () => {
    field.style.height = 'auto';
    field.style.height = `${field.scrollHeight + 2}px`;
    follow.keep();
  };
  const typed = () => {
    if (!conversation.editing) keeper.typed(draft());
    countDraft(draft());
  };
  const attachments = new Attachments(field, () => {
    follow.keep();
    typed();
  });
  /** @param {Draft} draft @param {boolean} [editing] */
  const set = ({ text, files }, editing = !box('editing').hidden) => {
    box('editing').hidden = !editing;
    field.value = text;
    attachments.set(files);
    grow();
    typed();
  };
  const back = () => {
    const kept = before ?? nothing();
    before = null;
    set(kept, false);
  };
  const leave = () => {
    conversation.leaveEditing();
    back();
    field.focus();
  };
  onSubmit('composer', () => {
    const [text, { files }] = [field.value.trim(), attachments];
    if (state.busy || !(text || files.length)) return;
    const { editing } = conversation;
    if (!editing) keeper.typed(nothing()); // while it is still the draft of a new conversation
    if (conversation.send({ text, files })) back();
    else if (!editing) keeper.typed({ text, files });
  });
  if (hasTouch()) field.enterKeyHint = 'enter';
  field.addEventListener('input', () => {
    grow();
    typed();
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing && !box('editing').hidden) {
      event.stopPropagation();
      return leave();
    }
    if (event.key === 'ArrowUp' && !field.value && !attachments.files.length) {
      event.preventDefault();
      return set(conversation.message);
    }
    // Enter may also end the composition of a character (isComposing; in Safari 229): then it sends nothing.
    // A touch keyboard has no Shift for a second line, and the Send button is next to it.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229 || hasTouch()) return;
    event.preventDefault();
    byId('composer', HTMLFormElement).requestSubmit();
  });
  onClick('stop', () => conversation.stop());
  onClick('editing-cancel', leave);
  watch(['busy'], () => showBusy(field));
  watch(['used', 'model'], showContext);
  watch(['model'], () => showMode(field));

  actions.say = (said) => {
    const now = message();
    keeper.typed(nothing()); // while it is still the draft of a new conversation
    conversation.send(said);
    keeper.typed(now);
  };
  actions.edit = (said) => {
    before ??= draft();
    set(said, true);
    field.focus();
  };
  actions.ask = ({ text, files }) => {
    if (!field.value) field.value = text;
    grow();
    attachments.add(files);
    field.focus();
  };
  return {
    /** Restores the draft of this conversation. @param {Draft} kept */
    draft(kept) {
      before = null;
      attachments.place++;
      set(kept, false);
    },
    /** The message in the field, and the earlier message that it replaces, if any. */
    get message() {
      return message();
    },
  };
}

/** While an answer runs, the next message can be written but not sent. When a button with the focus disappears, in the
 * transcript too, the field gets the focus. @param {HTMLTextAreaElement} field */
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
  field.placeholder = t(chats ? 'message.write' : 'text.write');
  field.ariaLabel = t(chats ? 'message' : 'text.continue');
}

function showContext() {
  const { used, model } = state;
  const length = model?.info.contextLength ?? 0;
  box('meter-text').textContent = t('context', { used: Math.min(used, length), all: length });
  byId('meter', HTMLProgressElement).value = length ? Math.min(1, used / length) : 0;
}

const drafts = latest();

/** Shows how many tokens the message takes, and how many would be left. @param {Draft} draft */
function countDraft(draft) {
  const { model } = state;
  const text = spoken(draft);
  const place = box('draft-tokens');
  const isLatest = drafts();
  place.classList.remove('over');
  if (!text || !model) {
    place.textContent = '';
    return;
  }
  setTimeout(async () => {
    if (!isLatest() || model !== state.model) return;
    const { length } = await model.tokenize(text).catch(() => ({ length: -1 }));
    if (length < 0 || !isLatest()) return;
    const left = Math.max(0, model.info.contextLength - state.used);
    place.classList.toggle('over', length > left);
    place.textContent =
      length > left
        ? t('draft.over', { used: length, over: length - left })
        : t('draft.left', { used: length, left: left - length });
  }, COUNT_AFTER);
}
