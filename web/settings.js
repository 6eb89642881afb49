/**
 * settings: the sampling settings and the system prompt: read from the form, checked, remembered.
 * @module
 */
import { box, button, byId, el, input } from './dom.js';
import { recall, remember } from './storage.js';

/** Google's recommendation for Gemma 3: temperature 1, top-k 64, top-p 0.95. */
const DEFAULTS = { temperature: 1, topK: 64, topP: 0.95, maxTokens: 1024, seed: '' };

/** @typedef {keyof typeof DEFAULTS} Name */
const NAMES = /** @type {Name[]} */ (Object.keys(DEFAULTS));

/** @param {Name} name */
const field = (name) => input(`opt-${name}`);
const system = () => byId('opt-system', HTMLTextAreaElement);

/** @param {HTMLInputElement} control */
function check(control) {
  const good = control.checkValidity();
  control.setAttribute('aria-invalid', String(!good));
  control.title = good ? '' : control.validationMessage;
  return good;
}

/** @param {Record<string, unknown>} values */
function fill(values) {
  for (const name of NAMES) {
    const value = values[name] ?? DEFAULTS[name];
    field(name).value = String(value);
    if (!check(field(name))) field(name).value = String(DEFAULTS[name]);
    check(field(name));
  }
}

function save() {
  const values = Object.fromEntries(NAMES.map((name) => [name, field(name).value]));
  remember('settings', values);
}

export function setUpSettings() {
  fill(recall('settings', /** @type {Record<string, unknown>} */ ({})) ?? {});
  const form = byId('settings-form', HTMLFormElement);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('input', (event) => {
    if (event.target instanceof HTMLInputElement && check(event.target)) save();
  });
  button('settings-reset').addEventListener('click', () => {
    fill(DEFAULTS);
    save();
  });
  setUpPanel();
}

/** Settings open beside the conversation, on small screens in its place. @param {boolean} open */
export function showSettings(open) {
  const panel = box('settings');
  const had = panel.contains(document.activeElement);
  panel.hidden = !open;
  document.body.dataset.settings = open ? 'open' : 'closed';
  button('settings-toggle').setAttribute('aria-expanded', String(open));
  if (open) button('settings-close').focus();
  else if (had) button('settings-toggle').focus();
}

function setUpPanel() {
  button('settings-toggle').addEventListener('click', () => showSettings(box('settings').hidden));
  button('settings-close').addEventListener('click', () => showSettings(false));
  box('settings').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    showSettings(false);
  });
}

/**
 * The options of the next answer. A field with an impossible value is taken as its default, and
 * stays marked in the form.
 * @returns {{ temperature: number, topK: number, topP: number, maxTokens: number, seed?: number }}
 */
export function samplingOptions() {
  /** @param {Name} name */
  const read = (name) => {
    const control = field(name);
    return control.value !== '' && control.checkValidity() ? Number(control.value) : Number(DEFAULTS[name]);
  };
  const options = {
    temperature: read('temperature'), topK: read('topK'), topP: read('topP'), maxTokens: read('maxTokens'),
  };
  const seed = field('seed');
  return seed.value !== '' && seed.checkValidity() ? { ...options, seed: Number(seed.value) } : options;
}

/** @returns {string} the system prompt for the next chat, '' for none */
export function systemPrompt() {
  return system().value.trim();
}

/** Facts about the loaded model. @param {[string, string][]} rows */
export function showInfo(rows) {
  box('info').replaceChildren(...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}
