/**
 * rows: one model in a list of models: its name, a line or two about it, its size, what can be done.
 * @module
 */
import { el } from '../shell/dom.js';

/** here: this device has it, in another list. @typedef {'' | 'in use' | 'coming' | 'here'} State */

/** As it is named to screen readers: together with the model. @param {HTMLButtonElement} button */
function say(button) {
  button.setAttribute('aria-label', `${button.textContent} ${button.dataset.what}`);
}

/**
 * @param {object} model
 * @param {string} model.name
 * @param {string[]} model.lines
 * @param {string} model.size
 * @param {HTMLButtonElement[]} model.buttons   the first gets it
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
    {},
    el(
      'span',
      { className: 'what' },
      el('span', { className: 'name' }, name, ...(tag ? [el('span', { className: 'tag' }, tag)] : [])),
      ...lines.filter(Boolean).map((line) => el('span', { className: 'from' }, line)),
    ),
    el('span', { className: 'size' }, size),
    ...buttons,
  );
  row.dataset.address = address;
  return row;
}

/** Each row says what has become of its model; one that is seen elsewhere goes.
 * @param {(address: string, row: HTMLElement) => State} stateOf */
export function markRows(stateOf) {
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('#models [data-address]'))) {
    const state = row.dataset.address ? stateOf(row.dataset.address, row) : '';
    const start = /** @type {HTMLButtonElement} */ (row.querySelector('.start'));
    row.hidden = /^(coming|here)$/.test(state);
    row.querySelector('.in-use')?.remove();
    if (state === 'in use') row.querySelector('.name')?.append(el('span', { className: 'tag in-use' }, state));
    start.textContent = (state === 'in use' ? 'Start again' : start.dataset.text) ?? '';
    say(start);
  }
}
