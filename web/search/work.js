/**
 * work: runs the long tasks of the search one after the other, and shows progress, errors and a button that cancels
 * all.
 * @module
 */
import { action, announce, el } from '../shell/dom.js';
import { codeOf, errorBox } from '../shell/errors.js';
import { t } from '../shell/language.js';

/** Codes of errors that are not shown: the page reports a lost model elsewhere, and the user knows what was
 * cancelled. */
const QUIET = ['disposed', 'aborted'];

/** The queue of tasks, and the element with their progress. */
export class Work {
  #note = el('p.note', { role: 'status' });
  #bar = el('progress', { ariaLabel: t('search.progress') });
  #stop = action(t('cancel'), () => this.#cancel(), 'small');
  #progress = el('div.work', { hidden: true }, this.#bar, this.#stop);
  #wrong = el('div');
  #ended;
  #pending = 0;
  #abort = new AbortController();
  /** Resolves when all tasks have ended. @type {Promise<unknown>} */
  last = Promise.resolve();
  element = el('div', this.#note, this.#progress, this.#wrong);

  /** @param {(cancelled: boolean) => void} ended   called when no task is left */
  constructor(ended) {
    this.#ended = ended;
  }

  /** Whether no task runs or waits. */
  get idle() {
    return this.#pending === 0;
  }

  /** Adds a task. Resolves when the task has ended. Its error is shown, not passed on.
   * @param {(signal: AbortSignal) => Promise<unknown>} f */
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
    announce(t('cancelled'));
  }

  /** Shows a text without a progress bar, '' to remove it. @param {string} text */
  say(text) {
    this.#note.textContent = text;
  }

  /** Shows a text and a progress bar until no task is left.
   * @param {string} text @param {number} done @param {number} [total]   0: unknown */
  show(text, done, total = 0) {
    this.say(text);
    this.#progress.hidden = false;
    if (total) Object.assign(this.#bar, { max: total, value: done });
    else this.#bar.removeAttribute('value');
  }
}
