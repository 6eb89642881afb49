/**
 * rows: creates the rows of lists of models.
 * @module
 */
import { el } from '../shell/dom.js';
import { t } from '../shell/language.js';

/** State of a model in a list. coming: being loaded; here: in the list of stored models.
 * @typedef {'' | 'in use' | 'coming' | 'here'} State */

/** Names a button to screen readers together with its model. @param {HTMLButtonElement} button */
function say(button) {
  button.ariaLabel = `${button.textContent} ${button.dataset.what}`;
}

/**
 * Creates a row. It keeps the address, by which markRows() finds its state.
 * @param {object} model
 * @param {string} model.name
 * @param {string[]} model.lines
 * @param {string} model.size
 * @param {HTMLButtonElement[]} model.buttons   the first one loads the model
 * @param {string} [model.tag]
 * @param {string} [model.address]
 */
export function modelRow({ name, lines, size, buttons, tag = '', address = '' }) {
  for (const button of buttons) {
    button.dataset.what = name + (size ? `, ${size}` : '');
    say(button);
  }
  const [start] = buttons;
  start.dataset.text = start.textContent ?? '';
  start.classList.add('start');
  const row = el(
    'li',
    el(
      'span.what',
      el('span.name', name, ...(tag ? [el('span.tag', tag)] : [])),
      ...lines.filter(Boolean).map((line) => el('span.from', line)),
    ),
    el('span.size', size),
    ...buttons,
  );
  row.dataset.address = address;
  return row;
}

/** Marks the row of the model in use, and hides rows of models that are loading or in another list.
 * @param {(address: string, row: HTMLElement) => State} stateOf */
export function markRows(stateOf) {
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('#models [data-address]'))) {
    const state = row.dataset.address ? stateOf(row.dataset.address, row) : '';
    const start = /** @type {HTMLButtonElement} */ (row.querySelector('.start'));
    row.hidden = /^(coming|here)$/.test(state);
    row.querySelector('.in-use')?.remove();
    if (state === 'in use') row.querySelector('.name')?.append(el('span.tag.in-use', t('in-use')));
    start.textContent = (state === 'in use' ? t('reload') : start.dataset.text) ?? '';
    say(start);
  }
}
