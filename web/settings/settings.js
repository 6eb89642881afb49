/**
 * settings: the sampling settings and the system prompt: read from the form, checked, remembered.
 * @module
 */
import { box, button, byId, el, input, onClick } from '../shell/dom.js';
import { bytes, parameters } from '../shell/format.js';
import { LANGUAGES, addLater, language, list, t } from '../shell/language.js';
import { actions, state, update, watch } from '../shell/store.js';
import { recall, remember } from '../history/storage.js';

/** Google's recommendation for Gemma 3: temperature 1, top-k 64, top-p 0.95. */
const GEMMA = { temperature: 1, topK: 64, topP: 0.95, maxTokens: 1024, seed: '' };

/** @typedef {keyof typeof GEMMA} Name */
const NAMES = /** @type {Name[]} */ (Object.keys(GEMMA));

/** @returns {typeof GEMMA} */
const defaults = () => ({ ...GEMMA, ...state.recommended });
/** @param {Name | 'thinking'} name */
const field = (name) => input(`opt-${name}`);
const system = () => byId('opt-system', HTMLTextAreaElement);

/** Returns whether a field's value is valid. Shows the error under the field. @param {HTMLInputElement} control */
function check(control) {
  const good = control.checkValidity();
  control.ariaInvalid = String(!good);
  const said =
    control.parentElement?.querySelector('.wrong') ?? el('span.wrong', { id: `${control.id}-wrong`, role: 'alert' });
  said.textContent = good ? '' : control.validationMessage;
  if (!said.isConnected) control.after(said);
  control.setAttribute('aria-describedby', said.id);
  return good;
}

/** @param {Record<string, unknown>} values   missing and invalid ones become the defaults */
function fill(values) {
  for (const name of NAMES) {
    const fallback = String(defaults()[name]);
    field(name).value = String(values[name] ?? fallback);
    if (!check(field(name))) field(name).value = fallback;
    check(field(name));
  }
  field('thinking').checked = values.thinking === 'true';
  read();
}

function read() {
  const differs = NAMES.filter((name) => field(name).value !== String(defaults()[name]) && field(name).checkValidity());
  const thinking = field('thinking').checked && { thinking: 'true' };
  update({ settings: { ...Object.fromEntries(differs.map((name) => [name, field(name).value])), ...thinking } });
}

/** Sampling presets. `balanced` is the recommendation for the model. @type {Record<string, Partial<typeof GEMMA>>} */
const MOODS = {
  exact: { temperature: 0 },
  balanced: {},
  playful: { temperature: 1.3, topK: 0, topP: 0.98 },
};
const MOVED = /** @type {const} */ (['temperature', 'topK', 'topP']);

function showMood() {
  for (const [mood, values] of Object.entries(MOODS)) {
    const all = { ...defaults(), ...values };
    const same = MOVED.every((name) => field(name).value === String(all[name]));
    button(`mood-${mood}`).ariaPressed = String(same);
  }
}

/** Fills the form with a conversation's settings. A new conversation gets the latest settings and no system prompt.
 * @param {{ settings?: Record<string, unknown>, system?: string } | null} head */
export function takeSettings(head) {
  fill(head?.settings ?? recall('settings', /** @type {Record<string, unknown>} */ ({})) ?? {});
  const prompt = system();
  if (head || prompt.readOnly) prompt.value = head?.system ?? ''; // a system prompt that was typed for a new chat stays
  prompt.readOnly = head !== null;
  update({ system: prompt.value });
}

/** Fills and connects the form, and implements `actions.sampling`. Called once.
 * @param {() => void} changed   called when the user has changed a setting */
export function setUpSettings(changed) {
  const save = () => {
    read();
    remember('settings', state.settings);
    changed();
  };
  watch(['settings', 'recommended'], showMood);
  watch(['recommended'], () => fill(state.settings)); // keeps the user's settings, shows the new defaults
  watch(['model', 'panel'], () => void showInfo());
  takeSettings(null);
  actions.sampling = sampling;
  for (const [mood, values] of Object.entries(MOODS)) {
    onClick(`mood-${mood}`, () => {
      const all = { ...defaults(), ...values };
      for (const name of MOVED) field(name).value = String(all[name]);
      for (const name of MOVED) check(field(name));
      save();
    });
  }
  const form = byId('settings-form', HTMLFormElement);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('input', ({ target }) => {
    if (target === system()) update({ system: system().value });
    if (target instanceof HTMLInputElement && (target.type === 'checkbox' || check(target))) save();
    else read();
  });
  onClick('settings-reset', () => {
    fill({});
    save();
  });
  setUpLanguage();
}

/** Sets up the language fields: in the settings, and in the top bar beside the model chooser. A change
 * reloads the page, unless something would be lost. */
function setUpLanguage() {
  const names = Object.entries(LANGUAGES);
  for (const field of /** @type {NodeListOf<HTMLSelectElement>} */ (document.querySelectorAll('select.language'))) {
    field.append(...names.map(([value, name]) => el('option', { value, lang: value, dir: 'auto' }, name)));
    field.value = language;
    field.addEventListener('change', () => {
      remember('language', field.value);
      const { busy, stored, model, choice, coming } = state;
      const ofFile = typeof choice?.source === 'object' && !('repo' in choice.source);
      if (busy || coming || (model && (ofFile || !stored))) box('language-said').textContent = t('language.reload');
      else location.reload();
    });
  }
}

function sampling() {
  const values = { ...defaults(), ...state.settings };
  const number = (/** @type {Name} */ name) => Number(values[name] === '' ? defaults()[name] : values[name]);
  const [temperature, topK, topP, maxTokens] = NAMES.map(number);
  const thinks = state.model?.info.thinking && {
    // The thinking budget leaves half of the tokens for the answer.
    thinking: state.settings.thinking === 'true' && { budget: Math.floor(maxTokens / 2) },
  };
  return { temperature, topK, topP, maxTokens, ...(values.seed !== '' && { seed: number('seed') }), ...thinks };
}

async function showInfo() {
  if (state.model) box('thinking').hidden = !state.model.info.thinking;
  await addLater();
  if (!state.model) return;
  const { info } = state.model;
  const { architecture, quantisation, contextLength, variant, threads, threadsMeasured } = info;
  const { resident, kv, scratch, total } = info.memory;
  const engine = [t(variant.startsWith('relaxed') ? 'engine.relaxed' : 'engine.simd128'), t('threads', { n: threads })];
  if (threadsMeasured) engine.push(t('threads.measured'));
  const rows = [
    [t('info.architecture'), architecture],
    [t('info.weights'), list([quantisation, parameters(info.parameters)])],
    [t('info.memory'), bytes(total)],
    [t('info.memory.weights'), bytes(resident)],
    [t('info.memory.context'), bytes(kv)],
    [t('info.memory.scratch'), bytes(scratch)],
    [t('info.context'), t('tokens', { n: contextLength })],
    [t('info.engine'), list(engine)],
  ];
  box('info').replaceChildren(...rows.flatMap(([name, value]) => [el('dt', name), el('dd', value)]));
}
