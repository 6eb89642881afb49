/**
 * finds: the search field, which shows the nearest passages while the user types. The model can be asked about them.
 * @module
 */
import { action, announce, el } from '../shell/dom.js';
import { errorBox } from '../shell/errors.js';
import { number, t } from '../shell/language.js';

/** @import { Found } from '../../examples/search/texts.js' */

const CHOSEN = 3;

/** @param {Found} found */
const nameOf = ({ title, at }) => t('search.passage', { title, n: at + 1 });

/** @param {Found[]} found */
const passages = ({ length }) => t('passages', { n: length });

/** The search field and the passages found last. */
export class Finds {
  #nearest;
  #field = el('input', { type: 'search', dir: 'auto', autocomplete: 'off', disabled: true });
  #hits = el('ol.hits', { ariaLabel: t('search.hits') });
  #askable = true;
  #ask;
  #some = el('span.hint');
  #asking;
  #asked = new AbortController();
  /** @type {Found[]} */ #found = [];
  element = el('div.finds');

  /** @param {(question: string, signal: AbortSignal) => Promise<Found[]>} nearest
   * @param {(draft: import('../shell/store.js').Draft) => void} ask */
  constructor(nearest, ask) {
    this.#nearest = nearest;
    this.#field.ariaLabel = t('documents');
    this.#field.addEventListener('input', () => void this.#search());
    this.#ask = action(
      t('search.ask'),
      () => ask({ text: this.#field.value.trim(), files: this.#chosen() }),
      'primary',
    );
    this.#asking = el('div.ask', this.#ask, this.#some);
    this.element.append(this.#field, this.#asking, this.#hits);
    this.#show([]);
  }

  /** Focuses the search field. */
  focus() {
    this.#field.focus();
  }

  /** Enables (`on`) or disables the search field. empty: there are no texts; askable: the model can answer questions.
   * @param {{ empty: boolean, on: boolean, askable: boolean }} now */
  enable({ empty, on, askable }) {
    this.#field.disabled = !on;
    this.#field.placeholder = t(empty ? 'search.empty' : 'search.what');
    this.#askable = askable;
    if (!on) this.#show([]);
  }

  /** Aborts the search in progress. The passages found last stay. */
  stop() {
    this.#asked.abort();
  }

  /** Repeats the search after texts or the model have changed. */
  again() {
    if (!this.#field.disabled && this.#field.value) void this.#search();
  }

  async #search() {
    this.stop();
    const question = this.#field.value.trim();
    if (!question) return this.#show([]);
    const { signal } = (this.#asked = new AbortController());
    try {
      const found = await this.#nearest(question, signal);
      if (!signal.aborted) this.#show(found);
    } catch (error) {
      if (signal.aborted) return;
      this.#show([]);
      this.#hits.replaceChildren(el('li', errorBox(error)));
      this.#hits.hidden = false;
    }
  }

  /** @param {Found[]} found */
  #show(found) {
    this.#found = found;
    this.#hits.hidden = !found.length;
    this.#hits.replaceChildren(...found.map((one, i) => this.#hit(one, i < CHOSEN)));
    this.#count();
    if (found.length) announce(t('search.found', { passages: passages(found), title: found[0].title }));
  }

  /** @param {Found} found @param {boolean} checked */
  #hit(found, checked) {
    const choose = el('input', { type: 'checkbox', checked, onchange: () => this.#count() });
    const name = el('label.check', { dir: 'auto' }, choose, nameOf(found));
    return el(
      'li',
      name,
      el('p', { dir: 'auto' }, found.text),
      el('span.hint', t('search.similarity', { n: number(found.score, 2) })),
    );
  }

  /** @returns {import('../history/tree.js').Attached[]} */
  #chosen() {
    const checked = [...this.#hits.querySelectorAll('input')].map((one) => one.checked);
    return this.#found.filter((_, i) => checked[i]).map((one) => ({ name: nameOf(one), text: one.text }));
  }

  #count() {
    const { length } = this.#chosen();
    this.#asking.hidden = !this.#found.length || !this.#askable;
    this.#ask.disabled = !length;
    this.#some.textContent = t('search.chosen', { n: length, passages: passages(this.#found) });
  }
}
