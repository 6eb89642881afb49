/**
 * composer: the message field: Enter sends, Shift+Enter breaks the line, it grows with its text; ↑ in an empty field
 * brings the last message back; while an earlier message is edited it says so.
 * @module
 */
import { box, button, byId, hasTouch } from './dom.js';

/**
 * @typedef {object} On
 * @property {(text: string) => boolean} send   false: not now, the text stays
 * @property {() => void} stop
 * @property {() => void} resized
 * @property {(text: string) => void} typed
 * @property {() => string} last     the last message that was sent
 * @property {() => void} kept       an earlier message is left as it is
 */

/** @param {On} on */
export function setUpComposer(on) {
  const field = byId('input', HTMLTextAreaElement);
  const form = byId('composer', HTMLFormElement);
  let busy = false;

  const grow = () => {
    field.style.height = 'auto';
    field.style.height = `${field.scrollHeight + 2}px`;
    on.resized();
  };
  /** @param {string} text */
  const set = (text) => {
    field.value = text;
    grow();
  };
  /** @param {boolean} now */
  const editing = (now) => { box('editing').hidden = !now; };
  const leave = () => {
    on.kept();
    editing(false);
    set('');
    on.typed('');
    field.focus();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (busy || !text || !on.send(text)) return;
    editing(false);
    set('');
    on.typed('');
  });
  field.addEventListener('input', () => {
    grow();
    on.typed(field.value);
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !box('editing').hidden) {
      event.stopPropagation();
      return leave();
    }
    if (event.key === 'ArrowUp' && !field.value) {
      event.preventDefault();
      return set(on.last());
    }
    // Enter may also end the composition of a character (isComposing): then it sends nothing.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  button('stop').addEventListener('click', on.stop);
  button('editing-cancel').addEventListener('click', leave);

  return {
    /** While an answer runs the next message can be written, not sent. The focus of a button that goes (in the
     * transcript too, when an answer begins) comes here. @param {boolean} now */
    busy(now) {
      const held = [button('send'), button('stop')].some((one) => one === document.activeElement)
        || (now && document.activeElement === document.body && !hasTouch());
      busy = now;
      button('send').hidden = now;
      button('stop').hidden = !now;
      if (held) field.focus();
    },
    focus: () => field.focus(),
    /** An earlier message, to be said differently. @param {string} text */
    edit(text) {
      editing(true);
      set(text);
      field.focus();
    },
    /** What was being written when this conversation was left. @param {string} text */
    draft(text) {
      editing(false);
      set(text);
    },
    get text() {
      return field.value;
    },
  };
}
