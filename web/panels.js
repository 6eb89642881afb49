/**
 * panels: the side panels of the page (on phones, bottom sheets): one is open at a time, and each has a button. A panel
 * is a separate chunk that is fetched when it is first opened; while it is closed, none of its code runs.
 *
 * A new panel needs a file that exports its Part, a row in the table below, and a button and an <aside> in index.html.
 * @module
 */
import { addLater, t } from './shell/language.js';
import { action, box, button, onEscape } from './shell/dom.js';
import { PageError, errorBox } from './shell/errors.js';
import { state, update, watch } from './shell/store.js';

/** A panel's implementation. style: a sheet that applies only while the panel is open, so that it costs nothing while
 * answers stream; changed: called when the conversation has changed, or an answer has begun or ended.
 * @typedef {{ style?: CSSStyleSheet, open: () => void, close?: () => void, changed?: () => void }} Part */
/** @import { Conversation } from './chat/conversation.js' */
/** A panel. toggle: id of its button; name: key of its name in the texts.
 * @typedef {{ toggle: string, name: 'settings' | 'inside' | 'documents',
 *   load: (place: HTMLElement, conversation: Conversation) => Promise<Part> }} Row */

/** @type {Record<string, Row>} */
const PANELS = {
  settings: {
    toggle: 'settings-toggle',
    name: 'settings',
    load: async () => ({ open: () => button('settings-close').focus() }),
  },
  inside: {
    toggle: 'look-toggle',
    name: 'inside',
    load: async (place, conversation) => new (await import('./inside/inside.js')).Inside(place, conversation),
  },
  search: {
    toggle: 'search-toggle',
    name: 'documents',
    load: async (place) => new (await import('./search/search.js')).Search(place),
  },
};

/** Connects the buttons of all panels. Called once. @param {Conversation} conversation */
export function setUpPanels(conversation) {
  for (const [name, row] of Object.entries(PANELS)) new Panel(name, row, conversation);
}

const close = () => update({ panel: '' });

class Panel {
  #place;
  #button;
  #key;
  #load;
  /** @type {Promise<Part> | null} */ #loading = null;
  /** @type {Part | null} */ #part = null;

  /** @param {string} name @param {Row} row @param {Conversation} conversation */
  constructor(name, { toggle, name: key, load }, conversation) {
    this.#place = box(name);
    this.#button = button(toggle);
    this.#key = key;
    this.#load = () => load(this.#place, conversation);
    this.#button.addEventListener('click', () => update({ panel: this.#isOpen ? '' : name }));
    onEscape(this.#place, close);
    watch(['panel'], () => {
      if (state.panel === name) void this.#open();
      else if (this.#isOpen) this.#close();
    });
    watch(['busy', 'leaf', 'id'], () => this.#isOpen && this.#part?.changed?.());
  }

  get #isOpen() {
    return !this.#place.hidden;
  }

  /** @param {boolean} now */
  #show(now) {
    this.#place.hidden = !now;
    this.#button.ariaExpanded = String(now);
  }

  async #open() {
    this.#show(true);
    try {
      await addLater();
      this.#part = await (this.#loading ??= this.#load());
    } catch {
      this.#loading = null;
      return this.#missing();
    }
    if (!this.#isOpen) return;
    this.#dress(true);
    this.#part.open();
  }

  /** @param {boolean} now */
  #dress(now) {
    const style = this.#part?.style;
    const others = document.adoptedStyleSheets.filter((one) => one !== style);
    document.adoptedStyleSheets = [...others, ...(now && style ? [style] : [])];
  }

  #missing() {
    const again = action(t('close'), close);
    const error = new PageError('panel.failed', { name: t(this.#key) });
    this.#place.replaceChildren(errorBox(error, { buttons: [again] }));
    again.focus();
  }

  #close() {
    const had = this.#place.contains(document.activeElement);
    this.#show(false);
    this.#part?.close?.();
    this.#dress(false);
    if (had) this.#button.focus();
  }
}
