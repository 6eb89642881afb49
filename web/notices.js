/**
 * notices: things to know that stop nothing: each says itself once and can be put away.
 * @module
 */
import { action, box, el } from './dom.js';

/** @param {string} id   of the place @param {string[]} texts */
export function showNotices(id, texts) {
  box(id).replaceChildren(...texts.filter(Boolean).map((text) => {
    const close = action('Close', () => note.remove(), 'quiet small');
    close.setAttribute('aria-label', 'Close this notice');
    const note = el('p', { className: 'notice' }, el('span', {}, text), close);
    return note;
  }));
}
