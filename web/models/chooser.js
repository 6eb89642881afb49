/**
 * chooser: the models as a part of the page: over the conversation, which stays in its place (a dialog; on phones a
 * sheet), or in its stead while there is none. What a choice does is app.js's affair.
 * @module
 */
import { box, button, byId } from '../shell/dom.js';

export class Chooser {
  #dialog = byId('chooser', HTMLDialogElement);
  #models = box('models');

  /** @param {() => void} leave   somebody leaves without a choice */
  constructor(leave) {
    button('back').addEventListener('click', leave);
    this.#dialog.addEventListener('cancel', (event) => {
      // Escape, or Back on a phone; that of the file field too
      if (event.target === this.#dialog) leave();
    });
    this.#dialog.addEventListener('mousedown', (event) => {
      if (event.target !== this.#dialog) return; // beside it
      event.preventDefault(); // else what is there would get the focus
      leave();
    });
  }

  get open() {
    return this.#dialog.open;
  }

  /** Over what is there. */
  show() {
    const opens = !this.open;
    if (opens) {
      this.#dialog.append(this.#models);
      this.#dialog.showModal();
    }
    if (opens || !this.#dialog.contains(document.activeElement)) button('back').focus();
  }

  /** The focus goes back to where it was, unless that is gone. */
  close() {
    if (!this.open) return;
    this.#dialog.close();
    const at = document.activeElement;
    if (at === document.body) box('main').focus();
    if (!(at instanceof HTMLTextAreaElement)) return;
    at.blur(); // Chromium gives it back without a caret
    at.focus();
  }

  /** In place of a conversation. */
  welcome() {
    this.close();
    box('picker').append(this.#models);
  }
}
