/**
 * dom: finding and making elements. Text always goes in as text.
 * @module
 */

/**
 * The element with this id, checked to be of the wanted class.
 * @template {Element} T
 * @param {string} id
 * @param {new (...args: any[]) => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`page: no ${type.name} #${id}`);
  return found;
}

/** @param {string} id */
export const button = (id) => byId(id, HTMLButtonElement);
/** @param {string} id */
export const input = (id) => byId(id, HTMLInputElement);
/** @param {string} id */
export const box = (id) => byId(id, HTMLElement);

/**
 * A new element: properties, then children (strings become text).
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [props]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

/** Say something to screen readers: they hear nothing from behind a dialog. @param {string} text */
export function announce(text) {
  (document.querySelector('dialog[open] .said') ?? box('status')).textContent = text;
}

/** Whether a dialog lies over the page: keys are its own then. */
export const underDialog = () => document.querySelector('dialog[open]') !== null;

/**
 * A button that does something and is named by its text.
 * @param {string} text
 * @param {() => void} onclick
 * @param {string} [className]
 */
export function action(text, onclick, className = '') {
  return el('button', { type: 'button', className, onclick }, text);
}

/** Rules of a part that is loaded when it is opened, as the page's policy allows them. @param {string} css */
export function sheetOf(css) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  return sheet;
}

/** On a touch screen the keyboard comes up with the focus of a field, and covers things. */
export const hasTouch = () => matchMedia('(pointer: coarse)').matches;

/** Copy text; says whether it worked. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For pages that are not a secure context, where there is no clipboard object. @param {string} text */
function copyBySelection(text) {
  const area = el('textarea', { value: text, className: 'hidden-text' });
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
