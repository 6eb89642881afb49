/**
 * stored: the list of models stored in this browser, with sizes, to open, resume or delete, and the storage in use.
 * @module
 */
import { modelCache } from '../../js/index.js';
import { action, announce, box, button, onClick } from '../shell/dom.js';
import { lineOf, withDetails } from '../shell/errors.js';
import { bytes } from '../shell/format.js';
import { addLater, t } from '../shell/language.js';
import { actions, state, update } from '../shell/store.js';
import { addressOf, decoded, hubAddress, presetOf } from './presets.js';
import { markRows, modelRow } from './rows.js';

/** @typedef {Awaited<ReturnType<typeof modelCache.list>>[number]} Entry */
/** @import { Choice } from '../shell/store.js' */

/** A stored model: one file, or all parts of a split model.
 * @typedef {{ label: string, from: string, url: string, keys: string[], stored: number, total: number,
 *   complete: boolean }} StoredModel */

/** Time in which a second click on "Delete" confirms the first, in milliseconds. */
const DOUBT_MS = 5000;

/** Connects the buttons of the list. Called once. */
export function setUpStored() {
  twice(button('stored-clear'), t('stored.delete-all'), async () => {
    await modelCache.clear();
    await showRest('stored.cleared');
  });
  onClick('stored-keep', () => void keep());
}

/** @param {string} address @returns {import('./rows.js').State} */
function stateOf(address) {
  const { coming, model, choice } = state;
  if (coming && addressOf(coming.source) === address) return 'coming';
  return model && choice && addressOf(choice.source) === address ? 'in use' : '';
}

/** Returns the stored models; the parts of a split model are one. @param {Entry[]} entries @returns {StoredModel[]} */
function models(entries) {
  /** @type {Map<string, StoredModel>} */
  const found = new Map();
  for (const { key, url, file, stored, total, complete } of entries) {
    const first = url.replace(/-\d{5}(-of-\d{5}\.gguf(\?|$))/, '-00001$1');
    const known = found.get(first);
    if (known) {
      known.keys.push(key);
      known.stored += stored;
      known.total += total;
      known.complete &&= complete;
    } else {
      found.set(first, { ...describe(first, file), url: first, keys: [key], stored, total, complete });
    }
  }
  return [...found.values()].map((model) => ({ ...model, complete: model.complete && allParts(model) }));
}

/** @param {StoredModel} model */
function allParts({ url, keys }) {
  const parts = /-of-(\d{5})\.gguf(\?|$)/.exec(url)?.[1];
  return !parts || keys.length === Number(parts);
}

/** @param {string} url @param {string} file */
function describe(url, file) {
  const hub = hubAddress(url);
  if (hub) return { label: presetOf(hub)?.name ?? hub.file, from: `${hub.repo} / ${hub.file}` };
  const host = URL.canParse(url) ? new URL(url).host : url;
  return { label: decoded(file), from: host };
}

/** Returns the stored models, last used first; none if the browser has no storage. */
async function storedModels() {
  return models(await modelCache.list().catch(() => []));
}

/** Returns the choices of the stored models, last used first, and whether each is complete. */
export async function modelsHere() {
  return (await storedModels()).map((model) => ({ choice: choiceOf(model), complete: model.complete }));
}

/** Returns the stored model of an address, or null. @param {string} url */
export async function storedBytes(url) {
  return (await storedModels()).find((model) => model.url === url) ?? null;
}

/** The models that the list shows, as JSON. */
let listed = '';

/** Updates the list of stored models. Keeps unchanged rows, because one of their buttons may be in use.
 * @returns {Promise<StoredModel[]>} */
export async function showStored() {
  const all = await storedModels();
  const list = box('stored-list');
  const now = JSON.stringify(all);
  if (now !== listed) list.replaceChildren(...all.map(row));
  listed = now;
  markRows((address, one) => {
    const here = all.some(({ url }) => url === address) && !list.contains(one);
    return here ? 'here' : stateOf(address);
  });
  box('stored').hidden = [...list.children].every((one) => /** @type {HTMLElement} */ (one).hidden);
  if (all.length) await showRoom();
  return all;
}

/** @param {StoredModel} model */
function row(model) {
  const { label, from, url, stored, total, complete } = model;
  const state = complete ? '' : t('stored.part', { some: bytes(stored), all: bytes(total) });
  const start = action(
    t(complete ? 'load' : 'resume'),
    () => actions.choose(choiceOf(model)),
    complete ? 'primary' : '',
  );
  const remove = action(t('delete'), () => {}, 'quiet');
  twice(remove, t('stored.delete'), () => removeModel(model));
  return modelRow({ name: label, lines: [from, state], size: bytes(total), buttons: [start, remove], address: url });
}

/** @param {StoredModel} model @returns {Choice} */
function choiceOf({ label, url, total, complete }) {
  const hub = hubAddress(url);
  return {
    source: hub && addressOf(hub) === url ? hub : url, // an address with ?download=true has another key
    label,
    bytes: total,
    sha256: hub ? presetOf(hub)?.sha256 : undefined,
    kind: complete ? 'stored' : undefined,
  };
}

/** @param {StoredModel} model */
async function removeModel({ label, keys }) {
  for (const key of keys) await modelCache.delete(key);
  await showRest('deleted.file', { name: label });
}

/** Announces a deletion, and focuses the next model that can be loaded.
 * @param {'stored.cleared' | 'deleted.file'} said @param {{ name: string }} [values] */
async function showRest(said, values) {
  await addLater();
  announce(t(said, values));
  await showStored();
  /** @type {HTMLElement | null} */
  const next = document.querySelector(':is(#stored-list, #presets) > :not([hidden]) button');
  next?.focus();
}

/** Makes a button act only at its second click, because a deleted model would have to be downloaded again.
 * @param {HTMLButtonElement} control @param {string} question @param {() => Promise<void>} act */
function twice(control, question, act) {
  const text = control.textContent ?? '';
  let timer = 0;
  const reset = () => {
    clearTimeout(timer);
    timer = 0;
    control.textContent = text;
    control.classList.remove('danger');
  };
  control.addEventListener('click', () => {
    if (timer) {
      reset();
      return void act().catch(notDeleted).then(showRoom);
    }
    control.textContent = question;
    control.classList.add('danger');
    announce(t('stored.press-again', { question }));
    timer = window.setTimeout(reset, DOUBT_MS);
  });
  control.addEventListener('blur', reset);
}

/** @param {any} error */
async function notDeleted(error) {
  await addLater();
  await showStored();
  const said = /^NoModification/.test(error.cause?.name) ? t('stored.in-use') : lineOf(error);
  box('stored-kept').replaceChildren(withDetails(said, error));
  announce(said);
}

/** Returns a message for a model that was not stored although the browser claims to have space; '' otherwise. Private
 * windows of some browsers offer more than they store.
 * @param {{ code: string, message: string }[]} notices @param {number} need   bytes */
export async function refusal(notices, need) {
  if (!notices.some(({ code, message }) => code === 'not-cached' && /\b(room|free|full)\b/.test(message))) return '';
  const { usage, quota } = await room();
  if (quota - usage < need) return '';
  update({ refused: true });
  await addLater();
  return t('stored.refused');
}

async function showRoom() {
  const { quota, persisted } = await room();
  // The browser's own figure counts a partially downloaded file at its full size.
  const used = (await storedModels()).reduce((sum, { stored }) => sum + stored, 0);
  box('stored-room').textContent =
    quota && !state.refused ? t('stored.room', { used: bytes(used), all: bytes(quota) }) : '';
  button('stored-keep').hidden = persisted;
}

/** Returns the storage in use and its limit in bytes (0 if unknown), and whether it is persistent. Never rejects. */
export async function room() {
  const unknown = /** @type {Awaited<ReturnType<typeof modelCache.estimate>>} */ ({});
  const { usage = 0, quota = 0, persisted = false } = await modelCache.estimate().catch(() => unknown);
  return { usage, quota, persisted };
}

/** Makes the storage persistent. Called only after a click, because some browsers ask the user. */
async function keep() {
  const kept = await modelCache.persist().catch(() => false);
  const control = button('stored-keep');
  if (kept && document.activeElement === control) button('stored-clear').focus();
  control.hidden = kept;
  await addLater();
  const said = t(kept ? 'stored.protected' : 'stored.declined');
  box('stored-kept').textContent = said;
  announce(said);
}
