/* rules: the rules that hold whatever the lab breaks. */
import { CODES } from '../../js/errors.js';

/** Each case names the rules that it checks (cases.js). */
export const RULES = {
  time: 'each call ends in time',
  coded: 'it gives the right model or answer, or an error with a code',
  copy: 'a complete copy is never lost',
  next: 'the next load or call without a fault is right',
  memory: 'memory stays within its bound',
};

/** Returns whether an error has a code of the package; a worker that failed on its own does not count.
 * @param {any} error */
export const isCoded = (error) => Object.hasOwn(CODES, error?.code) && error.code !== 'worker-failed';

/** Returns the work's result, or 'late'. @template T @param {Promise<T>} work @param {number} ms
 * @returns {Promise<T | 'late'>} */
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

/** Returns whether a load came from a complete copy: only its version was requested.
 * @param {{ kept?: string }} load @param {number} sent bytes of the server @param {number} [most] */
export const isWhole = ({ kept }, sent, most = 2) => kept === 'cached' && sent <= most;
