/**
 * composer: the message field: Enter sends, Shift+Enter breaks the line, it grows with its text.
 * @module
 */
import { button, byId, hasTouch } from './dom.js';

/**
 * @param {{ send: (text: string) => void, stop: () => void, resized: () => void }} on
 */
export function setUpComposer(on) {
  const field = byId('input', HTMLTextAreaElement);
  const form = byId('composer', HTMLFormElement);
  let busy = false;

  const grow = () => {
    field.style.height = 'auto';
    field.style.height = `${field.scrollHeight + 2}px`;
    on.resized();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (busy || !text) return;
    field.value = '';
    grow();
    on.send(text);
  });
  field.addEventListener('input', grow);
  field.addEventListener('keydown', (event) => {
    // Enter may also end the composition of a character (isComposing): then it sends nothing.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  button('stop').addEventListener('click', on.stop);

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
    /** @param {string} text */
    edit(text) {
      field.value = text;
      grow();
      field.focus();
    },
  };
}
