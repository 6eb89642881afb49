/**
 * settings: the sampling settings and the system prompt: read from the form, checked, remembered.
 * @module
 */
import { box, button, byId, el, input } from './dom.js';
import { recall, remember } from './storage.js';

/** Google's recommendation for Gemma 3: temperature 1, top-k 64, top-p 0.95. */
const GEMMA = { temperature: 1, topK: 64, topP: 0.95, maxTokens: 1024, seed: '' };
/** Of the loaded model. */
let defaults = GEMMA;

/** @typedef {keyof typeof GEMMA} Name */
const NAMES = /** @type {Name[]} */ (Object.keys(GEMMA));

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
    const value = values[name] ?? defaults[name];
    field(name).value = String(value);
    if (!check(field(name))) field(name).value = String(defaults[name]);
    check(field(name));
  }
}

/** What differs from the defaults. */
function chosen() {
  const differs = NAMES.filter((name) => field(name).value !== String(defaults[name]));
  return Object.fromEntries(differs.map((name) => [name, field(name).value]));
}

const save = () => remember('settings', chosen());

/** A model may do best with other settings than Gemma; those that a person has changed stay.
 * @param {Partial<typeof GEMMA>} better */
export function setDefaults(better) {
  const kept = chosen();
  defaults = { ...GEMMA, ...better };
  fill(kept);
}

export function setUpSettings() {
  fill(recall('settings', /** @type {Record<string, unknown>} */ ({})) ?? {});
  const form = byId('settings-form', HTMLFormElement);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('input', (event) => {
    if (event.target instanceof HTMLInputElement && check(event.target)) save();
  });
  button('settings-reset').addEventListener('click', () => {
    fill({});
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
    return control.value !== '' && control.checkValidity() ? Number(control.value) : Number(defaults[name]);
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
