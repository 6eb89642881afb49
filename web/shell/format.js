/**
 * format: numbers for people.
 * @module
 */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** 806 MB, 1.07 GB. @param {number} n */
export function bytes(n) {
  let unit = 0;
  while (n >= 999.5 && unit < UNITS.length - 1) {
    n /= 1000;
    unit++;
  }
  const digits = unit === 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
  return `${n.toFixed(digits)}\u00a0${UNITS[unit]}`;
}

/** 1,024. @param {number} n */
export function count(n) {
  return Math.round(n).toLocaleString('en');
}

/** 5 s, 1 min 20 s, 2 h 5 min. @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}\u00a0s`;
  if (s < 600 && s % 60) return `${Math.floor(s / 60)}\u00a0min ${s % 60}\u00a0s`;
  if (s < 3600) return `${Math.round(s / 60)}\u00a0min`;
  return `${Math.floor(s / 3600)}\u00a0h ${Math.round((s % 3600) / 60)}\u00a0min`;
}

/** 40 ms, 1.4 s. @param {number} ms */
export function shortTime(ms) {
  if (ms < 950) return `${Math.round(ms)}\u00a0ms`;
  return ms < 9950 ? `${(ms / 1000).toFixed(1)}\u00a0s` : duration(ms / 1000);
}

/** @param {number} n */
export function rate(n) {
  return `${n >= 99.95 ? Math.round(n) : n.toFixed(1)}\u00a0tokens/s`;
}

/** @param {number} n @param {string} one */
export function plural(n, one) {
  return `${count(n)}\u00a0${one}${n === 1 ? '' : 's'}`;
}

/** 1.0 billion, 268 million. @param {number} n */
export function parameters(n) {
  if (n >= 0.95e9) return `${(n / 1e9).toFixed(1)}\u00a0billion`;
  if (n >= 1e6) return `${Math.round(n / 1e6)}\u00a0million`;
  return count(n);
}

/** Characters of a title. */
const TITLE = 60;

/** Returns the beginning of a text as a title. @param {string} text */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, ' ');
  if (line.length <= TITLE) return line || 'Empty message';
  const cut = line.slice(0, TITLE);
  return `${cut.slice(0, cut.lastIndexOf(' ') > TITLE / 2 ? cut.lastIndexOf(' ') : TITLE)}…`;
}
