/**
 * app: the page's wiring: a conversation, the model that answers in it, the list of both, and the address that says
 * which is open. A client of js/index.js only.
 * @module
 */
import { setUpComposer } from './composer.js';
import { Conversation } from './conversation.js';
import { action, announce, box, button, byId, el, hasTouch } from './dom.js';
import { codeOf } from './errors.js';
import { Follow } from './follow.js';
import { bytes, count, parameters } from './format.js';
import { Keeper } from './keeper.js';
import { archive, leaveLibrary, setUpLibrary, showLibrary } from './library.js';
import { Models, choiceOfNote, noteOf } from './models.js';
import { lasting, showNotices } from './notices.js';
import {
  fillFromLink, loadOptions, offerStoryteller, setUpPicker, showPickerError, submitLink,
} from './picker.js';
import { Unfit, afterRefusal } from './preflight.js';
import { onRoute, place, shows } from './route.js';
import {
  conversationSettings, samplingOptions, setDefaults, setUpSettings, showInfo, showSettings, systemPrompt, takeSettings,
} from './settings.js';
import { setUpShortcuts } from './shortcuts.js';
import { recall, remember } from './storage.js';
import { setUpStored, showStored } from './stored.js';
import { STORY_SETTINGS, mayFetch, storyteller, storytellerWelcome } from './storyteller.js';
import { setUpTheme } from './theme.js';
import { reasonBeforeLoad, reasonForOneThread, showThreadsHint } from './threads.js';
import { askToken, hideToken, needsToken, setUpToken } from './token.js';
import { Transcript } from './transcript.js';
import { Tree } from './tree.js';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('./picker.js').Choice} Choice */

const follow = new Follow(box('scroller'), box('latest'));
const models = new Models(async (dead) => {
  if (!dead) await conversation.halt();
  conversation.use(null);
});

const conversation = new Conversation(new Transcript(box('log'), follow), {
  options: samplingOptions,
  system: systemPrompt,
  welcome,
  busy: (busy) => {
    composer.busy(busy);
    document.body.dataset.busy = String(busy);
  },
  edit: (text) => composer.edit(text),
  used: (used) => showContext(used, models.model?.info.contextLength ?? 0),
  begun: ({ id }) => shows({ view: 'chat', id }),
  changed: (now) => {
    if (conversation.head) conversation.head.settings = conversationSettings();
    keeper.changed(now);
  },
  branched: ({ head, tree }) => void archive.put(head, tree.kept()).then(() => openConversation(head.id)),
  lost: (error) => void unload(error),
});

const composer = setUpComposer({
  send: (text) => conversation.send(text),
  stop: () => conversation.stop(),
  resized: () => follow.keep(),
  typed: (text) => {
    if (!conversation.editing) keeper.typed(text);
    countDraft(text);
  },
  last: () => conversation.tree.path().findLast(({ role }) => role === 'user')?.text ?? '',
  kept: () => conversation.leaveEditing(),
});
const keeper = new Keeper(conversation, () => (conversation.editing ? '' : composer.text));

/** @param {'picking' | 'loading' | 'ready' | 'reading'} state   reading: a conversation without its model */
function enter(state) {
  document.body.dataset.state = state;
  const inChat = state === 'loading' && conversation.tree.leaf !== null;
  document.body.dataset.inChat = String(inChat);
  const loading = box('loading');
  if (inChat) box('composer').before(loading);
  else box('chat').before(loading);
}

/** What an empty conversation shows. */
function welcome() {
  const { model, choice } = models;
  if (!model) return [el('strong', {}, 'No model is loaded'), action('Choose a model…', changeModel, 'link')];
  if (choice?.kind !== 'storyteller') {
    return [el('strong', {}, 'Ask something'), 'The answer is made here, on this device.'];
  }
  return storytellerWelcome(model.info.parameters, { say: (text) => void conversation.send(text), more: changeModel });
}

/** The list of models, while what was open waits behind it. */
function changeModel() {
  shows({ view: 'models' });
  showSettings(false);
  showPickerError(null);
  showPicker();
  button('back').focus();
}

function showPicker() {
  const back = button('back');
  const [last, talk] = [models.choice, conversation.head];
  back.hidden = !last && !talk;
  back.textContent = `← Back to ${last ? last.label : 'the conversation'}`;
  enter('picking');
  void showStored();
}

/** To the model that was there, loaded again if it had to go; to a conversation that can be read without. */
function leavePicker() {
  shows({ view: 'chat', id: conversation.head?.id ?? null });
  showChat();
}

function showChat() {
  const { model, choice } = models;
  if (model) {
    enter('ready');
    if (!hasTouch()) composer.focus();
  } else if (choice) choose(choice);
  else if (conversation.head) void read();
  else showPicker();
}

/** Without a model: the conversation, and a way to get one. */
async function read() {
  enter('reading');
  const note = conversation.head?.model;
  const known = await choiceOfNote(note);
  if (document.body.dataset.state !== 'reading') return;
  const other = action('Choose another model…', changeModel);
  const buttons = known
    ? [action(getText(known), () => choose(known.choice), 'primary'), other] : [other];
  box('model-card').replaceChildren(
    el('p', {}, note ? `This conversation was with ${note.label}. ` : 'No model is loaded. ',
      note?.kind === 'file' ? 'It came from a file: choose it again to go on.' : 'Load it to go on.'), ...buttons);
}

/** @param {{ choice: Choice, here: boolean }} known */
function getText({ choice, here }) {
  if (here) return `Start ${choice.label}`;
  return `Download ${choice.label}${choice.bytes ? ` (${bytes(choice.bytes)})` : ''}`;
}

let loads = 0;

/** @param {Choice} choice @param {boolean} asked   by a click, whose focus goes to Cancel; else nobody's is taken */
async function load(choice, asked) {
  const before = models.choice, mine = ++loads;
  try {
    const form = loadOptions();
    enter('loading');
    if (asked) button('loading-cancel').focus();
    begin(await models.load(choice, form), choice, before, form.threads);
  } catch (error) {
    if (mine === loads) failed(error, choice);   // else another one has taken its place
  }
}

/** Back to the list, with what may help; what was there before is a click away. @param {unknown} error
 * @param {Choice} choice */
function failed(error, choice) {
  // A host may serve the page without the model that comes with it.
  const leftOut = choice.kind === 'storyteller' && codeOf(error) === 'http-error';
  if (leftOut) document.getElementById('storyteller')?.remove();
  const found = error instanceof Unfit ? error.remedies : codeOf(error) === 'no-memory' ? afterRefusal(choice) : [];
  backToPicker(leftOut ? null : error, ...found.map((one) => action(one.label, () => choose(one.choice))));
  if (needsToken(error, choice)) askToken(choice);
}

/** @param {unknown} error   null for none @param {...HTMLButtonElement} buttons */
function backToPicker(error, ...buttons) {
  showPicker();
  const cancelled = codeOf(error) === 'aborted';
  showPickerError(cancelled ? null : error, ...buttons);
  if (cancelled) announce('Cancelled');
  box('main').focus();
}

/** @param {Model} loaded @param {Choice} choice @param {Choice | null} before
 * @param {number | undefined} threads   asked for */
function begin(loaded, choice, before, threads) {
  const { label, kind } = choice;
  const { info } = loaded;
  remember('model', noteOf(choice));
  box('model-name').textContent = label;
  button('change-model').title = `${label}: change model`;
  button('change-model').ariaLabel = `Model: ${label}. Change`;
  setDefaults(kind === 'storyteller' ? STORY_SETTINGS : {});
  showInfo(facts(info));
  showNotices('chat-notice', [reasonForOneThread(info, threads), ...lasting(info.notices)]);
  enter('ready');
  conversation.use(loaded, noteOf(choice));
  // A story is no beginning for another model: it stays in the list.
  if (before?.kind === 'storyteller' && kind !== 'storyteller' && conversation.head) void openConversation(null);
  else {
    conversation.welcome();
    shows({ view: 'chat', id: conversation.head?.id ?? null }, place().view === 'models');
  }
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
  byId('meter', HTMLProgressElement).value = length ? Math.min(1, used / length) : 0;
}

let drafts = 0;

/** How many tokens the message takes that is being written. @param {string} text */
function countDraft(text) {
  const { model } = models;
  const mine = ++drafts;
  if (!text || !model) box('draft-tokens').textContent = '';
  else setTimeout(() => {
    if (mine !== drafts || model !== models.model) return;
    void model.tokenize(text).then((ids) => {
      if (mine === drafts) box('draft-tokens').textContent = `+ ${count(ids.length)}`;
    }, () => {});
  }, 150);
}

/** @param {unknown} [error] */
async function unload(error = null) {
  showSettings(false);
  const released = models.release(Boolean(error));
  if (!error) models.choice = null;
  shows({ view: 'models' });
  backToPicker(error);
  await released;
}

/** A conversation of the archive, null for a new one. @param {string | null} id @param {boolean} [instead] */
async function openConversation(id, instead = false) {
  const one = id ? await archive.get(id).catch(() => null) : null;
  await conversation.open(one && { head: one.head, tree: new Tree(one.body) });
  takeSettings(conversation.head);
  composer.draft(await keeper.draft());
  shows({ view: 'chat', id: conversation.head?.id ?? null }, instead || (id !== null && !one));
  if (document.body.dataset.state !== 'loading' && document.body.dataset.state !== 'opening') showChat();
  leaveLibrary();
  await showLibrary();
}

/** @param {string | null} id */
function goTo(id) {
  showSettings(false);
  void openConversation(id);
}

/** @param {Choice} choice */
function choose(choice) {
  const asked = document.body.dataset.state !== 'opening';
  hideToken();
  showPickerError(null);
  void load(choice, asked);
}

setUpTheme();
setUpSettings(() => {
  if (!conversation.head) return;
  conversation.head.settings = conversationSettings();
  keeper.changed(false);
});
setUpPicker(choose);
setUpStored(choose);
setUpToken(choose, showPickerError);
setUpShortcuts({ newChat: () => goTo(null), models: changeModel });
button('loading-cancel').addEventListener('click', () => models.cancel());
button('new-chat').addEventListener('click', () => goTo(null));
button('unload').addEventListener('click', () => void unload());
button('change-model').addEventListener('click', changeModel);
button('back').addEventListener('click', leavePicker);
button('print').addEventListener('click', () => print());
button('shape-open').addEventListener('click', () => {
  const { model } = models;
  if (model) void import('./shape.js').then(({ openShape }) => openShape(model, samplingOptions()));
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  if (models.loading) models.cancel();
  else conversation.stop();
});
onRoute((to) => {
  if (document.body.dataset.state === 'loading') return;
  if (to.view === 'models') showPicker();
  else if (to.id === (conversation.head?.id ?? null)) showChat();
  else void openConversation(to.id, true);
});

/** What the page shows at first: what a link asks for; the conversation and the model that were open; models that
 * are on this device; the one that comes with the page; the list. */
async function open() {
  showNotices('thread-notice', [reasonBeforeLoad()]);
  showThreadsHint();
  await setUpLibrary({
    open: goTo,
    renamed: (id, title) => conversation.head?.id === id && Object.assign(conversation.head, { title, named: true }),
    current: () => conversation.head?.id,
  });
  const query = new URLSearchParams(location.search);
  const atOnce = fillFromLink(query);
  const story = storyteller();
  if (story) offerStoryteller(story, choose);
  const at = place();
  await openConversation(at.view === 'chat' ? at.id : null, true);
  const linked = ['model', 'repo', 'pick'].some((name) => query.has(name));
  const kept = await showStored();
  if (document.body.dataset.state !== 'opening') return;
  const known = linked ? null : await choiceOfNote(conversation.head?.model ?? recall('model', undefined));
  if (known?.here) choose(known.choice);
  else if (conversation.head && !linked) void read();
  else if (!linked && story && mayFetch() && kept.length === 0) choose(story);
  else {
    enter('picking');
    if (atOnce) submitLink(query);
    else if (kept.length) box('stored-list').querySelector('button')?.focus();
  }
}

void open();
