/**
 * chooser: lists the models in a dialog over the conversation (on phones a sheet), or on the page itself if there is no
 * conversation. Also shows why a choice failed.
 * @module
 */
import { box, button, byId, onClick } from '../shell/dom.js';
import { errorBox } from '../shell/errors.js';
import { update } from '../shell/store.js';

/** The dialog of the model chooser, or its place on the page. */
export class Chooser {
  #dialog = byId('chooser', HTMLDialogElement);
  #models = box('models');

  /** @param {() => void} leave   called when the user leaves without a choice */
  constructor(leave) {
    onClick('back', leave);
    this.#dialog.addEventListener('close', () => update({ models: this.#dialog.open }));
    this.#dialog.addEventListener('cancel', (event) => {
      // Escape and, on phones, Back send `cancel` to the dialog. A file field in the dialog also sends one, which is
      // ignored.
      if (event.target === this.#dialog) leave();
    });
    this.#dialog.addEventListener('mousedown', (event) => {
      if (event.target !== this.#dialog) return; // the press was inside the dialog, not beside it
      event.preventDefault(); // otherwise the dialog's first element would get the focus
      leave();
    });
  }

  /** Opens the chooser over the open conversation. */
  show() {
    const opens = !this.#dialog.open;
    if (opens) {
      this.#dialog.append(this.#models);
      this.#dialog.showModal();
      update({ models: true });
    }
    if (opens || !this.#dialog.contains(document.activeElement)) button('back').focus();
  }

  /** Closes the chooser. The focus returns to where it was, if that element still exists. */
  close() {
    if (!this.#dialog.open) return;
    this.#dialog.close();
    update({ models: false });
    const at = document.activeElement;
    if (at === document.body) box('main').focus();
    if (!(at instanceof HTMLTextAreaElement)) return;
    at.blur(); // focuses again, because Chromium restores the focus without a caret
    at.focus();
  }

  /** Shows the chooser in place of a conversation. */
  welcome() {
    this.close();
    box('picker').append(this.#models);
  }
}

/** Shows an error in the model chooser, or removes the one that is shown.
 * @param {unknown} error   null for none @param {Parameters<typeof errorBox>[1]} [more]   what failed, and remedies */
export function showTrouble(error, more) {
  const place = box('picker-error');
  place.replaceChildren(...(error ? [errorBox(error, more)] : []));
  if (error) place.scrollIntoView({ block: 'nearest' });
}
