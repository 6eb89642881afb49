/**
 * shortcuts: Alt+Shift and a letter for what is done often, and the list of them. A letter alone is never a shortcut:
 * it is the beginning of a message (WCAG 2.1.4), so it moves the focus to the message field.
 * @module
 */
import { box, button, byId, underDialog } from '../shell/dom.js';

/** @param {{ newChat: () => void, models: () => void }} on */
export function setUpShortcuts({ newChat, models }) {
  const list = byId('shortcuts', HTMLDialogElement);
  button('shortcuts-open').addEventListener('click', () => list.showModal());
  button('shortcuts-close').addEventListener('click', () => list.close());
  /** By the key's place: with Alt some systems write another letter. @type {Record<string, () => void>} */
  const keys = {
    KeyK: () => list.showModal(),
    KeyN: newChat,
    KeyM: models,
    KeyS: () => button('settings-toggle').click(),
    KeyI: () => button('look-toggle').click(),
    KeyF: () => button('search-toggle').click(),
    KeyL: () => button('library-toggle').click(),
  };
  addEventListener('keydown', (event) => {
    const { code, key, altKey, shiftKey, ctrlKey, metaKey, target } = event;
    const talking = /^(ready|reading)$/.test(document.body.dataset.state ?? '');
    if (!talking || ctrlKey || metaKey || underDialog()) return;
    if (altKey && shiftKey && keys[code]) {
      event.preventDefault();
      keys[code]();
    } else if (!altKey && target === document.body && key.length === 1 && key !== ' ') {
      box('input').focus(); // the letter goes there, too
    }
  });
}
