/**
 * work: long work of the search, one after the other: how far it is, what went wrong, and a button that ends all
 * of it.
 * @module
 */
import { action, announce, el } from '../shell/dom.js';
import { codeOf, errorBox } from '../shell/errors.js';

/** Of a model that is gone the page tells; of what was cancelled the person knows. */
const QUIET = ['disposed', 'aborted'];

export class Work {
  #note = el('p', { className: 'note', role: 'status' });
  #bar = el('progress', { ariaLabel: 'Progress' });
  #stop = action('Cancel', () => this.#cancel(), 'small');
  #progress = el('div', { className: 'work', hidden: true }, this.#bar, this.#stop);
  #wrong = el('div');
  #ended;
  #pending = 0;
  #abort = new AbortController();
  /** When all that was begun is over. @type {Promise<unknown>} */
  last = Promise.resolve();
  element = el('div', {}, this.#note, this.#progress, this.#wrong);

  /** @param {(cancelled: boolean) => void} ended   nothing is left to do */
  constructor(ended) {
    this.#ended = ended;
  }

  get idle() {
    return this.#pending === 0;
  }

  /** After what is being done. @param {(signal: AbortSignal) => Promise<unknown>} f */
  do(f) {
    const { signal } = this.#abort;
    if (this.idle) this.#wrong.replaceChildren();
    this.#pending++;
    this.last = this.last.then(async () => {
      try {
        if (!signal.aborted) await f(signal);
      } catch (error) {
        if (!signal.aborted && !QUIET.includes(codeOf(error))) this.#wrong.append(errorBox(error));
      }
      if (--this.#pending === 0) this.#end(signal.aborted);
    });
    return this.last;
  }

  /** @param {boolean} cancelled */
  #end(cancelled) {
    this.#progress.hidden = true;
    this.say('');
    this.#ended(cancelled);
  }

  #cancel() {
    this.#abort.abort();
    this.#abort = new AbortController();
    announce('Cancelled');
  }

  /** @param {string} text */
  say(text) {
    this.#note.textContent = text;
  }

  /** How far something is. @param {string} text @param {number} done @param {number} [total]   0: nobody knows */
  show(text, done, total = 0) {
    this.say(text);
    this.#progress.hidden = false;
    if (total) Object.assign(this.#bar, { max: total, value: done });
    else this.#bar.removeAttribute('value');
  }
}
