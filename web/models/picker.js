/**
 * picker: the ways to choose a model: preset, Hugging Face, address, file. Each results in a Choice.
 * @module
 */
import { isModel, refuse, textsOf } from '../chat/attachments.js';
import { action, box, byId, el, input, onClick, onSubmit, takeFiles, underDialog } from '../shell/dom.js';
import { PageError } from '../shell/errors.js';
import { bytes } from '../shell/format.js';
import { t } from '../shell/language.js';
import { actions, state } from '../shell/store.js';
import { showTrouble } from './chooser.js';
import { repository, setUpHub } from './hub.js';
import { memoryLimit, tooLarge } from './preflight.js';
import { PRESETS, addressOf, choiceOfPreset, decoded, memoryOf, presetOf, recommended } from './presets.js';
import { modelRow } from './rows.js';
import { storyteller } from './storyteller.js';
import { askToken } from './token.js';

/** @import { Choice } from '../shell/store.js' */
/** @import { Preset } from './presets.js' */

/** @param {string} id */
const text = (id) => input(id).value.trim();

/** Shows the presets, and connects the forms and dropped files. Called once. */
export function setUpPicker() {
  showPresets();
  onSubmit('hub-form', () => attempt(hubChoice));
  onSubmit('web-form', () => attempt(webChoice));
  box('hub-form').addEventListener('input', showHubSize);
  setUpHub(({ file, bytes: size }) =>
    attempt(() => {
      input('hub-file').value = file;
      return { ...hubChoice(), bytes: size };
    }),
  );
  onClick('choose', () => input('file').click());
  input('file').addEventListener('change', () => takeModel(takeFiles(input('file'))));
  setUpDrop();
}

/** @param {() => Choice} make */
function attempt(make) {
  try {
    actions.choose(make());
  } catch (error) {
    showTrouble(error);
  }
}

function showPresets() {
  const best = recommended(memoryLimit());
  const row = (/** @type {Preset} */ preset) => {
    const ask = () => {
      showTrouble(null);
      askToken(choiceOfPreset(preset));
    };
    const start = preset.gated
      ? action(t('token.enter'), ask)
      : action(t('download.size', { size: sizeOf(preset) }), () => attempt(() => choiceOfPreset(preset)));
    const memory = memoryOf(preset);
    const lines = [t(preset.note, { memory: bytes(memory) }), `${preset.repo} / ${preset.file}`];
    const tag = preset === best ? t('recommended') : tooLarge(memory);
    return modelRow({
      name: preset.name,
      lines,
      size: preset.gated ? sizeOf(preset) : '',
      buttons: [start],
      tag,
      address: addressOf(preset),
    });
  };
  const more = el('ul.presets', ...PRESETS.filter((p) => p.more).map(row));
  const fold = el('details.fold', el('summary', t('more-files')), more);
  box('presets').replaceChildren(...PRESETS.filter((p) => !p.more).map(row));
  box('presets').after(fold);
}

/** Adds the storyteller model to the presets, if the page has it. */
export function offerStoryteller() {
  const choice = storyteller();
  if (!choice) return;
  const row = modelRow({
    name: t('story.name'),
    size: choice.bytes ? bytes(choice.bytes) : '',
    buttons: [action(t('start'), () => actions.choose(choice))],
    lines: [t('story.note')],
    address: addressOf(choice.source),
  });
  row.id = 'storyteller';
  box('presets').prepend(row);
}

/** @param {Preset} preset */
function sizeOf(preset) {
  const size = bytes(preset.bytes);
  return preset.about ? t('about', { size }) : size;
}

function showHubSize() {
  const preset = presetOf({ repo: text('hub-repo'), file: text('hub-file'), revision: text('hub-revision') });
  box('hub-size').textContent = preset ? t('download.about', { size: sizeOf(preset) }) : '';
}

/** @returns {Choice} */
function hubChoice() {
  const { repo, revision } = repository();
  const file = text('hub-file');
  if (!file) throw new PageError('hub.no-file');
  const source = { repo, file, revision: revision || undefined };
  const known = presetOf(source);
  return { source, label: file, bytes: known?.about ? undefined : known?.bytes };
}

/** @returns {Choice} */
function webChoice() {
  const address = text('web-url');
  if (!URL.canParse(address, location.href) || !address) throw new PageError('url.wrong');
  const url = new URL(address, location.href);
  if (url.origin !== location.origin && url.protocol !== 'https:' && !isLocal(url)) {
    throw new PageError('url.http');
  }
  return { source: url.href, label: decoded(url.pathname.split('/').pop() ?? '') || url.pathname };
}

/** @param {URL} url */
function isLocal(url) {
  return url.protocol === 'http:' && /^(localhost|127\.0\.0\.1)$/.test(url.hostname);
}

/** Returns a choice of one file, or of several files as the parts of one model, sorted by name. @param {File[]} files
 * @returns {Choice} */
function fileChoice(files) {
  const parts = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  const total = parts.reduce((sum, file) => sum + file.size, 0);
  return { source: parts.length === 1 ? parts[0] : parts, label: parts[0].name, bytes: total };
}

/** @param {File[]} files */
function takeModel(files) {
  if (files.length) attempt(() => fileChoice(files));
}

/** Returns whether a dropped text would be attached to the next message. */
const takesTexts = () => state.phase === 'ready' && !underDialog();

/** @param {File[]} files */
async function takeDropped(files) {
  if (!takesTexts()) return takeModel(files);
  const texts = await textsOf(files);
  const models = await Promise.all(files.map(isModel));
  if (texts) actions.ask({ text: '', files: texts });
  else if (models.includes(true)) takeModel(files);
  else await refuse();
}

/** Accepts files that are dropped anywhere, but not while another model is loading. */
function setUpDrop() {
  const veil = box('drop-veil');
  const open = () => /^(picking|ready|reading)$/.test(state.phase);
  const carriesFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
  addEventListener('dragover', (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault(); // otherwise the browser would navigate to the file
    veil.hidden = !open();
    (document.querySelector('dialog[open]') ?? document.body).append(veil); // elements below an open dialog are hidden
    veil.textContent = t(takesTexts() ? 'drop.any' : 'drop.model');
  });
  addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) veil.hidden = true;
  });
  addEventListener('drop', (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    veil.hidden = true;
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length && open()) void takeDropped(files);
  });
}

/** Returns the options in the form, or undefined for empty fields. Throws a PageError for a field that is not a
 * number. */
export function loadOptions() {
  const [contextLength, threads] = ['opt-contextLength', 'opt-threads'].map((id) => {
    const control = input(id);
    if (!control.validity.badInput) return control.value === '' ? undefined : Number(control.value);
    throw new PageError('option.wrong');
  });
  return { contextLength, threads };
}

/**
 * Fills the forms from a link's query: ?model=ADDRESS or ?repo=…&file=…, &context=N, &threads=N.
 * @param {URLSearchParams} query
 * @returns {boolean} whether the link asks to load at once (&load=1)
 */
export function fillFromLink(query) {
  const pairs = {
    'web-url': 'model',
    'hub-repo': 'repo',
    'hub-file': 'file',
    'hub-revision': 'revision',
    'opt-contextLength': 'context',
    'opt-threads': 'threads',
  };
  for (const [id, name] of Object.entries(pairs)) {
    const value = query.get(name);
    if (value === null) continue;
    input(id).value = value;
    const fold = input(id).closest('details');
    if (fold) fold.open = true;
  }
  showHubSize();
  return query.get('load') === '1' && (query.has('model') || query.has('file'));
}

/** Loads the model that a link names; from another host only if the user agrees, because a link is untrusted.
 * @param {URLSearchParams} query */
export function submitLink(query) {
  const submit = () => byId(query.has('model') ? 'web-form' : 'hub-form', HTMLFormElement).requestSubmit();
  const address = query.get('model') ?? 'https://huggingface.co/';
  const host = URL.canParse(address, location.href) ? new URL(address, location.href).host : '';
  if (host === location.host || !host) return submit();
  const what = query.get('model') ?? `${query.get('repo')} / ${query.get('file')}`;
  const close = () => place.replaceChildren();
  const yes = action(
    t('link.yes', { host }),
    () => {
      close();
      submit();
    },
    'primary',
  );
  const place = box('picker-error');
  place.replaceChildren(
    el(
      'div.asked',
      { role: 'group', ariaLabel: t('link.label') },
      el('strong', t('link.asks', { host })),
      el('p', what),
      yes,
      action(t('link.no'), close),
    ),
  );
  yes.focus();
}
