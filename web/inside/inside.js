/**
 * inside: the inspection panel: five views of a text, with one request to the model at a time. When an answer starts,
 * the request is aborted, and the panel waits for the answer's end.
 * @module
 */
/// <reference path="../css.d.ts" />
import { action, el, sheetOf } from '../shell/dom.js';
import { codeOf, errorBox } from '../shell/errors.js';
import { titleOf } from '../shell/format.js';
import { t } from '../shell/language.js';
import { state, update } from '../shell/store.js';
import { showAttention } from './attention.js';
import { showLayers } from './layers.js';
import { hint, select, stepped } from './parts.js';
import css from './inside.css';
import { ofAnswer, ofText } from './subject.js';
import { showTokens } from './tokens.js';
import { showWalk } from './walk.js';
import { showWords } from './words.js';

/** @import { Model } from '../../js/index.js' */
/** @import { Subject, Look, Choices } from './subject.js' */

/** @typedef {{ name: string, show: (look: Look) => Promise<void>, words: boolean }} View   words: the view needs a
 * model that predicts next words */
/** @type {Record<string, View>} */
const VIEWS = {
  words: { name: t('view.words'), show: showWords, words: true },
  layers: { name: t('view.layers'), show: showLayers, words: true },
  attention: { name: t('view.attention'), show: showAttention, words: false },
  walk: { name: t('view.walk'), show: showWalk, words: true },
  tokens: { name: t('view.tokens'), show: showTokens, words: false },
};

/** Values of #wanted besides ids of answers: the latest answer (LAST), and the custom text (OWN). */
const LAST = 'last';
const OWN = 'own';
/** Selector of a view's controls, the first of which gets the focus. */
const TABBED = '[tabindex="0"], button, select, textarea';
/** Milliseconds after which the panel shows that it is computing. */
const TOLD_AFTER = 600;

/** @returns {Choices} */
const fresh = () => ({ word: -1, span: 8, end: 0, token: -1, layer: -1, head: 0, walk: -1, step: 0, text: undefined });

/** The inspection panel. The view and the subject stay chosen while it is closed. */
export class Inside {
  style = sheetOf(css);
  #place;
  #conversation;
  #view = 'words';
  #wanted = LAST;
  #own = t('sample');
  /** @type {{ key: string, model: Model, subject: Subject } | null} */ #kept = null;
  #choices = fresh();
  /** @type {AbortController | null} */ #running = null;
  #about = el('div.about');
  #tabs = el('div.tabs', { role: 'tablist', ariaLabel: t('views') });
  #note = el('p.note', { role: 'status' });
  #panel = el('div.inside-panel', { id: 'inside-panel', role: 'tabpanel' });

  /** @param {HTMLElement} place @param {import('../chat/conversation.js').Conversation} conversation */
  constructor(place, conversation) {
    this.#place = place;
    this.#conversation = conversation;
    this.#tabs.addEventListener('keydown', (event) => this.#key(event));
  }

  /** Fills the panel's element, shows the chosen view, and focuses the tabs. */
  open() {
    const close = action(t('close'), () => update({ panel: '' }), 'quiet');
    const head = el('div.settings-head', el('h2', t('inside')), close);
    this.#place.replaceChildren(head, this.#about, this.#tabs, this.#note, this.#panel);
    this.#showTabs();
    this.changed();
    /** @type {HTMLElement} */ (this.#tabs.querySelector('[tabindex="0"]')).focus();
  }

  /** Aborts the request, and empties the panel. */
  close() {
    this.#stop();
    this.#kept = null;
    for (const one of [this.#place, this.#about, this.#tabs, this.#panel]) one.replaceChildren();
  }

  /** Renders the view again, or waits while an answer runs. Keeps the field of the custom text if it has the focus. */
  changed() {
    this.#stop();
    if (state.busy) return this.#wait();
    const active = document.activeElement;
    const inPanel = this.#panel.contains(active);
    const writes = active instanceof HTMLTextAreaElement && this.#about.contains(active);
    if (!writes) this.#showAbout();
    this.#show(inPanel ? TABBED : undefined);
  }

  #wait() {
    this.#note.textContent = t('inside.waits');
  }

  #stop() {
    this.#running?.abort();
    this.#running = null;
    this.#panel.removeAttribute('aria-busy');
    this.#note.textContent = '';
  }

  #showTabs() {
    this.#tabs.replaceChildren(
      ...Object.entries(VIEWS).map(([id, { name }]) => {
        const chosen = id === this.#view;
        const tab = action(name, () => this.#choose(id));
        Object.assign(tab, { id: `inside-${id}`, role: 'tab', tabIndex: chosen ? 0 : -1 });
        tab.ariaSelected = String(chosen);
        tab.setAttribute('aria-controls', this.#panel.id);
        return tab;
      }),
    );
    this.#panel.setAttribute('aria-labelledby', `inside-${this.#view}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const names = Object.keys(VIEWS);
    const at = names.indexOf(this.#view);
    const next = stepped(event, at, names.length);
    if (next === at) return;
    event.preventDefault();
    this.#choose(names[next]);
  }

  /** @param {string} view */
  #choose(view) {
    this.#view = view;
    this.#showTabs();
    /** @type {HTMLElement} */ (this.#tabs.querySelector('[tabindex="0"]')).focus();
    this.#panel.replaceChildren();
    this.#show();
  }

  #showAbout() {
    const { answers } = this.#conversation;
    const known = this.#wanted === OWN || answers.slice(0, -1).some(({ said }) => said.id === this.#wanted);
    if (!known) this.#wanted = LAST;
    if (!answers.length) this.#wanted = OWN;
    const had = this.#about.contains(document.activeElement);
    const own = el('div');
    const showOwn = () => own.replaceChildren(...(this.#wanted === OWN ? [this.#ownField()] : []));
    const options = answers.map(
      ({ said }, i) =>
        /** @type {[string, string]} */ ([
          i === answers.length - 1 ? LAST : said.id,
          t('inside.answer', { n: i + 1, title: titleOf(said.text) }),
        ]),
    );
    const pick = select(t('inside.subject'), [...options.reverse(), [OWN, t('inside.own')]], this.#wanted, (value) => {
      this.#wanted = value;
      showOwn();
      this.#show();
    });
    showOwn();
    this.#about.replaceChildren(pick, own);
    if (had) pick.querySelector('select')?.focus();
  }

  #ownField() {
    const field = el('textarea', { rows: 2, dir: 'auto', value: this.#own });
    field.ariaLabel = t('inside.own.label');
    field.addEventListener('input', () => {
      this.#own = field.value;
      this.#show();
    });
    return field;
  }

  /** @param {string} [focus]   a selector */
  #show(focus) {
    const { show, words } = VIEWS[this.#view];
    this.#run(async (signal) => {
      const { model } = state;
      if (!model) return;
      if (words && model.info.embedding) return this.#say(t('inside.embedding'));
      const subject = await this.#subject(model, signal);
      if (!subject.tokens.length) return this.#say(t('inside.no-text'));
      await show({
        model,
        subject,
        panel: this.#panel,
        signal,
        conversation: this.#conversation,
        choices: this.#choices,
        run: (task) => void this.#run(task),
        again: (place) => this.#show(place),
      });
    }, focus);
  }

  /** @param {string} text */
  #say(text) {
    this.#panel.replaceChildren(hint(text));
  }

  /** @param {Model} model @param {AbortSignal} signal */
  async #subject(model, signal) {
    const { answers } = this.#conversation;
    const answer =
      this.#wanted === OWN ? null : (answers.find(({ said }) => said.id === this.#wanted) ?? answers.at(-1));
    const key = answer ? `${answer.said.id} ${answer.said.text}` : `${OWN} ${this.#own}`;
    if (this.#kept?.key === key && this.#kept.model === model) return this.#kept.subject;
    const subject = answer ? await ofAnswer(model, answer, signal) : await ofText(model, this.#own, signal);
    const { layer, head, span, text } = this.#choices;
    this.#choices = { ...fresh(), head, span, text, layer: this.#kept?.model === model ? layer : -1 };
    this.#kept = { key, model, subject };
    return subject;
  }

  /** Runs one task at a time, and none while an answer runs. @param {(signal: AbortSignal) => Promise<void>} task
   * @param {string} [focus]   selector of the element that gets the focus at the end */
  async #run(task, focus) {
    this.#stop();
    if (state.busy) return this.#wait();
    const running = (this.#running = new AbortController());
    this.#panel.ariaBusy = 'true';
    const timer = setTimeout(() => {
      if (this.#running === running) this.#note.textContent = t('inside.computing');
    }, TOLD_AFTER);
    try {
      await task(running.signal);
    } catch (error) {
      if (!running.signal.aborted) this.#failed(error);
    } finally {
      clearTimeout(timer);
    }
    if (this.#running !== running) return;
    this.#stop();
    const target = focus && this.#panel.querySelector(focus);
    if (target instanceof HTMLElement) target.focus();
  }

  /** @param {unknown} error   not shown if the model was unloaded or the task aborted */
  #failed(error) {
    if (['disposed', 'aborted'].includes(codeOf(error))) return;
    this.#panel.replaceChildren(errorBox(error));
  }
}
