/**
 * loading: the progress of one load: bytes, rate, time left.
 * @module
 */
import { announce, box, button, byId, el } from '../shell/dom.js';
import { bytes, duration, percent } from '../shell/format.js';
import { list, t } from '../shell/language.js';
import { noticeWithDetails, sentence } from '../shell/notices.js';

/** @typedef {{ phase: string, loaded: number, total?: number, bytesPerSecond?: number, fromCache?: number,
 *   notice?: import('../shell/notices.js').Notice }} Progress */

/** @param {string} phase */
function title(phase) {
  return t(phase === 'check' ? 'loading.check' : phase === 'fetch' ? 'loading.fetch' : 'loading.load');
}

/** No rate is shown before WARM_UP_MS, and no remaining time above LONGEST seconds. */
const WARM_UP_MS = 1000;
const LONGEST = 24 * 3600;

/** The card with the progress of the load in progress. A new view resets it. */
export class LoadingView {
  #begun = performance.now();
  #tenth = 0;
  /** Number of bytes that had arrived when the last request failed. */
  #troubleAt = Infinity;
  /** Message of the notice that is shown. */
  #message = '';
  /** Size in bytes to assume if the server does not report one. */
  #expected;

  /** @param {string} label @param {number} [expected]   bytes */
  constructor(label, expected) {
    this.#expected = expected;
    box('loading-title').textContent = title('');
    box('loading-what').textContent = label;
    byId('loading-bar', HTMLProgressElement).removeAttribute('value');
    for (const id of ['bytes', 'rate', 'left', 'needs', 'notice']) box(`loading-${id}`).textContent = '';
    box('loading-notice').hidden = true;
    announce(t('loading.name', { name: label }));
  }

  /** Shows that the load is paused, with a button that resumes it. */
  paused() {
    box('loading-title').textContent = t('paused');
    for (const id of ['rate', 'left']) box(`loading-${id}`).textContent = '';
    button('loading-pause').textContent = t('resume');
    announce(t('paused'));
  }

  /** Shows the button that pauses the load. */
  going() {
    button('loading-pause').textContent = t('pause');
  }

  /** Shows that the header of the model is being read. */
  checking() {
    box('loading-title').textContent = title('check');
  }

  /** Shows what the model needs, such as memory, and announces it. @param {string[]} facts */
  needs(facts) {
    box('loading-needs').textContent = facts.join(' · ');
    announce(list(facts));
  }

  /** Shows a notice. Hides the notice of a failed request once more bytes have arrived. @param {number} loaded
   * @param {Progress['notice']} notice */
  #tell(loaded, notice) {
    const place = box('loading-notice');
    if (notice) {
      this.#troubleAt = notice.code === 'retry' ? loaded : Infinity;
      const isNew = notice.message !== this.#message;
      if (isNew || place.hidden) announce(sentence(notice));
      if (isNew) place.replaceChildren(noticeWithDetails(notice));
      this.#message = notice.message;
    }
    place.hidden = !place.textContent || loaded > this.#troubleAt;
  }

  /** Shows the progress. Announces every tenth of it. @param {Progress} progress */
  update({ phase, loaded, total, bytesPerSecond, fromCache = 0, notice }) {
    this.#tell(loaded, notice);
    const all = total || this.#expected || 0;
    box('loading-title').textContent = title(phase);
    const progress = all ? t('of', { some: bytes(loaded), all: bytes(all) }) : bytes(loaded);
    const here = phase === 'fetch' && fromCache;
    box('loading-bytes').textContent = here ? t('loading.here', { progress, here: bytes(fromCache) }) : progress;
    // While a request is retried, the last rate does not predict the next bytes.
    const stalls = this.#troubleAt < Infinity && loaded <= this.#troubleAt;
    const flows = !stalls && performance.now() - this.#begun > WARM_UP_MS;
    const known = flows && bytesPerSecond;
    box('loading-rate').textContent = known ? `${bytes(bytesPerSecond)}/s` : '';
    const left = known && all ? (all - loaded) / bytesPerSecond : 0;
    box('loading-left').textContent = left >= 1 && left < LONGEST ? t('loading.left', { time: duration(left) }) : '';
    if (all) this.#showShare(Math.min(1, loaded / all));
  }

  /** @param {number} share */
  #showShare(share) {
    byId('loading-bar', HTMLProgressElement).value = share;
    const tenth = Math.floor(share * 10);
    if (tenth > this.#tenth && tenth < 10) announce(percent(tenth / 10));
    this.#tenth = tenth;
  }
}

/** The notice about the rest of a model, which is downloaded while the model is in use. */
export class RestView {
  element = el('div');
  #stopped = false;

  /** Changes the notice. Ignores all progress after the download has stopped. @param {Progress} progress */
  update({ loaded, total = 0, notice }) {
    if (this.#stopped) return; // parallel requests may still report progress
    this.#stopped = /^(rows-stopped|not-cached)$/.test(notice?.code ?? '');
    if (notice && !this.#stopped) return;
    const done = loaded >= total;
    const share = done ? t('rest.done') : t('rest.share', { share: percent(loaded / total) });
    this.element.replaceChildren(notice ? noticeWithDetails(notice) : share);
    if (notice || done) announce(notice ? sentence(notice) : share);
  }
}
