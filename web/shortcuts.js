/**
 * shortcuts: keys for what is done often, and the list of them under "?".
 * @module
 */
import { box, button, byId, underDialog } from './dom.js';

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** @param {{ newChat: () => void, models: () => void }} on */
export function setUpShortcuts({ newChat, models }) {
  const list = byId('shortcuts', HTMLDialogElement);
  button('shortcuts-open').addEventListener('click', () => list.showModal());
  button('shortcuts-close').addEventListener('click', () => list.close());
  /** @type {Record<string, () => void>} */
  const keys = {
    '?': () => list.showModal(),
    n: newChat,
    m: models,
    s: () => button('settings-toggle').click(),
    i: () => button('look-toggle').click(),
    f: () => button('search-toggle').click(),
    l: () => button('library-toggle').click(),
    '/': () => box('input').focus(),
  };
  addEventListener('keydown', (event) => {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const talking = /^(ready|reading)$/.test(document.body.dataset.state ?? '');
    if (!plain || !talking || isField(event.target) || underDialog() || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
