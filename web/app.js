/**
 * app: the page's wiring: picker -> load -> conversation, and back. A client of js/index.js only.
 * @module
 */
import { loadModel } from '../js/index.js';
import { setUpComposer } from './composer.js';
import { Conversation } from './conversation.js';
import { action, announce, box, button, byId, el, hasTouch } from './dom.js';
import { codeOf } from './errors.js';
import { Follow } from './follow.js';
import { bytes, count, parameters } from './format.js';
import { LoadingView } from './loading.js';
import { lasting, showNotices } from './notices.js';
import {
  fillFromLink, loadOptions, offerStoryteller, setUpPicker, showPickerError, submitLink,
} from './picker.js';
import { Unfit, afterRefusal, isDownload, preflight } from './preflight.js';
import { samplingOptions, setDefaults, setUpSettings, showInfo, showSettings, systemPrompt } from './settings.js';
import { setUpStored, showStored } from './stored.js';
import { STORY_SETTINGS, mayFetch, storyteller, storytellerWelcome } from './storyteller.js';
import { setUpTheme } from './theme.js';
import { reasonBeforeLoad, reasonForOneThread, showThreadsHint } from './threads.js';
import { askToken, hideToken, needsToken, setUpToken } from './token.js';
import { Transcript } from './transcript.js';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('./picker.js').Choice} Choice */

const follow = new Follow(box('scroller'), box('latest'));
const transcript = new Transcript(box('log'), follow);

/** @type {Model | null} */
let model = null;
/** @type {Conversation | null} */
let conversation = null;
/** @type {AbortController | null} */
let loading = null;

const composer = setUpComposer({
  send: (text) => conversation?.send(text),
  stop: () => conversation?.stop(),
  resized: () => follow.keep(),
});

/** @param {'picking' | 'loading' | 'ready'} state */
function enter(state) {
  document.body.dataset.state = state;
}

/** The picker, while a loaded model waits behind it. */
function changeModel() {
  showSettings(false);
  showPickerError(null);
  showPicker();
  button('back').focus();
}

function showPicker() {
  const back = button('back');
  back.hidden = model === null;
  back.textContent = `← Back to ${box('model-name').textContent}`;
  enter('picking');
  void showStored();
}

function backToModel() {
  enter('ready');
  composer.focus();
}

/** @param {Choice} choice */
async function load(choice) {
  const { label } = choice;
  const form = loadOptions();
  const options = defined({ ...form, contextLength: choice.contextLength ?? form.contextLength });
  const view = new LoadingView(label, choice.bytes);
  const { signal } = loading = new AbortController();
  enter('loading');
  button('loading-cancel').focus();
  try {
    if (isDownload(choice)) {
      view.checking();
      view.needs(await preflight(choice, options, signal));
    }
    await release();
    model = await loadModel(choice.source, {
      ...options,
      ...defined({ token: choice.token, sha256: choice.sha256 }),
      cache: choice.kind !== 'storyteller',   // its host is the page's own: it costs little to fetch again
      signal,
      onProgress: (progress) => view.update(progress),
    });
    begin(model, choice, form.threads);
  } catch (error) {
    failed(error, choice);
  } finally {
    loading = null;
  }
}

/** Back to the picker, with what may help. @param {unknown} error @param {Choice} choice */
function failed(error, choice) {
  // A host may serve the page without the model that comes with it.
  const leftOut = choice.kind === 'storyteller' && codeOf(error) === 'http-error';
  if (leftOut) document.getElementById('storyteller')?.remove();
  const found = error instanceof Unfit ? error.remedies : codeOf(error) === 'no-memory' ? afterRefusal(choice) : [];
  backToPicker(leftOut ? null : error, ...found.map((one) => action(one.label, () => choose(one.choice))));
  if (needsToken(error, choice)) askToken(choice);
}

/** Only the options that were given. @param {Record<string, unknown>} options */
function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** @param {unknown} error   null for none @param {...HTMLButtonElement} buttons */
function backToPicker(error, ...buttons) {
  showPicker();
  const cancelled = codeOf(error) === 'aborted';
  showPickerError(cancelled ? null : error, ...buttons);
  if (cancelled) announce('Cancelled');
  box('main').focus();
}

/** @param {Model} loaded @param {Choice} choice
 * @param {number | undefined} threads   asked for */
function begin(loaded, { label, kind }, threads) {
  box('model-name').textContent = label;
  button('change-model').title = `${label}: change model`;
  button('change-model').ariaLabel = `Model: ${label}. Change`;
  enter('ready');
  setDefaults(kind === 'storyteller' ? STORY_SETTINGS : {});
  showInfo(facts(loaded.info));
  const { info } = loaded;
  showNotices('chat-notice', [reasonForOneThread(info, threads), ...lasting(info.notices)]);
  conversation = new Conversation(loaded, transcript, {
    options: samplingOptions,
    system: systemPrompt,
    welcome: () => (kind === 'storyteller'
      ? storytellerWelcome(loaded.info.parameters, { say: (text) => conversation?.send(text), more: changeModel })
      : [el('strong', {}, 'Ask something'), 'The answer is made here, on this computer.']),
    busy: (busy) => composer.busy(busy),
    edit: (text) => composer.edit(text),
    used: (used) => showContext(used, loaded.info.contextLength),
    lost: (error) => unload(error),
  });
  if (!hasTouch()) composer.focus();
  announce('The model is ready.');
}

/** @param {Model['info']} info @returns {[string, string][]} */
function facts(info) {
  const { weights, kv, scratch, total } = info.memory;
  return [
    ['Architecture', info.architecture],
    ['Weights', `${info.quantisation}, ${parameters(info.parameters)} parameters`],
    ['Memory', bytes(total)],
    ['– weights', bytes(weights)],
    ['– context', bytes(kv)],
    ['– scratch', bytes(scratch)],
    ['Context', `${count(info.contextLength)} tokens`],
    ['Engine', `${info.variant}, ${info.threads === 1 ? '1 thread' : `${info.threads} threads`}`],
  ];
}

/** @param {number} used @param {number} length */
function showContext(used, length) {
  box('meter-text').textContent = `Context ${count(Math.min(used, length))} of ${count(length)}`;
  byId('meter', HTMLProgressElement).value = Math.min(1, used / length);
}

/** Let go of the loaded model, if there is one. @param {boolean} [dead]   it answers no more */
async function release(dead = false) {
  const [old, talk] = [model, conversation];
  model = conversation = null;
  if (!dead) await talk?.halt();
  await old?.dispose().catch(() => {});   // it may have died already
}

/** @param {unknown} [error] */
async function unload(error = null) {
  showSettings(false);
  const released = release(Boolean(error));
  backToPicker(error);
  await released;
}

async function newChat() {
  await conversation?.reset();
  showSettings(false);
  composer.focus();
}

/** @param {Choice} choice */
function choose(choice) {
  hideToken();
  showPickerError(null);
  void load(choice).catch(backToPicker);
}

setUpTheme();
setUpSettings();
setUpPicker(choose);
setUpStored(choose);
setUpToken(choose, showPickerError);
button('loading-cancel').addEventListener('click', () => loading?.abort());
button('new-chat').addEventListener('click', () => void newChat());
button('unload').addEventListener('click', () => void unload());
button('change-model').addEventListener('click', changeModel);
button('back').addEventListener('click', backToModel);
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  if (loading) loading.abort();
  else conversation?.stop();
});

/** What the page shows at first: what a link asks for; models that are on this computer; the one that
 * comes with the page; the picker. */
async function open() {
  showNotices('thread-notice', [reasonBeforeLoad()]);
  showThreadsHint();
  const query = new URLSearchParams(location.search);
  const atOnce = fillFromLink(query);
  const story = storyteller();
  if (story) offerStoryteller(story, choose);
  const linked = ['model', 'repo', 'pick'].some((name) => query.has(name));
  const kept = await showStored();
  if (document.body.dataset.state !== 'opening') return;
  if (!linked && story && mayFetch() && kept.length === 0) return choose(story);
  enter('picking');
  if (atOnce) submitLink(query);
  else if (kept.length) box('stored-list').querySelector('button')?.focus();
}

void open();
