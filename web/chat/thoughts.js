/**
 * thoughts: the folded thoughts above an answer, and how long they took.
 * @module
 */
import { el } from '../shell/dom.js';
import { shortTime } from '../shell/format.js';
import { t } from '../shell/language.js';

/** The element with the thoughts of one answer. */
export class Thoughts {
  #head = el('summary', t('thinking'));
  #body = el('div', { dir: 'auto' });
  element = el('details.thoughts', this.#head, this.#body);
  text = '';
  /** Duration of the thoughts in milliseconds; 0: unknown. */
  ms = 0;
  #began = performance.now();
  #running = true;

  /** Appends text. Does not start or stop the clock. @param {string} piece */
  add(piece) {
    this.text += piece;
    this.#body.append(piece);
  }

  /** Stops the clock and shows the duration. Does nothing if the thoughts have ended. */
  end() {
    if (this.#running) this.restore(this.ms + performance.now() - this.#began);
  }

  /** Shows thoughts that have ended earlier. @param {number} [ms]   their duration; 0: unknown */
  restore(ms = 0) {
    this.#running = false;
    this.ms = ms;
    this.#head.textContent = ms ? t('thought.for', { time: shortTime(ms) }) : t('thoughts');
  }

  /** Starts the clock again, which adds to the earlier duration. */
  resume() {
    this.#running = true;
    this.#began = performance.now();
    this.#head.textContent = t('thinking');
  }
}
