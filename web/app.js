/**
 * app: the page's wiring: a conversation, the model that answers in it, the list of both, and the address that says
 * which is open. A client of js/index.js only.
 * @module
 */
import { Chooser } from './models/chooser.js';
import { setUpComposer } from './chat/composer.js';
import { Conversation } from './chat/conversation.js';
import { action, announce, box, button, byId, el, hasTouch, underDialog } from './shell/dom.js';
import { closeDrawers, drawersChanged, setUpDrawers } from './drawers.js';
import { codeOf } from './shell/errors.js';
import { Follow } from './chat/follow.js';
import { bytes, count, parameters } from './shell/format.js';
import { Keeper } from './chat/keeper.js';
import { archive, leaveLibrary, setUpLibrary, showLibrary } from './history/library.js';
import { Models, choiceOfNote, noteOf } from './models/models.js';
import { lasting, showNotices } from './shell/notices.js';
import { setUpOffline } from './offline/offline.js';
import {
  fillFromLink,
  loadOptions,
  offerStoryteller,
  setUpPicker,
  showPickerError,
  submitLink,
} from './models/picker.js';
import { Unfit, afterRefusal } from './models/preflight.js';
import { leaves, onRoute, place, shows } from './shell/route.js';
import {
  conversationSettings,
  samplingOptions,
  setDefaults,
  setUpSettings,
  showInfo,
  showSettings,
  systemPrompt,
  takeSettings,
} from './settings/settings.js';
import { setUpShortcuts } from './settings/shortcuts.js';
import { recall, remember } from './history/storage.js';
import { refusal, setUpStored, showStored } from './models/stored.js';
import { STORY_SETTINGS, mayFetch, storyteller, storytellerWelcome } from './models/storyteller.js';
import { Talk } from './chat/talk.js';
import { setUpTheme } from './settings/theme.js';
import { reasonBeforeLoad, reasonForOneThread, showThreadsHint } from './models/threads.js';
import { askToken, hideToken, needsToken, setUpToken } from './models/token.js';
import { Transcript } from './chat/transcript.js';
import { Tree, spoken } from './history/tree.js';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('./models/picker.js').Choice} Choice */

const follow = new Follow(box('scroller'), box('latest'));
/** @type {Models} */
const models = new Models({
  leave: async (dead) => {
    closeDrawers();
    if (!dead) await conversation.settle();
    conversation.use(null);
  },
  idle: () => conversation.idle(),
});
const talk = new Talk(async (id) => archive.kept && archive.has(id));

/** @type {Conversation} */
const conversation = new Conversation(new Transcript(box('log'), follow), talk, {
  options: samplingOptions,
  system: systemPrompt,
  welcome,
  busy: (busy) => {
    composer.busy(busy);
    document.body.dataset.busy = String(busy);
  },
  edit: (message) => composer.edit(message),
  anew: () => void goTo(null),
  used: (used) => showContext(used, models.model?.info.contextLength ?? 0),
  begun: (head) => {
    head.settings = conversationSettings();
    takeSettings(head); // its system prompt stays from now on
    shows(here());
    nameTab();
  },
  changed: (now) => {
    if (conversation.head) conversation.head.settings = conversationSettings();
    keeper.changed(now);
    if (now) drawersChanged();
  },
  branched: ({ head, tree }) => void archive.put(head, tree.kept()).then(() => openConversation(head.id)),
  lost: (error) => void unload(error),
});

const composer = setUpComposer({
  send: (draft) => {
    const { editing } = conversation;
    if (!editing) keeper.typed({ text: '', files: [] }); // while it is still the draft of a new conversation
    const sent = conversation.send(draft);
    if (!sent && !editing) keeper.typed(draft);
    return sent;
  },
  stop: () => conversation.stop(),
  resized: () => follow.keep(),
  typed: (draft) => {
    if (!conversation.editing) keeper.typed(draft);
    countDraft(draft);
  },
  last: () => {
    const { text = '', files = [] } = conversation.tree.path().findLast(({ role }) => role === 'user') ?? {};
    return { text, files };
  },
  kept: () => conversation.leaveEditing(),
});
const keeper = new Keeper(conversation);

const chooser = new Chooser(leaveModels);

/** What is open. */
const here = () => ({ id: conversation.head?.id ?? null, models: chooser.open });

/** @param {'picking' | 'loading' | 'ready' | 'reading'} state   picking: the models are all there is; reading: a
 * conversation without its model */
function enter(state) {
  document.body.dataset.state = state;
  const behind = models.behind && state === 'ready';
  document.body.dataset.behind = String(behind);
  document.body.dataset.inChat = String(behind || (state === 'loading' && conversation.tree.leaf !== null));
  if (state === 'picking') chooser.welcome();
  placeLoading();
}

/** What comes is seen among the models while they are open, else with the conversation. */
function placeLoading() {
  const loading = box('loading');
  const inChat = document.body.dataset.inChat === 'true';
  const next = box(chooser.open ? 'picker-error' : inChat ? 'composer' : 'chat');
  if (loading.nextElementSibling !== next) next.before(loading);
}

/** What an empty conversation shows. */
function welcome() {
  const { model, choice } = models;
  if (!model) return [el('strong', {}, 'No model is loaded'), action('Choose a model…', changeModel, 'link')];
  if (!model.info.chatTemplate) {
    return [el('strong', {}, 'Begin a text'), 'This model has not learnt to chat: it goes on with what you write.'];
  }
  if (choice?.kind !== 'storyteller') {
    return [el('strong', {}, 'Ask something'), 'The answer is made here, on this device.'];
  }
  return storytellerWelcome(model.info.parameters, {
    say: (text) => {
      const { message } = composer;
      keeper.typed({ text: '', files: [] }); // while it is still the draft of a new conversation
      conversation.send({ text, files: [] });
      keeper.typed(message);
    },
    more: changeModel,
  });
}

/** The models, over what is open. */
function changeModel() {
  showSettings(false);
  closeDrawers();
  showPickerError(null);
  showModels();
}

function showModels() {
  const back = button('back');
  const bare = document.body.dataset.state === 'picking';
  const gone = models.model || models.loading ? null : models.choice;
  back.hidden = bare && !gone;
  back.textContent = gone ? `← Back to ${gone.label}` : 'Close';
  if (!bare) {
    chooser.show();
    placeLoading();
  }
  shows(here(), bare);
  void showStored();
}

function closeModels() {
  chooser.close();
  placeLoading();
  leaves(here());
}

/** Without a choice: to the model that was there, loaded again if it had to go. */
function leaveModels() {
  closeModels();
  if (!models.model && !models.loading && models.choice) choose(models.choice);
}

function comeBack() {
  if (!models.model && models.choice) choose(models.choice);
  else rest();
}

/** While nothing loads: a model to talk to, or a conversation to read, or the models. */
function rest() {
  if (models.model) enter('ready');
  else if (conversation.head) void read();
  else {
    enter('picking');
    showModels();
  }
}

/** On a touch screen the keyboard would cover what is there. */
function focusComposer() {
  const at = document.activeElement; // who writes elsewhere goes on
  const writes = at?.matches('input, textarea, select') && at.checkVisibility();
  if (!hasTouch() && !underDialog() && !writes) composer.focus();
}

/** Without a model: the conversation, and a way to get one. */
async function read() {
  enter('reading');
  const note = conversation.head?.model;
  const known = await choiceOfNote(note);
  if (document.body.dataset.state !== 'reading') return;
  const other = action(note ? 'Choose another model…' : 'Choose a model…', changeModel);
  const buttons = known ? [action(getText(known), () => choose(known.choice), 'primary'), other] : [other];
  const was = note ? `This conversation was with ${note.label}. ` : 'No model is loaded. ';
  const ways = !note
    ? 'Choose one to go on.'
    : note.kind === 'file'
      ? 'It came from a file: choose it again to go on.'
      : 'Load it to go on.';
  box('model-card').replaceChildren(el('p', {}, was, ways), ...buttons);
}

/** @param {{ choice: Choice, here: boolean }} known */
function getText({ choice, here }) {
  if (here) return `Start ${choice.label}`;
  return `Download ${choice.label}${choice.bytes ? ` (${bytes(choice.bytes)})` : ''}`;
}

let loads = 0;

/** @param {Choice} choice @param {boolean} asked   by a click, whose focus goes to Cancel; else nobody's is taken */
async function load(choice, asked) {
  const before = models.choice;
  const mine = ++loads;
  try {
    const loading = models.load(choice, loadOptions());
    if (models.behind) {
      enter('ready');
      focusComposer();
    } else {
      enter('loading');
      if (asked) button('loading-cancel').focus();
    }
    await begin(await loading, choice, before);
  } catch (error) {
    if (mine !== loads) return; // another one has taken its place
    const stay = models.behind && codeOf(error) === 'aborted';
    models.behind = false;
    if (!stay) return failed(error, choice);
    announce('Cancelled');
    rest();
    if (chooser.open) showModels();
    focusComposer();
  }
}

/** The models again, with what may help; what was there before is a click away. @param {unknown} error
 * @param {Choice} choice */
function failed(error, choice) {
  // A host may serve the page without the model that comes with it.
  const leftOut = choice.kind === 'storyteller' && codeOf(error) === 'http-error';
  if (leftOut) document.getElementById('storyteller')?.remove();
  const found = error instanceof Unfit ? error.remedies : codeOf(error) === 'no-memory' ? afterRefusal(choice) : [];
  const buttons = found.map((one) => action(one.label, () => choose(one.choice)));
  backToModels(leftOut ? null : error, { about: choice.label, buttons });
  if (needsToken(error, choice)) askToken(choice);
}

/** @param {unknown} error   null for none @param {Parameters<typeof showPickerError>[1]} [more] */
function backToModels(error, more) {
  rest();
  if (document.body.dataset.state === 'picking') box('main').focus();
  else showModels();
  const cancelled = codeOf(error) === 'aborted';
  showPickerError(cancelled ? null : error, more);
  if (cancelled) announce('Cancelled');
}

/** @param {Model} loaded @param {Choice} choice @param {Choice | null} before */
async function begin(loaded, choice, before) {
  const { label, kind } = choice;
  const { info } = loaded;
  remember('model', noteOf(choice));
  box('model-name').textContent = label;
  button('change-model').title = `${label}: change model`;
  button('change-model').ariaLabel = `Model: ${label}. Change`;
  setDefaults(kind === 'storyteller' ? STORY_SETTINGS : {});
  showInfo(facts(info));
  const refused = await refusal(info.notices, info.fileBytes);
  showNotices('chat-notice', [reasonForOneThread(info, loadOptions().threads), ...lasting(info.notices, refused)]);
  enter('ready');
  conversation.use(loaded, noteOf(choice));
  showMode(info.chatTemplate);
  if (archive.kept) void talk.sweep();
  // A story is no beginning for another model: it stays in the list.
  const told = conversation.head?.model?.kind === 'storyteller';
  const anew = before?.kind === 'storyteller' && kind !== 'storyteller' && told;
  if (anew) void openConversation(null, false, true);
  else {
    if (conversation.head) {
      // it goes on with this one, after a reload too
      conversation.head.model = noteOf(choice);
      keeper.changed(false);
    }
    conversation.welcome();
    shows(here(), true);
  }
  if (chooser.open) showModels();
  focusComposer();
  announce('The model is ready.');
}

/** A model that knows no chat goes on with a text. @param {boolean} chats */
function showMode(chats) {
  const field = byId('input', HTMLTextAreaElement);
  field.placeholder = chats ? 'Write a message' : 'Begin a text';
  field.ariaLabel = chats ? 'Message' : 'Text to go on with';
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

/** What is left of the context, before what is being written. */
let left = 0;

/** @param {number} used @param {number} length */
function showContext(used, length) {
  left = Math.max(0, length - used);
  box('meter-text').textContent = `Context ${count(Math.min(used, length))} of ${count(length)}`;
  byId('meter', HTMLProgressElement).value = length ? Math.min(1, used / length) : 0;
}

let drafts = 0;

/** How many tokens the message takes that is being written, and what that leaves.
 * @param {import('./history/archive.js').Draft} draft */
function countDraft(draft) {
  const { model } = models;
  const text = spoken(draft);
  const place = box('draft-tokens');
  const mine = ++drafts;
  place.classList.remove('over');
  if (!text || !model) place.textContent = '';
  else
    setTimeout(() => {
      if (mine !== drafts || model !== models.model) return;
      void model.tokenize(text).then(
        ({ length }) => {
          if (mine !== drafts) return;
          place.classList.toggle('over', length > left);
          const rest = length > left ? `${count(length - left)} too many` : `${count(left - length)} left`;
          place.textContent = `+ ${count(length)} · ${rest}`;
        },
        () => {},
      );
    }, 150);
}

/** @param {unknown} [error] */
async function unload(error = null) {
  showSettings(false);
  const coming = models.behind && models.loading;
  models.behind = false; // what comes is all there is now
  const released = models.release(Boolean(error));
  if (!error) models.choice = null;
  if (coming) enter('loading');
  else backToModels(error);
  await released;
}

/** The one that was asked for last counts. */
let openings = 0;
/** Which one is about to be open, undefined if none is. @type {string | null | undefined} */
let opening;

/** A conversation of the archive, null for a new one. @param {string | null} id
 * @param {boolean} [instead] no step to come back to @param {boolean} [along] what is being written goes along */
async function openConversation(id, instead = false, along = false) {
  const mine = ++openings;
  opening = id;
  await conversation.halt(); // its last words are kept before anything is read
  if (mine !== openings) return;
  const one = id ? await archive.get(id).catch(() => null) : null;
  const written = await keeper.draft(one?.head);
  if (mine !== openings) return;
  opening = undefined;
  keeper.flush();
  const now = composer.message;
  if (along) keeper.typed({ text: '', files: [] });
  await conversation.open(one && { head: one.head, tree: new Tree(one.body) });
  takeSettings(conversation.head);
  nameTab();
  drawersChanged();
  // In the moment in which it is seen: what is typed from then on stays.
  composer.draft(along && (now.text || now.files.length) ? now : (keeper.unwritten ?? written));
  shows(here(), instead || (id !== null && !one));
  if (document.body.dataset.state === 'loading') enter('loading'); // beside a conversation, or without one
  if (!/^(loading|opening)$/.test(document.body.dataset.state ?? '')) {
    comeBack();
    focusComposer();
  }
  leaveLibrary();
  await showLibrary();
}

/** Names the tab after the open conversation. */
function nameTab() {
  document.title = [conversation.head?.title, 'gemma-wasm'].filter(Boolean).join(' · ');
}

/** @param {string | null} id */
function goTo(id) {
  showSettings(false);
  return openConversation(id);
}

/** @param {Choice} choice */
function choose(choice) {
  const asked = document.body.dataset.state !== 'opening';
  if (chooser.open) closeModels();
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
setUpPicker(choose, (texts) => composer.add(texts));
setUpStored(choose, (address) => models.stateOf(address));
setUpToken(choose, showPickerError);
setUpDrawers(
  {
    model: () => models.model,
    answers: () => conversation.answers,
    message: () => conversation.tree.path().findLast(({ role }) => role === 'user')?.text ?? '',
    busy: () => conversation.busy,
    options: samplingOptions,
    continueFrom: (...from) => conversation.continueFrom(...from),
    label: () => models.choice?.label ?? '',
    ask: (draft) => composer.ask(draft),
  },
  () => showSettings(false),
);
button('settings-toggle').addEventListener('click', closeDrawers);
setUpShortcuts({ newChat: () => void goTo(null), models: changeModel });
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault(); // the address says which conversation is open
  box('main').focus();
});
button('loading-cancel').addEventListener('click', () => models.cancel());
button('new-chat').addEventListener('click', () => void goTo(null));
button('unload').addEventListener('click', () => void unload());
button('change-model').addEventListener('click', changeModel);
button('print').addEventListener('click', () => print());
button('shape-open').addEventListener('click', () => {
  const { model } = models;
  if (model) void import('./chat/shape.js').then(({ openShape }) => openShape(model, samplingOptions()));
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.isComposing || underDialog()) return;
  if (models.loading && !models.behind) models.cancel();
  else conversation.stop();
});
onRoute((to) => {
  if (to.models) showModels();
  else if (chooser.open) leaveModels();
  if (to.id !== (opening === undefined ? here().id : opening)) void openConversation(to.id, true);
});

/** What the page shows at first: what a link asks for; the conversation and the model that were open; models that
 * are on this device; the one that comes with the page; the list of them. */
async function open() {
  const offline = setUpOffline();
  showThreadsHint();
  await setUpLibrary({
    open: goTo,
    changed: (id, news) => {
      if (conversation.head?.id === id) Object.assign(conversation.head, news);
      nameTab();
    },
    heard: (id) => archive.kept && void keeper.heard(id),
    removed: () => void (archive.kept && talk.sweep()),
    current: () => conversation.head?.id,
  });
  await keeper.recover();
  const query = new URLSearchParams(location.search);
  const atOnce = fillFromLink(query);
  const story = storyteller();
  if (story) offerStoryteller(story, choose);
  const at = place();
  await openConversation(at.id, true);
  if (at.models) shows({ ...here(), models: true }, true);
  const linked = ['model', 'repo', 'pick'].some((name) => query.has(name));
  const kept = await showStored();
  await offline;
  showNotices('thread-notice', [reasonBeforeLoad()]);
  if (document.body.dataset.state !== 'opening') return;
  const known = linked ? null : await choiceOfNote(conversation.head?.model ?? recall('model', undefined));
  if (known?.here) choose(known.choice);
  else if (conversation.head && !linked) void read();
  else if (!linked && story && mayFetch() && kept.length === 0) choose(story);
  else {
    if (conversation.head) {
      void read();
      showModels();
    } else enter('picking');
    if (atOnce) submitLink(query);
    else if (!chooser.open) box('stored-list').querySelector('button')?.focus();
  }
  if (place().models) showModels();
}

void open();
