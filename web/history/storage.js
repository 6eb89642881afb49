/**
 * storage: small choices (theme, sampling settings) in localStorage, which never holds keys, prompts or answers; and in
 * sessionStorage the unsaved messages and draft of an unloaded page, until the archive has them. If storage is
 * forbidden, the page works without it.
 * @module
 */

const PREFIX = 'gemma-wasm.';

/** Returns a choice of an earlier visit, `fallback` if there is none or storage is forbidden. Does not check its type.
 * @template T @param {string} key @param {T} fallback @returns {T} */
export function recall(key, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

/** Stores a choice for later visits, if storage is allowed.
 * @param {string} key @param {unknown} value   anything that JSON can hold */
export function remember(key, value) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // In a private window or with a full disk, the choice lasts as long as the page.
  }
}

/** Calls a function when another tab has changed a choice. @param {string} key @param {() => void} f */
export const onChoice = (key, f) => addEventListener('storage', (event) => event.key === PREFIX + key && f());

/** Returns whether the user has turned off saving conversations. */
export const keepsNothing = () => recall('keep', /** @type {boolean} */ (true)) === false;

/** The messages and the draft when the page unloads. IndexedDB may not finish then, but sessionStorage does.
 * @typedef {{ id?: string, draft?: import('../shell/store.js').Draft, head?: import('./archive.js').Head,
 *   body?: import('./tree.js').Kept, news?: import('./tree.js').News }} Left */
const LEFT = `${PREFIX}left`;

/** Stores unsaved messages and drafts until the next visit in this tab; null removes them. @param {Left | null} left */
export function leaveBehind(left) {
  try {
    if (left) sessionStorage.setItem(LEFT, JSON.stringify(left));
    else sessionStorage.removeItem(LEFT);
  } catch {
    // Storage is forbidden or full. At most the last second of an answer is lost.
  }
}

/** Returns what the last visit in this tab could not save, or null if there is nothing. @returns {Left | null} */
export function leftBehind() {
  try {
    return JSON.parse(sessionStorage.getItem(LEFT) ?? 'null');
  } catch {
    return null;
  }
}
