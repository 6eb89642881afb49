/**
 * thoughts: the folded thoughts above an answer. The summary says that the model is thinking, or how long it thought.
 * @module
 */
import { el } from '../shell/dom.js';
import { shortTime } from '../shell/format.js';
import { t } from '../shell/language.js';

export class Thoughts {
  #head = el('summary', t('thinking'));
  #body = el('div', { dir: 'auto' });
  element = el('details.thoughts', this.#head, this.#body);
  text = '';
  /** Duration in milliseconds; 0: unknown. */
  ms = 0;
  #began = performance.now();
  #running = true;

  /** @param {string} piece */
  add(piece) {
    this.text += piece;
    this.#body.append(piece);
  }

  /** Records that the thoughts have ended. */
  end() {
    if (this.#running) this.restore(this.ms + performance.now() - this.#began);
  }

  /** Shows thoughts that ended earlier. @param {number} [ms]   how long they took */
  restore(ms = 0) {
    this.#running = false;
    this.ms = ms;
    this.#head.textContent = ms ? t('thought.for', { time: shortTime(ms) }) : t('thoughts');
  }

  /** Continues thoughts that were cut off. */
  resume() {
    this.#running = true;
    this.#began = performance.now();
    this.#head.textContent = t('thinking');
  }
}
