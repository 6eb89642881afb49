/**
 * errors: describes failures and remedies in the user's language, for each code of ModelError. The details have the
 * package's own message.
 * @module
 */
import { el } from './dom.js';
import { addLater, known, t } from './language.js';

/** @import { Key } from './language.js' */

/** An error of the page itself, with the keys of its texts. */
export class PageError extends Error {
  /** @param {Key} key   what failed @param {Record<string, string | number>} [values]   of the placeholders
   * @param {Key} [advice]   what the user can do */
  constructor(key, values = {}, advice = /** @type {Key} */ (`${key}.do`)) {
    super(key);
    this.texts = { key, values, advice };
  }
}

/** Names of remedies that several errors share, by error code. @type {Record<string, string>} */
const ADVICE = {
  'bad-count': 'damaged',
  'bad-metadata': 'damaged',
  'bad-shape': 'damaged',
  'tensor-range': 'damaged',
  duplicate: 'damaged',
  'bad-tokenizer': 'damaged',
  'not-finite': 'damaged',
  'missing-key': 'not-ours',
  'unsupported-architecture': 'not-ours',
};

/** Returns the code of an error of the package, or '' for other errors. @param {unknown} error @returns {string} */
export function codeOf(error) {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Returns the HTTP status of an `http-error`, or 0 for other errors. @param {any} error */
export function statusOf(error) {
  if (codeOf(error) !== 'http-error') return 0;
  return Number(/\b([45]\d\d)\b/.exec(`${error.got} ${error.message}`)?.[1] ?? 0);
}

/** Returns the page's own error for a failure to save because the storage is full, other errors unchanged.
 * @param {any} error */
export const savingError = (error) => (/^Quota/.test(error?.name) ? new PageError('not-saved') : error);

/** @param {unknown} error */
function nameOf(error) {
  const code = codeOf(error);
  if (code === 'network-error' && !navigator.onLine) return 'offline';
  const status = statusOf(error);
  const name = status >= 500 ? 'http-5xx' : status ? `http-${status}` : code;
  if (known(`error.${name}`)) return name;
  return known(`error.${code}`) ? code : 'unknown';
}

/** Returns what failed and what the user can do, in the user's language. `advice` can be ''.
 * @param {unknown} error @returns {{ title: string, advice: string }} */
export function explain(error) {
  if (error instanceof PageError) {
    const { key, values, advice } = error.texts;
    return { title: t(key, values), advice: t(advice, values) };
  }
  const name = nameOf(error);
  const advice = known(`error.${ADVICE[name] ?? name}.do`) ?? '';
  return { title: known(`error.${name}`) ?? String(error), advice };
}

/** Returns the description of an error as one text. @param {unknown} error */
export function lineOf(error) {
  const { title, advice } = explain(error);
  return `${title} ${advice}`.trim();
}

/** Returns what the command line prints for an error of the package; the cause follows in a second line.
 * @param {unknown} error */
function rawDetails(error) {
  const code = codeOf(error);
  const { message, cause } = Object(error);
  const text = code ? `${message} (${code})` : String(error);
  return cause ? `${text}\ncause: ${cause}` : text;
}

/** Returns a list with an element that shows the package's own message, or an empty list for errors of the page. The
 * element is open at first if the page has no text for the error.
 * @param {unknown} problem   an error, or the message of a notice */
function detailsOf(problem) {
  if (problem instanceof PageError) return [];
  const place = el('details.raw-details', el('summary', t('details')), el('pre', rawDetails(problem)));
  void addLater().then(() => {
    if (problem instanceof Error && nameOf(problem) === 'unknown') place.open = true;
  });
  return [place];
}

/** Returns an element with the page's text about a problem, and the package's own message in its details.
 * @param {string} text @param {unknown} problem   an error, or the message of a notice */
export const withDetails = (text, problem) => el('div', el('span', text), ...detailsOf(problem));

/** Returns an element with the description of an error. Its texts may change once further texts are loaded.
 * @param {unknown} error @param {{ about?: string, buttons?: HTMLButtonElement[] }} [more]   about: what has failed */
export function errorBox(error, { about = '', buttons = [] } = {}) {
  const [title, advice] = [el('strong'), el('p')];
  const fill = () => {
    const words = explain(error);
    [title.textContent, advice.textContent] = [words.title, words.advice];
  };
  const place = el('div.error', { role: 'alert' }, ...(about ? [el('p.about', about)] : []), title, advice);
  fill();
  void addLater().then(fill); // fills in the texts of errors once they are loaded
  place.append(...detailsOf(error), ...buttons);
  return place;
}
