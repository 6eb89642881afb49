/**
 * rows: one model in a list of models: its name, a line or two about it, its size, what can be done.
 * @module
 */
import { el } from './dom.js';

/**
 * @param {object} model
 * @param {string} model.name
 * @param {string[]} model.lines
 * @param {string} model.size
 * @param {HTMLButtonElement[]} model.buttons   named to screen readers together with the model
 * @param {string} [model.tag]
 */
export function modelRow({ name, lines, size, buttons, tag = '' }) {
  for (const button of buttons) {
    button.setAttribute('aria-label', `${button.textContent} ${name}${size ? `, ${size}` : ''}`);
  }
  return el('li', {},
    el('span', { className: 'what' },
      el('span', { className: 'name' }, name, ...(tag ? [el('span', { className: 'tag' }, tag)] : [])),
      ...lines.filter(Boolean).map((line) => el('span', { className: 'from' }, line))),
    el('span', { className: 'size' }, size),
    ...buttons);
}
