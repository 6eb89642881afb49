/**
 * drawers: the look inside and the search, at the side of the page, on phones as a sheet from below, each with its
 * button. What is in one is a chunk of its own, fetched when it is first opened: until then the page does not carry it,
 * and while it is closed nothing of it runs.
 * @module
 */
import { box, button, el } from './shell/dom.js';

/** What a drawer has in it. style: its rules, which hold while it is open: else each piece of an answer would be asked
 * whether they are for it.
 * @typedef {{ style: CSSStyleSheet, open: () => void, close: () => void, changed: () => void }} Part */
/** @typedef {import('./inside/inside.js').Host & import('./search/search.js').Host} Host */

class Drawer {
  #name;
  #title;
  #load;
  #button;
  /** Before it opens: whatever else stands there makes room. */
  opens = () => {};
  /** @type {Promise<Part> | null} */ #loading = null;
  /** @type {Part | null} */ #part = null;

  /** @param {string} name   of its element @param {string} title @param {HTMLButtonElement} toggle
   * @param {(place: HTMLElement, close: () => void) => Promise<Part>} load */
  constructor(name, title, toggle, load) {
    this.#name = name;
    this.#title = title;
    this.#load = load;
    this.#button = toggle;
    toggle.addEventListener('click', () => (this.isOpen ? this.close() : void this.#open()));
    this.#place.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      this.close();
    });
  }

  get #place() {
    return box(this.#name);
  }

  get isOpen() {
    return !this.#place.hidden;
  }

  /** @param {boolean} now */
  #show(now) {
    this.#place.hidden = !now;
    if (now) document.body.dataset.drawer = this.#name;
    else delete document.body.dataset.drawer;
    this.#button.setAttribute('aria-expanded', String(now));
  }

  async #open() {
    this.opens();
    this.#show(true);
    try {
      this.#part = await (this.#loading ??= this.#load(this.#place, () => this.close()));
    } catch {
      this.#loading = null;
      return this.#missing();
    }
    if (!this.isOpen) return;
    this.#dress(true);
    this.#part.open();
  }

  /** @param {boolean} now */
  #dress(now) {
    const [style, sheets] = [this.#part?.style, document.adoptedStyleSheets];
    document.adoptedStyleSheets = [...sheets.filter((one) => one !== style), ...(now && style ? [style] : [])];
  }

  /** The part could not be fetched; the next try may. */
  #missing() {
    const again = el('button', { type: 'button', onclick: () => this.close() }, 'Close');
    this.#place.replaceChildren(
      el(
        'div',
        { className: 'error', role: 'alert' },
        el('strong', {}, `${this.#title} could not be loaded.`),
        el('p', {}, 'Check your connection, close it and open it again.'),
        again,
      ),
    );
    again.focus();
  }

  close() {
    if (!this.isOpen) return;
    const had = this.#place.contains(document.activeElement);
    this.#show(false);
    this.#part?.close();
    this.#dress(false);
    if (had) this.#button.focus();
  }

  changed() {
    if (this.isOpen) this.#part?.changed();
  }
}

/** @type {Drawer[]} */
let drawers = [];

/** @param {Host} host @param {() => void} opens   what else is open at that side makes room */
export function setUpDrawers(host, opens) {
  drawers = [
    new Drawer(
      'inside',
      'The look inside',
      button('look-toggle'),
      async (place, close) => new (await import('./inside/inside.js')).Inside(place, host, close),
    ),
    new Drawer(
      'search',
      'The search',
      button('search-toggle'),
      async (place, close) => new (await import('./search/search.js')).Search(place, host, close),
    ),
  ];
  for (const one of drawers)
    one.opens = () => {
      opens();
      closeDrawers();
    };
}

/** Something else wants their place, or there is no model to work with. */
export function closeDrawers() {
  for (const one of drawers) one.close();
}

/** The conversation, the model, or whether it is answering has changed. */
export function drawersChanged() {
  for (const one of drawers) one.changed();
}
