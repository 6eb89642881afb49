/**
 * format: formats numbers, sizes and times in the user's language.
 * @module
 */
import { language, number, t } from './language.js';

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Returns a number of bytes as text, such as “806 MB” or “1.07 GB”. @param {number} n */
export function bytes(n) {
  let unit = 0;
  while (n >= 999.5 && unit < UNITS.length - 1) {
    n /= 1000;
    unit++;
  }
  const digits = unit === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
  const text = `${number(n, digits)}\u00a0${UNITS[unit]}`;
  return language === 'ar' ? `\u2066${text}\u2069` : text; // keeps the unit to the right of the number in Arabic text
}

/** Returns a duration as text, such as “5 s”, “1 min 20 s” or “2 h 5 min”. @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return t('time.s', { n: s });
  if (s < 600 && s % 60) return t('time.min-s', { min: Math.floor(s / 60), s: s % 60 });
  const min = Math.round(s / 60);
  return min < 60 ? t('time.min', { n: min }) : t('time.h-min', { h: Math.floor(min / 60), min: min % 60 });
}

/** Returns a short duration as text, such as “40 ms” or “1.4 s”. @param {number} ms */
export function shortTime(ms) {
  if (ms < 950) return t('time.ms', { n: Math.round(ms) });
  return ms < 9950 ? t('time.s', { n: number(ms / 1000, 1) }) : duration(ms / 1000);
}

/** Returns a speed in tokens per second as text. @param {number} n */
export const rate = (n) => t('rate', { n: number(n, n >= 99.95 ? 0 : 1) });

/** Returns a share as a percentage.
 * @param {number} share   from 0 to 1 @param {number} [digits]   at most, after the decimal point */
export const percent = (share, digits = 0) => number(share, 0, { style: 'percent', maximumFractionDigits: digits });

/** Returns a number of parameters as text, such as “1.0 billion parameters” or “268 million parameters”.
 * @param {number} n */
export function parameters(n) {
  const digits = n >= 0.95e9 ? 1 : 0;
  return t('parameters', { all: number(n, digits, { notation: 'compact', compactDisplay: 'long' }) });
}

const TITLE = 60;

/** Returns a title for a message: its text in one line, cut after TITLE characters, if possible between words.
 * @param {string} text */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, ' ');
  if (line.length <= TITLE) return line || t('empty-message');
  const space = line.lastIndexOf(' ', TITLE - 1);
  const cut = line.slice(0, space > TITLE / 2 ? space : TITLE);
  return `${cut.replace(/[\ud800-\udbff]$/, '')}…`; // drops half of a surrogate pair
}
