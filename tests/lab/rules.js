/* rules: conditions that must hold despite any injected fault. */
import { CODES } from '../../js/errors.js';

/** The rules by name. Each case in cases.js lists the names that apply. */
export const RULES = {
  time: 'each call ends in time',
  coded: 'it gives the right model or answer, or an error with a code',
  copy: 'a complete copy is never lost',
  next: 'the next load or call without a fault is right',
  memory: 'memory stays within its bound',
};

/** Returns whether an error has one of the package's codes, except `worker-failed`.
 * @param {any} error */
export const isCoded = (error) => Object.hasOwn(CODES, error?.code) && error.code !== 'worker-failed';

/** Returns the result of `work`, or 'late' after `ms` milliseconds.
 * @template T @param {Promise<T>} work @param {number} ms @returns {Promise<T | 'late'>} */
export async function inTime(work, ms) {
  /** @type {any} */
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, 'late');
  });
  try {
    return await Promise.race([late, work]);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns whether a load used a complete cached file, and only asked the server whether it has changed.
 * @param {{ kept?: string }} load @param {number} sent bytes that the server sent
 * @param {number} [most] limit on `sent` */
export const isWhole = ({ kept }, sent, most = 2) => kept === 'cached' && sent <= most;
