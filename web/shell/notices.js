/**
 * notices: information that does not stop the user. Each notice can be closed.
 * @module
 */
import { action, box, el } from './dom.js';
import { withDetails } from './errors.js';
import { known, t } from './language.js';

/** Id of the element with failures: an ARIA alert, so that later announcements do not replace them. */
const FAILURES = 'failures';

/** @typedef {{ code: string, message: string }} Notice */

/** Returns the text of a notice of the package: its message if its code has no text.
 * @param {Notice} notice */
export function sentence({ code, message }) {
  return known(`notice.${code}`) ?? message;
}

/** Returns an element with the text of a notice, and the package's message in its details.
 * @param {Notice} notice @param {string} [text]   other text of the page */
export const noticeWithDetails = (notice, text) => withDetails(text || sentence(notice), notice.message);

/** Returns the notices that still matter after a load.
 * @param {Notice[]} notices @param {string} refusal   text of "not-cached" if the reason is known, otherwise '' */
export function lasting(notices, refusal) {
  const others = notices.filter(({ code }) => !/^(retry|rows-later)$/.test(code));
  return others.map((one) => noticeWithDetails(one, one.code === 'not-cached' ? refusal : ''));
}

/** Replaces the notices in an element. Empty texts are left out.
 * @param {string} id   of the place @param {(string | HTMLElement)[]} texts   an element can change later */
export function showNotices(id, texts) {
  box(id).replaceChildren(...texts.filter(Boolean).map((text) => noticeOf(text)));
}

/** @param {string | HTMLElement} text @param {HTMLButtonElement[]} remedies */
function noticeOf(text, ...remedies) {
  const dismiss = () => {
    note.remove();
    box('input').focus(); // focus() has no effect while the field is hidden
  };
  const said = typeof text === 'string' ? el('span', text) : text;
  const note = el('div.notice', said, ...remedies, action(t('dismiss'), dismiss, 'quiet small'));
  return note;
}

/** Shows a failure above the message field until it is closed or resolved. A later failure of the same kind replaces
 * it. @param {string} kind @param {string | HTMLElement} text @param {HTMLButtonElement[]} remedies   that it offers */
export function fail(kind, text, ...remedies) {
  const note = noticeOf(text, ...remedies);
  const old = shown(kind);
  note.dataset.kind = kind;
  if (old) old.replaceWith(note);
  else box(FAILURES).append(note);
}

/** Removes the failure of a kind that fail() showed, if it is still there. @param {string} kind */
export function resolve(kind) {
  shown(kind)?.remove();
}

/** @param {string} kind */
const shown = (kind) => box(FAILURES).querySelector(`[data-kind="${kind}"]`);
