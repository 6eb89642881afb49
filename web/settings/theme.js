/**
 * theme: automatic, light or dark, chosen with a button in the header or, on phones, in the settings.
 * @module
 */
import { box, button } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { recall, remember } from '../history/storage.js';

const ORDER = ['auto', 'light', 'dark'];

/** @param {string} theme */
function show(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const toggle = button('theme');
  const name = t(/** @type {'theme.auto'} */ (`theme.${theme}`));
  toggle.title = t('theme', { name });
  toggle.ariaLabel = t('theme.switch', { name });
  for (const one of choices()) one.ariaPressed = String(one.value === theme);
}

const choices = () => box('colours').querySelectorAll('button');

export function setUpTheme() {
  const stored = recall('theme', 'auto');
  let theme = ORDER.includes(stored) ? stored : 'auto';
  show(theme);
  const choose = (/** @type {string} */ next) => {
    theme = next;
    remember('theme', theme);
    show(theme);
  };
  button('theme').addEventListener('click', () => choose(ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]));
  for (const one of choices()) one.addEventListener('click', () => choose(one.value));
}
