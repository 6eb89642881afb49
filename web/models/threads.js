/**
 * threads: shows when the page runs on one thread, and why.
 * @module
 */
import { probe } from '../../js/index.js';
import { box } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { state } from '../shell/store.js';

const notIsolated = () => t(state.isolatedNext ? 'one-thread.reload' : 'one-thread');

/** Returns why there will be one thread, as far as known before a load; '' if threads are expected. */
export function reasonBeforeLoad() {
  return globalThis.crossOriginIsolated ? '' : notIsolated();
}

/**
 * Returns why a loaded model runs on one thread, or '' if it has more or if one was requested.
 * @param {{ threads: number, isolated: boolean, reason: string }} info
 * @param {number} [asked]
 */
export function reasonForOneThread({ threads, isolated, reason }, asked) {
  if (threads > 1) return '';
  if (!globalThis.crossOriginIsolated) return notIsolated();
  if (isolated && asked === 1) return '';
  return reason === 'there is one core' ? t('one-thread.core') : t('one-thread.why', { reason });
}

/** Shows under the option `threads` how many the browser offers. */
export function showThreadsHint() {
  const { isolated, threads } = probe();
  box('threads-hint').textContent = isolated ? t('threads.offer', { n: threads }) : t('threads.one');
}
