/**
 * language: the page's texts, numbers and dates in the user's language. English is a part of the page; every other
 * language is a file that loads when it is needed. If it cannot be loaded, the page stays in English.
 * @module
 */
import english from '../words/en.js';

/** @import { page } from '../words/en.js' */
/** @import later from '../words/en-later.js' */
/** Forms of a text for each plural category of its language. @typedef {Record<string, string>} Plural */
/** @typedef {keyof typeof english | keyof typeof page | keyof typeof later} Key */

export const LANGUAGES = { en: 'English', de: 'Deutsch', es: 'Español', ja: '日本語', ar: 'العربية' };
/** @type {Record<string, () => Promise<{ default: Record<string, string | Plural> }>>} */
const FILES = {
  de: () => import('../words/de.js'),
  es: () => import('../words/es.js'),
  ja: () => import('../words/ja.js'),
  ar: () => import('../words/ar.js'),
};

/** Translated attributes, by the data attribute that has the key of the text. */
export const ATTRIBUTES = { l: 'aria-label', h: 'title', p: 'placeholder', c: 'content' };

/** @type {Record<string, string | Plural>} */
let texts = english;
/** The user's locale of the page's language, such as en-GB. */
export let locale = 'en';
export let language = 'en';
let plurals = new Intl.PluralRules(locale);

/** Returns a text as a list: its strings, and the values of its placeholders. `n` chooses the plural form.
 * @template T @param {Key} key @param {Record<string, T>} values @returns {(string | Exclude<T, number>)[]} */
export function parts(key, values) {
  const found = texts[key] ?? '';
  const text = typeof found === 'string' ? found : (found[plurals.select(Number(values.n))] ?? found.other);
  return text
    .replace(/^\{n\} /, '{n}\u00a0')
    .split(/\{(\w+)\}/)
    .map((part, i) => (i % 2 ? written(values[part]) : part))
    .filter((part) => part !== '');
}

/** @template T @param {T} value @returns {string | Exclude<T, number>} */
const written = (value) => (typeof value === 'number' ? number(value) : /** @type {Exclude<T, number>} */ (value));

/** Returns a text in the user's language; '' while the texts of addLater() are missing.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]   of the placeholders; `n` chooses the plural form */
export const t = (key, values = {}) => parts(key, values).join('');

/** Returns the text of a computed key, such as `error.` followed by a code; undefined if there is none.
 * @param {string} key */
export const known = (key) => (key in texts ? t(/** @type {Key} */ (key)) : undefined);

/** Returns a number as text.
 * @param {number} n @param {number} [digits]   exact number of digits after the decimal point
 * @param {Intl.NumberFormatOptions} [how] */
export const number = (n, digits = 0, how) =>
  n.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits, ...how });

/** Returns items as one text, such as “a, b, c”. @param {string[]} items */
export const list = (items) => new Intl.ListFormat(locale, { type: 'unit' }).format(items);

/** @type {Promise<void> | undefined} */
let adding;

/** Adds the English texts that are not needed for the first answer; other languages have all texts in one file. Never
 * rejects: without a network the next call tries again. */
export function addLater() {
  const add = async () => {
    if (language === 'en') texts = { ...texts, ...(await import('../words/en-later.js')).default };
  };
  return (adding ??= add().catch(() => {
    adding = undefined;
  }));
}

/** Chooses the first of the user's locales for which the page has texts, and translates the document.
 * @param {readonly string[]} wanted   the user's, best first */
export async function speak(wanted) {
  const languageOf = (/** @type {string} */ one) => one.split('-')[0];
  const chosen = wanted.find((one) => languageOf(one) in LANGUAGES) ?? 'en';
  const code = languageOf(chosen);
  const file = await FILES[code]?.().catch(() => null);
  if (code !== 'en' && !file) return;
  [locale, language] = [chosen, code];
  plurals = new Intl.PluralRules(locale);
  if (!file) return;
  texts = file.default;
  Object.assign(document.documentElement, { lang: code, dir: code === 'ar' ? 'rtl' : 'ltr' });
  for (const one of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-t]'))) {
    one.replaceChildren(...parts(/** @type {Key} */ (`page.${one.dataset.t}`), { link: one.querySelector('a') ?? '' }));
  }
  for (const [data, name] of Object.entries(ATTRIBUTES)) {
    for (const one of document.querySelectorAll(`[data-${data}]`)) {
      one.setAttribute(name, t(/** @type {Key} */ (`page.${one.getAttribute(`data-${data}`)}`)));
    }
  }
}
