/**
 * thoughts: the folded thoughts above an answer, and how long they took.
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
  /** Duration of the thoughts in milliseconds; 0: unknown. */
  ms = 0;
  #began = performance.now();
  #running = true;

  /** @param {string} piece */
  add(piece) {
    this.text += piece;
    this.#body.append(piece);
  }

  end() {
    if (this.#running) this.restore(this.ms + performance.now() - this.#began);
  }

  /** @param {number} [ms]   their duration */
  restore(ms = 0) {
    this.#running = false;
    this.ms = ms;
    this.#head.textContent = ms ? t('thought.for', { time: shortTime(ms) }) : t('thoughts');
  }

  resume() {
    this.#running = true;
    this.#began = performance.now();
    this.#head.textContent = t('thinking');
  }
}
