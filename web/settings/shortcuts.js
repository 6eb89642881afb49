/**
 * shortcuts: Alt+Shift and a letter for frequent actions, and the list of them. A letter alone is never a shortcut
 * (WCAG 2.1.4): it begins a message, so it moves the focus to the message field.
 * @module
 */
import { box, button, byId, el, onClick, underDialog } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { actions, state } from '../shell/store.js';

/** Fills the list of shortcuts and handles their keys. Called once. */
export function setUpShortcuts() {
  const list = byId('shortcuts', HTMLDialogElement);
  const show = () => list.showModal();
  // The buttons of panels are hidden while no model is loaded.
  const click = (/** @type {string} */ id) => () => button(id).checkVisibility() && button(id).click();
  onClick('shortcuts-open', show);
  onClick('shortcuts-close', () => list.close());
  /** @type {Record<string, [name: string, act: () => void]>} */
  const keys = {
    N: [t('new-chat'), () => void actions.open(null)],
    L: [t('conversations'), click('library-toggle')],
    M: [t('models'), actions.changeModel],
    S: [t('settings'), click('settings-toggle')],
    I: [t('inside'), click('look-toggle')],
    F: [t('documents'), click('search-toggle')],
    K: [t('shortcuts.show'), show],
  };
  for (const [letter, [name]] of Object.entries(keys)) {
    const [alt, shift, key] = ['Alt', 'Shift', letter].map((text) => el('kbd', text));
    list.querySelector('dl')?.append(el('dt', alt, ' ', shift, ' ', key), el('dd', name));
  }
  addEventListener('keydown', (event) => {
    const { code, key, altKey, shiftKey, ctrlKey, metaKey, target } = event;
    const talking = /^(ready|reading)$/.test(state.phase);
    if (!talking || ctrlKey || metaKey || underDialog()) return;
    const known = keys[code.replace('Key', '')]; // the physical key, because with Alt some systems type another letter
    if (altKey && shiftKey && known) {
      event.preventDefault();
      known[1]();
    } else if (!altKey && target === document.body && key.length === 1 && key !== ' ') {
      box('input').focus(); // the browser then types the letter into the message field
    }
  });
}
