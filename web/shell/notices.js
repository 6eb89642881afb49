/**
 * notices: things to know that stop nothing: each says itself once and can be put away.
 * @module
 */
import { action, box, el } from './dom.js';

/** What the package has to tell. @typedef {{ code: string, message: string }} Notice */

/** The package's words as a sentence. @param {string} message */
export function sentence(message) {
  return `${message[0]?.toUpperCase() ?? ''}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`;
}

/** Notices that still matter once a model is loaded. @param {Notice[]} notices
 * @param {string} refusal   in place of why it is not kept, if it is known better */
export function lasting(notices, refusal) {
  const others = notices.filter(({ code }) => code !== 'retry' && !(refusal && code === 'not-cached'));
  return [...others.map(({ message }) => sentence(message)), refusal];
}

/** @param {string} id   of the place @param {string[]} texts */
export function showNotices(id, texts) {
  box(id).replaceChildren(
    ...texts.filter(Boolean).map((text) => {
      const close = action('Close', () => note.remove(), 'quiet small');
      close.setAttribute('aria-label', 'Close this notice');
      const note = el('p', { className: 'notice' }, el('span', {}, text), close);
      return note;
    }),
  );
}
