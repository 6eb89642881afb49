/**
 * composer: the message field: Enter sends, Shift+Enter breaks the line, it grows with its text; ↑ in an empty field
 * brings the last message back; while an earlier message is edited it says so. Texts go with it (attachments.js).
 * @module
 */
import { Attachments } from './attachments.js';
import { box, button, byId, hasTouch } from '../shell/dom.js';

/** @typedef {import('../history/archive.js').Draft} Draft */

/**
 * @typedef {object} On
 * @property {(draft: Draft) => boolean} send   false: not now, the text stays
 * @property {() => void} stop
 * @property {() => void} resized
 * @property {(draft: Draft) => void} typed
 * @property {() => Draft} last      the last message that was sent
 * @property {() => void} kept       an earlier message is left as it is
 */

/** @param {On} on */
export function setUpComposer(on) {
  const field = byId('input', HTMLTextAreaElement);
  const form = byId('composer', HTMLFormElement);
  let busy = false;
  /** What was being written when an earlier message was taken up. @type {Draft | null} */
  let before = null;

  const grow = () => {
    field.style.height = 'auto';
    field.style.height = `${field.scrollHeight + 2}px`;
    on.resized();
  };
  const draft = () => ({ text: field.value, files: [...attachments.files] });
  const attachments = new Attachments(field, () => {
    on.resized();
    on.typed(draft());
  });
  /** @param {Draft} draft */
  const set = ({ text, files }) => {
    field.value = text;
    attachments.set(files);
    grow();
  };
  /** @param {boolean} now */
  const editing = (now) => {
    box('editing').hidden = !now;
  };
  const back = () => {
    editing(false);
    set(before ?? { text: '', files: [] });
    before = null;
    on.typed(draft());
  };
  const leave = () => {
    on.kept();
    back();
    field.focus();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const [text, { files }] = [field.value.trim(), attachments];
    if (busy || !(text || files.length) || !on.send({ text, files })) return;
    back();
  });
  if (hasTouch()) field.enterKeyHint = 'enter';
  field.addEventListener('input', () => {
    grow();
    on.typed(draft());
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.isComposing && !box('editing').hidden) {
      event.stopPropagation();
      return leave();
    }
    if (event.key === 'ArrowUp' && !field.value && !attachments.files.length) {
      event.preventDefault();
      set(on.last());
      return on.typed(draft());
    }
    // Enter may also end the composition of a character (isComposing; in Safari 229): then it sends nothing.
    // A touch keyboard has no Shift for a second line, and the Send button is next to it.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229 || hasTouch()) return;
    event.preventDefault();
    form.requestSubmit();
  });
  button('stop').addEventListener('click', on.stop);
  button('editing-cancel').addEventListener('click', leave);

  return {
    /** While an answer runs the next message can be written, not sent. The focus of a button that goes (in the
     * transcript too, when an answer begins) comes here. @param {boolean} now */
    busy(now) {
      const held =
        [button('send'), button('stop')].some((one) => one === document.activeElement) ||
        (now && document.activeElement === document.body && !hasTouch());
      busy = now;
      button('send').hidden = now;
      button('stop').hidden = !now;
      if (held) field.focus();
    },
    focus: () => field.focus(),
    /** An earlier message, to be said differently. @param {Draft} message */
    edit(message) {
      before ??= draft();
      editing(true);
      set(message);
      on.typed(draft());
      field.focus();
    },
    /** What was being written when this conversation was left. @param {Draft} kept */
    draft(kept) {
      before = null;
      attachments.place++;
      editing(false);
      set(kept);
      on.typed(draft());
    },
    /** @param {import('../history/tree.js').Attached[]} files */
    add(files) {
      attachments.add(files);
      field.focus();
    },
    /** A question with texts that belong to it; a message that is being written stays. @param {Draft} draft */
    ask({ text, files }) {
      if (!field.value) field.value = text;
      grow();
      attachments.add(files);
      field.focus();
    },
    /** What is being written, beside an earlier message. */
    get message() {
      return before ?? draft();
    },
  };
}
