/**
 * threads: says plainly when the page runs on one thread, and why.
 * @module
 */
import { box } from './dom.js';

/**
 * Why there is one thread only, '' if there are more or if one was asked for.
 * @param {number} [used]    of the loaded model; before a load what can be known without one
 * @param {number} [asked]
 */
export function reasonForOneThread(used, asked) {
  if (used !== undefined && used > 1) return '';
  if (!globalThis.crossOriginIsolated) {
    return 'Running on one thread, so slower than it could be: this page is served without the headers '
      + 'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp, '
      + 'and without them browsers allow no shared memory. Whoever hosts the page can add them.';
  }
  if (asked === 1) return '';
  if (navigator.hardwareConcurrency === 1) return 'Running on one thread: this computer shows the browser one processor only.';
  return used === 1 ? 'Running on one thread, so slower than it could be: this browser gives the page no shared memory.' : '';
}

/** @param {HTMLElement} place @param {string} reason */
export function showThreadNotice(place, reason) {
  place.textContent = reason;
  place.hidden = !reason;
  const cores = navigator.hardwareConcurrency;
  box('threads-hint').textContent = globalThis.crossOriginIsolated && cores ? `this computer offers ${cores}` : 'one, for want of shared memory';
}
