/**
 * theme: automatic, light or dark; the choice outlives the visit where storage is allowed.
 * @module
 */
import { button } from './dom.js';
import { recall, remember } from './storage.js';

const ORDER = ['auto', 'light', 'dark'];

/** @param {string} theme */
function show(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const toggle = button('theme');
  toggle.title = `Colours: ${theme}`;
  toggle.setAttribute('aria-label', `Colours: ${theme}. Change`);
}

export function setUpTheme() {
  const stored = recall('theme', 'auto');
  let theme = ORDER.includes(stored) ? stored : 'auto';
  show(theme);
  button('theme').addEventListener('click', () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    remember('theme', theme);
    show(theme);
  });
}
