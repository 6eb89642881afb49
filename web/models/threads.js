/**
 * threads: says plainly when the page runs on one thread, and why.
 * @module
 */
import { probe } from '../../js/index.js';
import { box } from '../shell/dom.js';
import { state } from '../shell/store.js';

const NOT_ISOLATED =
  'Running on one thread, so slower than it could be: the server of this page ' +
  'does not send the two headers that shared memory needs (Cross-Origin-Opener-Policy and ' +
  'Cross-Origin-Embedder-Policy).';

const NEXT_TIME =
  'Running on one thread, so slower than it could be. From the next time on that you open this page ' +
  'it has all that this device offers.';

const notIsolated = () => (state.isolatedNext ? NEXT_TIME : NOT_ISOLATED);

/** Returns what is known before a model is loaded; '' if threads are to be expected. */
export function reasonBeforeLoad() {
  return globalThis.crossOriginIsolated ? '' : notIsolated();
}

/**
 * Returns why a loaded model runs on one thread, '' if it has more or if one was asked for.
 * @param {{ threads: number, isolated: boolean, reason: string }} info
 * @param {number} [asked]
 */
export function reasonForOneThread({ threads, isolated, reason }, asked) {
  if (threads > 1) return '';
  if (!globalThis.crossOriginIsolated) return notIsolated();
  if (isolated && asked === 1) return '';
  return reason === 'there is one core'
    ? 'Running on one thread: this device shows the browser one processor only.'
    : `Running on one thread, so slower than it could be: ${reason}.`;
}

/** Shows how many threads there can be. */
export function showThreadsHint() {
  const { isolated, threads } = probe();
  box('threads-hint').textContent = isolated ? `this device offers ${threads}` : 'one, for want of shared memory';
}
