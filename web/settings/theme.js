/**
 * theme: automatic, light or dark, chosen with a button in the header or, on phones, in the settings.
 * @module
 */
import { box, button, byId, onClick } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { onChoice, recall, remember } from '../history/storage.js';

const ORDER = ['auto', 'light', 'dark'];
const { dataset } = document.documentElement;

/** @param {string} wanted */
function show(wanted) {
  const theme = ORDER.includes(wanted) ? wanted : 'auto';
  if (theme === 'auto') delete dataset.theme;
  else dataset.theme = theme;
  const own = document.querySelector(/** @type {'meta'} */ (`meta[media*=${theme}]`));
  byId('theme-color', HTMLMetaElement).content = own?.content ?? ''; // if empty, browsers use the system's colour
  const toggle = button('theme');
  const name = t(/** @type {'theme.auto'} */ (`theme.${theme}`));
  toggle.title = t('theme', { name });
  toggle.ariaLabel = t('theme.switch', { name });
  for (const one of choices()) one.ariaPressed = String(one.value === theme);
}

/** @param {string} theme */
function choose(theme) {
  remember('theme', theme);
  show(theme);
}

const choices = () => box('colours').querySelectorAll('button');

/** Applies the chosen theme, and connects its buttons. Called once. */
export function setUpTheme() {
  const take = () => show(recall('theme', 'auto'));
  take();
  onChoice('theme', take);
  onClick('theme', () => choose(ORDER[(ORDER.indexOf(dataset.theme ?? 'auto') + 1) % ORDER.length]));
  for (const one of choices()) one.addEventListener('click', () => choose(one.value));
}
