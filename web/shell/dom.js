/**
 * dom: finds and creates elements.
 * @module
 */
import { t } from './language.js';

/** Returns the element with this id. Throws if it is not of the class `type`. @template {Element} T @param {string} id
 * @param {new (...args: any[]) => T} type @returns {T} */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`page: no ${type.name} #${id}`);
  return found;
}

/** Returns the button with this id. Throws if there is none. @param {string} id */
export const button = (id) => byId(id, HTMLButtonElement);
/** Returns the input field with this id. Throws if there is none. @param {string} id */
export const input = (id) => byId(id, HTMLInputElement);
/** Returns the element with this id. Throws if there is none. @param {string} id */
export const box = (id) => byId(id, HTMLElement);

/**
 * Creates an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K | `${K}.${string}`} kind   the tag, and its classes after dots
 * @param {...(Record<string, unknown> | Node | string)} rest   properties, if any, and children; strings become text
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(kind, ...rest) {
  const [tag, ...classes] = kind.split('.');
  const node = document.createElement(/** @type {K} */ (tag));
  if (classes.length) node.className = classes.join(' ');
  const [first] = rest;
  if (typeof first === 'object' && !(first instanceof Node)) Object.assign(node, rest.shift());
  node.append(.../** @type {(Node | string)[]} */ (rest));
  return node;
}

/** Calls a function when the browser is idle; Safari has no idle callbacks. @type {(f: () => void) => void} */
export const whenIdle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 30));

/** Announces a text to screen readers, which do not read announcements outside an open dialog. @param {string} text */
export function announce(text) {
  (document.querySelector('dialog[open] .said') ?? box('status')).textContent = text;
}

/** Returns whether a dialog is open, which then receives the keys. */
export const underDialog = () => document.querySelector('dialog[open]') !== null;

/** Returns a button that does not submit a form.
 * @param {string} text @param {() => void} onclick @param {string} [className]
 * @param {string | null} [ariaLabel]   if the text does not describe the button */
export function action(text, onclick, className = '', ariaLabel = null) {
  return el('button', { type: 'button', className, onclick, ariaLabel }, text);
}

/** Calls a function at each click on the element with this id. @param {string} id @param {() => void} act */
export const onClick = (id, act) => box(id).addEventListener('click', () => act());

/** Calls a function when Escape is pressed inside an element, except in an input method. Stops the event.
 * @param {HTMLElement} place @param {() => void} act */
export function onEscape(place, act) {
  place.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing) return;
    event.stopPropagation();
    act();
  });
}

/** Handles the submission of a form without navigation. @param {string} id @param {() => void} act */
export function onSubmit(id, act) {
  box(id).addEventListener('submit', (event) => {
    event.preventDefault();
    act();
  });
}

/** Returns the chosen files, and empties the field, so that the same file can be chosen again.
 * @param {HTMLInputElement} field */
export function takeFiles(field) {
  const files = [...(field.files ?? [])];
  field.value = '';
  return files;
}

/** Returns a style sheet; the page's content security policy forbids inline styles. @param {string} css */
export function sheetOf(css) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  return sheet;
}

/** Returns whether a touch keyboard opens when a field gets the focus. */
export const hasTouch = () => matchMedia('(pointer: coarse)').matches;

/** Copies a text to the clipboard. The button shows the outcome for 1.5 s. Never rejects.
 * @param {HTMLElement} button @param {string} text */
export async function copy(button, text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);
  }
  const said = t(done ? 'copied' : 'copy.failed');
  button.textContent = said;
  announce(said);
  setTimeout(() => {
    button.textContent = t('copy');
  }, 1500);
}

/** Copies a text without `navigator.clipboard`, which insecure contexts do not have. @param {string} text */
function copyBySelection(text) {
  const area = el('textarea.hidden-text', { value: text });
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
