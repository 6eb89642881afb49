/**
 * loads: what the page shows while a model is chosen, loaded, rejected or unloaded, and afterwards.
 * @module
 */
import { action, announce, box, button, el, hasTouch, onClick, underDialog } from '../shell/dom.js';
import { PageError, codeOf, statusOf } from '../shell/errors.js';
import { bytes } from '../shell/format.js';
import { addLater, t } from '../shell/language.js';
import { lasting, showNotices } from '../shell/notices.js';
import { route } from '../shell/route.js';
import { actions, enter, latest, state, update, watch } from '../shell/store.js';
import { recall, remember } from '../history/storage.js';
import { Chooser, showTrouble } from './chooser.js';
import { Models, choiceOfNote, noteOf } from './models.js';
import { fillFromLink, loadOptions, submitLink } from './picker.js';
import { Unfit, afterRefusal } from './preflight.js';
import { refusal, showStored } from './stored.js';
import { STORY_SETTINGS, mayFetch, storyteller } from './storyteller.js';
import { reasonForOneThread } from './threads.js';
import { askToken, needsToken } from './token.js';

/** @import { Model } from '../../js/index.js' */
/** @import { Choice } from '../shell/store.js' */
/** @import { Openings } from '../chat/openings.js' */

/** Loads models, and shows the model chooser. */
export class Loads {
  #conversation;
  #openings;
  #models;
  #latest = latest();
  #chooser = new Chooser(() => this.leave());

  /** @param {import('../chat/conversation.js').Conversation} conversation @param {Openings} openings */
  constructor(conversation, openings) {
    this.#conversation = conversation;
    this.#openings = openings;
    this.#models = new Models(conversation);
    actions.choose = (choice) => this.#choose(choice);
    actions.changeModel = () => this.#change();
    actions.lose = () => this.#lose();
    actions.rest = () => this.#comeBack();
    actions.focus = focusComposer;
    watch(['phase', 'behind', 'leaf', 'models'], placeLoading);
    watch(['phase'], () => state.phase === 'picking' && this.#chooser.welcome());
    addEventListener('offline', () => {
      // offline no bytes arrive, so no rate is shown
      for (const id of ['rate', 'left']) box(`loading-${id}`).textContent = '';
    });
    onClick('loading-cancel', () => this.#models.cancel());
    onClick('unload', () => this.#unload());
    onClick('change-model', actions.changeModel);
  }

  /** Cancels a load that the user is waiting for; returns whether there was one. */
  cancel() {
    if (!state.coming || state.behind) return false;
    this.#models.cancel();
    return true;
  }

  #change() {
    update({ panel: '' });
    showTrouble(null);
    this.show();
  }

  /** Opens the model chooser, over the conversation if one is shown. */
  show() {
    const back = button('back');
    const bare = state.phase === 'picking';
    const gone = state.model || state.coming ? null : state.choice;
    back.hidden = bare && !gone;
    back.textContent = gone ? t('back.to', { name: gone.label }) : t('close');
    if (!bare) this.#chooser.show();
    route.show({ instead: bare });
    void this.#list();
  }

  async #list() {
    await showStored();
    const { made } = this.#conversation;
    if (!made.size) return;
    const speed = await import('./speed.js').catch(() => null); // without a network, there are no estimates
    void speed?.showSpeeds([...made.values()]);
  }

  #close() {
    this.#chooser.close();
    route.leave();
  }

  /** Leaves the chooser without a choice: returns to the previous model, which is loaded again if it was unloaded. */
  leave() {
    this.#close();
    if (!state.model && !state.coming && state.choice) this.#choose(state.choice);
  }

  #comeBack() {
    if (!state.model && state.choice) this.#choose(state.choice);
    else this.#rest();
  }

  /** Shows, while nothing is loading, the chat, the conversation without a model, or the model chooser. */
  #rest() {
    if (state.model) enter('ready');
    else if (state.id) void this.#read();
    else {
      enter('picking');
      this.show();
    }
  }

  /** Shows a conversation without a model, with buttons to load its last model or another one. */
  async #read() {
    enter('reading');
    const note = this.#conversation.head?.model;
    const again = note && state.choice?.label === note.label ? state.choice : null;
    const known = again ? { choice: again, here: true } : await choiceOfNote(note);
    if (state.phase !== 'reading') return;
    const other = action(t(note ? 'choose-other' : 'choose-model'), actions.changeModel);
    const buttons = known
      ? [action(again ? t('load.reload') : getText(known), () => this.#choose(known.choice), 'primary'), other]
      : [other];
    const was = note ? t('was.with', { name: note.label }) : `${t('welcome.no-model')}.`;
    const way = t(!note ? 'load.choose' : !again && note.kind === 'file' ? 'load.file' : 'load.it');
    box('model-card').replaceChildren(el('p', was, ' ', way), ...buttons);
  }

  /** Chooses the first model of a visit: the conversation's, the last one used, the storyteller model, or the one that
   * a link names. @param {URLSearchParams} query @param {boolean} kept   models are stored on this device */
  async first(query, kept) {
    const linked = ['model', 'repo', 'pick'].some((name) => query.has(name));
    if (linked) await addLater(); // loads the question about a link's model
    const atOnce = fillFromLink(query);
    if (state.phase !== 'opening') return;
    const note = this.#conversation.head?.model ?? recall('model', undefined);
    const known = linked ? null : await choiceOfNote(note);
    const story = storyteller();
    if (known?.here) this.#choose(known.choice);
    else if (state.id && !linked) void this.#read();
    else if (!linked && story && mayFetch() && !kept) this.#choose(story);
    else {
      if (state.id) {
        void this.#read();
        this.show();
      } else enter('picking');
      if (atOnce) submitLink(query);
      else if (!state.models) {
        const form = box('picker').querySelector('.fold[open]'); // filled in from the link
        (form?.querySelector('input') ?? box('stored-list').querySelector('button'))?.focus();
      }
    }
    if (route.place.models) this.show();
  }

  /** @param {Choice} choice */
  #choose(choice) {
    const asked = state.phase !== 'opening';
    if (state.models) this.#close();
    update({ gated: null });
    showTrouble(null);
    void this.#load(choice, asked);
  }

  /** @param {Choice} choice @param {boolean} asked   true after a click: the focus moves to Cancel */
  async #load(choice, asked) {
    const before = state.choice;
    const isLatest = this.#latest();
    try {
      this.#models.cancel();
      const options = loadOptions();
      const loading = this.#models.load(choice, options);
      if (state.behind) {
        enter('ready');
        focusComposer();
      } else {
        enter('loading');
        if (asked) button('loading-cancel').focus();
      }
      await this.#begin(await loading, choice, before, options.threads);
    } catch (error) {
      if (!isLatest()) return; // a newer load has replaced this one
      const stay = state.behind && codeOf(error) === 'aborted';
      update({ behind: false });
      if (!stay) return this.#failed(error, choice);
      announce(t('cancelled'));
      this.#rest();
      if (state.models) this.show();
      focusComposer();
    }
  }

  /** @param {unknown} error @param {Choice} choice */
  #failed(error, choice) {
    // The host may serve the page without the storyteller model.
    const leftOut = choice.kind === 'storyteller' && codeOf(error) === 'http-error';
    if (leftOut) document.getElementById('storyteller')?.remove();
    const found = error instanceof Unfit ? error.remedies : codeOf(error) === 'no-memory' ? afterRefusal(choice) : [];
    if (/^(network|read)-error$/.test(codeOf(error))) found.push({ label: t('try-again'), choice });
    const buttons = found.map((one) => action(one.label, () => this.#choose(one.choice)));
    const refused = choice.token && statusOf(error) === 401;
    this.#return(leftOut ? null : refused ? new PageError('token.refused') : error, { about: choice.label, buttons });
    if (needsToken(error, choice)) askToken(choice);
  }

  /** @param {unknown} error   null for none @param {Parameters<typeof showTrouble>[1]} [more] */
  #return(error, more) {
    this.#rest();
    if (state.phase === 'picking') box('main').focus();
    else this.show();
    const cancelled = codeOf(error) === 'aborted';
    showTrouble(cancelled ? null : error, more);
    if (cancelled) announce(t('cancelled'));
  }

  /** @param {Model} loaded @param {Choice} choice @param {Choice | null} before
   * @param {number} [threads]   as requested */
  async #begin(loaded, choice, before, threads) {
    const { info } = loaded;
    const note = noteOf(state.choice ?? choice);
    const isStory = choice.kind === 'storyteller';
    remember('model', note);
    update({ recommended: isStory ? STORY_SETTINGS : {} });
    const refused = await refusal(info.notices, info.fileBytes);
    if (info.threads === 1) await addLater(); // loads the notice about running on one thread
    if (state.model !== loaded) return; // the model was unloaded meanwhile
    const { element } = this.#models.rest;
    const rest = element.textContent && element; // empty unless a part of the model is downloaded later
    showNotices('chat-notice', [reasonForOneThread(info, threads), ...lasting(info.notices, refused), rest]);
    if (!state.coming) enter('ready'); // if state.coming is set, another model was chosen meanwhile
    this.#conversation.use(loaded, note);
    // Other models cannot continue the storyteller model's story, so they begin a new conversation.
    const told = this.#conversation.head?.model?.kind === 'storyteller';
    if (before?.kind === 'storyteller' && !isStory && told) void this.#openings.open(null, { along: true });
    else {
      this.#conversation.adopt();
      route.show({ instead: true });
    }
    if (state.models) this.show();
    focusComposer();
    announce(t('model.ready'));
  }

  /** Unloads the model; a load in progress continues. */
  #unload() {
    update({ panel: '' });
    void this.#models.release();
    update({ choice: null });
    if (state.coming) enter('loading', { behind: false });
    else this.#return(null);
  }

  /** Unloads a model that has failed. The card under its answer offers to load it again. */
  #lose() {
    update({ panel: '' });
    void this.#models.release(true);
    if (state.coming) enter('loading', { behind: false });
    else this.#rest();
  }
}

/** Shows the load in the model chooser while it is open, otherwise with the conversation. */
function placeLoading() {
  const loading = box('loading');
  const inChat = state.behind || (state.phase === 'loading' && state.leaf !== null);
  const next = box(state.models ? 'picker-error' : inChat ? 'composer' : 'chat');
  if (loading.nextElementSibling !== next) next.before(loading);
}

/** Focuses the message field, unless the user is typing elsewhere or a touch keyboard would open. */
function focusComposer() {
  const at = document.activeElement;
  const writes = at?.matches('input, textarea, select') && at.checkVisibility();
  if (!hasTouch() && !underDialog() && !writes) box('input').focus();
}

/** @param {{ choice: Choice, here: boolean }} known */
function getText({ choice, here }) {
  const name = choice.label;
  if (here) return t('start.name', { name });
  return choice.bytes ? t('download.name-size', { name, size: bytes(choice.bytes) }) : t('download.name', { name });
}
