/**
 * app: the page's wiring: picker -> load -> conversation, and back. A client of js/index.js only.
 * @module
 */
import { loadModel } from '../js/index.js';
import { Conversation } from './conversation.js';
import { announce, box, button, byId, el } from './dom.js';
import { codeOf } from './errors.js';
import { Follow } from './follow.js';
import { bytes, count, parameters } from './format.js';
import { LoadingView } from './loading.js';
import { fillFromLink, forgetToken, loadOptions, offerStoryteller, setUpPicker, showPickerError, submitLink } from './picker.js';
import { samplingOptions, setUpSettings, showInfo, showSettings, systemPrompt } from './settings.js';
import { mayFetch, storyteller, storytellerWelcome } from './storyteller.js';
import { setUpTheme } from './theme.js';
import { reasonBeforeLoad, reasonForOneThread, showThreadNotice } from './threads.js';
import { setUpComposer } from './composer.js';
import { Transcript } from './transcript.js';

/** @typedef {import('../js/index.js').Model} Model */

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
  resized: () => follow.update(),
});

/** @param {'picking' | 'loading' | 'ready'} state */
function enter(state) {
  document.body.dataset.state = state;
}

/** The picker, while a loaded model waits behind it. */
function changeModel() {
  showSettings(false);
  showPickerError(null);
  const back = button('back');
  back.textContent = `← Back to ${box('model-name').textContent}`;
  back.hidden = false;
  enter('picking');
  back.focus();
}

function backToModel() {
  enter('ready');
  composer.focus();
}

/** @param {import('./picker.js').Choice} choice */
async function load(choice) {
  const { source, label, headers, sha256 } = choice;
  const options = loadOptions();
  const view = new LoadingView(label, choice.bytes);
  loading = new AbortController();
  enter('loading');
  button('loading-cancel').focus();
  try {
    await release();
    model = await loadModel(source, {
      ...defined({ ...options, headers, sha256 }),
      signal: loading.signal,
      onProgress: (progress) => view.update(progress),
    });
    forgetToken();
    begin(model, choice, options.threads);
  } catch (error) {
    // A host may serve the page without the model that comes with it.
    const leftOut = choice.kind === 'storyteller' && codeOf(error) === 'http-error';
    if (leftOut) document.getElementById('storyteller')?.remove();
    backToPicker(leftOut ? null : error);
  } finally {
    loading = null;
  }
}

/** Only the options that were given. @param {Record<string, unknown>} options */
function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** @param {unknown} error   null for none */
function backToPicker(error) {
  button('back').hidden = true;
  enter('picking');
  const cancelled = codeOf(error) === 'aborted';
  showPickerError(cancelled ? null : error);
  if (cancelled) announce('Cancelled');
  box('main').focus();
}

/** @param {Model} loaded @param {import('./picker.js').Choice} choice
 * @param {number | undefined} threads   asked for */
function begin(loaded, { label, kind }, threads) {
  box('model-name').textContent = label;
  button('change-model').title = `${label}: change model`;
  button('change-model').ariaLabel = `Model: ${label}. Change`;
  enter('ready');
  showInfo(facts(loaded.info));
  showThreadNotice(box('chat-notice'), reasonForOneThread(loaded.info, threads));
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
  // On a touch screen the keyboard would come up and cover the suggestions.
  if (!matchMedia('(pointer: coarse)').matches) composer.focus();
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
  backToPicker(error);
  await release(Boolean(error));
}

async function newChat() {
  await conversation?.reset();
  showSettings(false);
  composer.focus();
}

setUpTheme();
setUpSettings();
/** @param {import('./picker.js').Choice} choice */
const choose = (choice) => void load(choice).catch(backToPicker);
setUpPicker(choose);
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

/** What the page shows at first: what a link asks for, the model that comes with the page, the picker. */
function open() {
  showThreadNotice(box('thread-notice'), reasonBeforeLoad());
  const query = new URLSearchParams(location.search);
  const atOnce = fillFromLink(query);
  const story = storyteller();
  const plain = !['model', 'repo', 'pick'].some((name) => query.has(name));
  if (story) offerStoryteller(story, choose);
  if (plain && story && mayFetch()) return choose(story);
  enter('picking');
  if (atOnce) submitLink(query);
}

open();
