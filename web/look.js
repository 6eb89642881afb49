/**
 * look: the button of the look inside. Its drawer is a chunk of its own, fetched when it is first opened: until then
 * the page does not carry it, and while it is closed nothing of it runs.
 * @module
 */
import { box, button, el } from './dom.js';

/** @typedef {import('./inside.js').Host} Host */
/** @typedef {import('./inside.js').Inside} Inside */

/** @type {Promise<Inside> | null} */
let loading = null;
/** @type {Inside | null} */
let inside = null;

const isOpen = () => !box('inside').hidden;

/** @param {Host} host @param {() => void} opens   what else is open at that side makes room */
export function setUpLook(host, opens) {
  button('look-toggle').addEventListener('click', () => (isOpen() ? close() : void open(host, opens)));
  box('inside').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    close();
  });
}

/** @param {boolean} now */
function show(now) {
  box('inside').hidden = !now;
  document.body.dataset.inside = now ? 'open' : 'closed';
  button('look-toggle').setAttribute('aria-expanded', String(now));
}

/** @param {Host} host @param {() => void} opens */
async function open(host, opens) {
  opens();
  show(true);
  try {
    inside = await (loading ??= import('./inside.js').then((part) => new part.Inside(box('inside'), host, close)));
  } catch {
    loading = null;
    return missing();
  }
  if (isOpen()) inside.open();
}

/** The part could not be fetched; the next try may. */
function missing() {
  const again = el('button', { type: 'button', onclick: close }, 'Close');
  box('inside').replaceChildren(el('div', { className: 'error', role: 'alert' },
    el('strong', {}, 'The look inside could not be loaded.'),
    el('p', {}, 'Check your connection, close it and open it again.'), again));
  again.focus();
}

function close() {
  if (!isOpen()) return;
  const had = box('inside').contains(document.activeElement);
  show(false);
  inside?.close();
  if (had) button('look-toggle').focus();
}

/** Something else wants its place, or there is no model to look into. */
export const closeLook = close;

/** The conversation, the model, or whether it is answering has changed. */
export function lookAgain() {
  if (inside && isOpen()) inside.changed();
}
