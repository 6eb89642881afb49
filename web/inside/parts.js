/**
 * parts: elements that the views of the inspection panel share: a text as tokens to choose from, bars, pictures.
 * @module
 */
import { el } from '../shell/dom.js';
import { percent, shown, spoken } from './numbers.js';

/** @import { Token } from './numbers.js' */

/** Maximum number of tokens shown. The last ones of a longer text are shown. */
const MOST_SHOWN = 600;

/** Returns the index that a key selects, from index `at` in a row of `count` elements. Left and right follow the text
 * direction of the element that handles the event.
 * @param {KeyboardEvent} event @param {number} at @param {number} count */
export function stepped({ key, currentTarget }, at, count) {
  const right = getComputedStyle(/** @type {Element} */ (currentTarget)).direction === 'rtl' ? -1 : 1;
  /** @type {Record<string, number>} */
  const to = {
    ArrowRight: at + right,
    ArrowLeft: at - right,
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: count - 1,
  };
  return key in to ? Math.min(count - 1, Math.max(0, to[key])) : at;
}

/** A text as tokens, one of which can be chosen by click or arrow keys. */
export class Strip {
  element = el('div.strip', { role: 'listbox', dir: 'auto' });
  /** @type {HTMLElement[]} */ #options;
  /** Index of the first token that is shown. */ first;
  #tokens;
  #at = -1;
  #on;

  /** @param {string} label @param {Token[]} tokens @param {(at: number) => void} on   called with the chosen index
   * @param {number} [from]   the first one that is shown */
  constructor(label, tokens, on, from = 0) {
    this.#tokens = tokens;
    this.first = Math.max(from, tokens.length - MOST_SHOWN);
    this.#on = on;
    this.element.ariaLabel = label;
    this.#options = tokens.slice(this.first).map(({ id, text }, i) => {
      const at = this.first + i;
      const option = el('span', { role: 'option', tabIndex: -1, onclick: () => this.choose(at, true) }, flowing(text));
      Object.assign(option.dataset, { at, id });
      option.ariaSelected = 'false';
      return option;
    });
    this.element.append(...this.#options);
    if (this.#options.length) this.#options[this.#options.length - 1].tabIndex = 0;
    this.element.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const before = this.#at < 0 ? this.#options.length - 1 : this.#at - this.first;
    const next = stepped(event, before, this.#options.length);
    if (!/^(Arrow|Home|End)/.test(event.key)) return;
    event.preventDefault();
    this.choose(this.first + next, true);
  }

  /** Selects a token and scrolls to it. Ignores tokens that are not shown.
   * @param {number} at @param {boolean} [asked]   the user chose it, so it gets the focus, and `on` is called */
  choose(at, asked = false) {
    const option = this.#options[at - this.first];
    if (!option) return;
    for (const one of this.#options) {
      one.ariaSelected = String(one === option);
      one.tabIndex = one === option ? 0 : -1;
    }
    this.#at = at;
    const { clientHeight } = this.element;
    const below = option.offsetTop - this.element.offsetTop;
    if (below < this.element.scrollTop || below > this.element.scrollTop + clientHeight - 40) {
      this.element.scrollTop = below - clientHeight / 2;
    }
    if (!asked) return;
    option.focus();
    this.#on(at);
  }

  /** Changes how a token looks and what screen readers say after its text. Ignores tokens that are not shown.
   * @param {number} at
   * @param {{ name: string, className?: string, data?: Record<string, unknown>, shade?: number }} how   shade: from 0
   * to 1, unchanged by default */
  mark(at, { name, className = '', data = {}, shade }) {
    const option = this.#options[at - this.first];
    if (!option) return;
    option.className = className;
    Object.assign(option.dataset, data);
    option.ariaLabel = `${spoken(this.#tokens[at].text)}, ${name}`;
    if (shade !== undefined) option.style.setProperty('--shade', strength(shade));
  }
}

/** @param {string} text */
const flowing = (text) => text.replace(/\n/g, '⏎\n');

/** Returns the strength of a colour for a share. The square root keeps small shares visible. @param {number} share */
export const strength = (share) => `${(100 * Math.sqrt(Math.min(1, Math.max(0, share)))).toFixed(1)}%`;

/** A bar of a chart. value: text shown in place of the share.
 * @typedef {{ id: number, text: string, share: number, value?: string, note?: string, chosen?: boolean,
 *   button?: HTMLElement }} Bar */

/** Returns a bar chart as a list. The longest bar fills the width. @param {string} label @param {Bar[]} rows */
export function bars(label, rows) {
  const most = Math.max(1e-9, ...rows.map(({ share }) => share));
  const list = el(
    'ol.bars',
    ...rows.map((row) => {
      const bar = el('span.bar-line', { ariaHidden: 'true' });
      bar.style.setProperty('--share', `${((100 * row.share) / most).toFixed(1)}%`);
      const name = el('span.piece', { dir: 'auto' }, shown(row.text));
      const item = el(
        'li',
        { className: row.chosen ? 'chosen' : '' },
        name,
        bar,
        el('span.share', row.value ?? percent(row.share)),
      );
      if (row.note) item.append(el('span.hint', row.note));
      if (row.button) item.append(row.button);
      Object.assign(item.dataset, { id: row.id, p: row.share });
      return item;
    }),
  );
  list.ariaLabel = label;
  return list;
}

/** Returns a label with a select field. `on` gets values as strings.
 * @param {string} label @param {[value: string | number, text: string][]} options @param {string | number} chosen
 * @param {(value: string) => void} on */
export function select(label, options, chosen, on) {
  const field = el(
    'select',
    { onchange: () => on(field.value) },
    ...options.map(([value, text]) => el('option', { value: String(value) }, text)),
  );
  field.value = String(chosen);
  return el('label.pick', label, field);
}

/** Returns a paragraph in the style of hints. @param {...(Node | string)} parts */
export const hint = (...parts) => el('p.hint', ...parts);
/** Returns a list item with a token and its id. @param {Token} token */
export function piece({ id, text }) {
  const item = el('li', el('span.piece', { dir: 'auto' }, shown(text)), el('span.id', `${id}`));
  item.dataset.id = String(id);
  return item;
}

/** Returns an inline element with the text of a token. @param {string} text */
export const quoted = (text) => el('code.piece', { dir: 'auto' }, shown(text));

/** Creates an SVG element.
 * @param {string} tag @param {Record<string, string | number>} attributes
 * @param {...Node} children @returns {SVGElement} */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return /** @type {SVGElement} */ (node);
}

/** Returns an SVG picture, which screen readers describe by `words`.
 * @param {number} width @param {number} height @param {string} words
 * @param {...Node} children */
export function picture(width, height, words, ...children) {
  const whole = { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words, class: 'picture' };
  return svg('svg', whole, ...children);
}
