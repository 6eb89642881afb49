/**
 * settings: the sampling settings and the system prompt: read from the form, checked, remembered.
 * @module
 */
import { box, button, byId, el, input } from '../shell/dom.js';
import { recall, remember } from '../history/storage.js';

/** Google's recommendation for Gemma 3: temperature 1, top-k 64, top-p 0.95. */
const GEMMA = { temperature: 1, topK: 64, topP: 0.95, maxTokens: 1024, seed: '' };
/** Of the loaded model. */
let defaults = GEMMA;

/** @typedef {keyof typeof GEMMA} Name */
const NAMES = /** @type {Name[]} */ (Object.keys(GEMMA));

/** @param {Name} name */
const field = (name) => input(`opt-${name}`);
const system = () => byId('opt-system', HTMLTextAreaElement);

/** What is wrong stands under the field. @param {HTMLInputElement} control */
function check(control) {
  const good = control.checkValidity();
  control.setAttribute('aria-invalid', String(!good));
  const said =
    control.parentElement?.querySelector('.wrong') ??
    el('span', { className: 'wrong', id: `${control.id}-wrong`, role: 'alert' });
  said.textContent = good ? '' : control.validationMessage;
  if (!said.isConnected) control.after(said);
  control.setAttribute('aria-describedby', said.id);
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

/** @type {() => void} */
let changed = () => {};

const save = () => {
  remember('settings', chosen());
  showMood();
  changed();
};

/** Ways to draw, by name; balanced are the model's own. @type {Record<string, Partial<typeof GEMMA>>} */
const MOODS = {
  exact: { temperature: 0 },
  balanced: {},
  playful: { temperature: 1.3, topK: 0, topP: 0.98 },
};
const MOVED = /** @type {const} */ (['temperature', 'topK', 'topP']);

/** @param {string} mood */
const valuesOf = (mood) => ({ ...defaults, ...MOODS[mood] });

/** Which of them the fields show, if one. */
function showMood() {
  for (const mood of Object.keys(MOODS)) {
    const values = valuesOf(mood);
    const same = MOVED.every((name) => field(name).value === String(values[name]));
    button(`mood-${mood}`).setAttribute('aria-pressed', String(same));
  }
}

function setUpMoods() {
  for (const mood of Object.keys(MOODS)) {
    button(`mood-${mood}`).addEventListener('click', () => {
      const values = valuesOf(mood);
      for (const name of MOVED) field(name).value = String(values[name]);
      for (const name of MOVED) check(field(name));
      save();
    });
  }
}

/** What a conversation keeps. */
export const conversationSettings = chosen;

/** What a conversation had; a new one has what was chosen last, and no system prompt.
 * @param {{ settings?: Record<string, unknown>, system?: string } | null} head */
export function takeSettings(head) {
  fill(head?.settings ?? recall('settings', /** @type {Record<string, unknown>} */ ({})) ?? {});
  if (head || system().readOnly) system().value = head?.system ?? ''; // one that was typed for a new chat stays
  system().readOnly = head !== null;
  showMood();
}

/** A model may do best with other settings than Gemma; those that a person has changed stay.
 * @param {Partial<typeof GEMMA>} better */
export function setDefaults(better) {
  const kept = chosen();
  defaults = { ...GEMMA, ...better };
  fill(kept);
  showMood();
}

/** @param {() => void} onChange */
export function setUpSettings(onChange) {
  changed = onChange;
  setUpMoods();
  showMood();
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
    temperature: read('temperature'),
    topK: read('topK'),
    topP: read('topP'),
    maxTokens: read('maxTokens'),
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
