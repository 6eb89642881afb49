/**
 * transcript: the conversation as elements: what the user said (text, never HTML) and answers.
 * @module
 */
import { action, announce, copy, el } from './dom.js';
import { errorBox } from './errors.js';
import { MarkdownView } from './markdown.js';

/** Longer answers are announced by their beginning only. */
const ANNOUNCED = 600;

/** One answer: waiting, streaming, then finished with its numbers, or failed. */
export class Answer {
  element = el('article', { className: 'from-model', ariaLabel: 'Answer' });
  /** @type {MarkdownView | null} */ #view = null;
  #stats = el('span', { className: 'stats' });
  /** @type {() => void} */ #changed;

  /** @param {() => void} changed   called when the element has changed its size */
  constructor(changed) {
    this.#changed = changed;
    this.waiting('Reading…');
  }

  get text() {
    return this.#view?.text ?? '';
  }

  /** Nothing to show yet but what is going on. @param {string} what */
  waiting(what) {
    this.#view = null;
    this.element.replaceChildren(el('p', { className: 'waiting' }, what));
    this.#changed();
  }

  /** @param {string} piece */
  add(piece) {
    this.#open().add(piece);
  }

  #open() {
    if (this.#view) return this.#view;
    const body = el('div');
    this.#view = new MarkdownView(body, this.#changed);
    this.element.replaceChildren(body, el('div', { className: 'answer-foot' }, this.#stats));
    return this.#view;
  }

  /** @param {string} text */
  stats(text) {
    this.#stats.textContent = text;
  }

  /**
   * @param {string} stats
   * @param {() => void} retry
   */
  finish(stats, retry) {
    this.#open().finish();
    this.#foot(stats, retry);
    const short = this.text.length > ANNOUNCED ? `${this.text.slice(0, ANNOUNCED)} …` : this.text;
    announce(`Answer: ${short}`);
  }

  /** @param {unknown} error @param {() => void} retry */
  fail(error, retry) {
    if (this.#view) this.#view.finish();
    else this.element.replaceChildren();
    this.element.querySelector('.answer-foot')?.remove();
    this.element.append(errorBox(error, action('Try again', retry)));
    this.#changed();
  }

  /** @param {string} stats @param {() => void} retry */
  #foot(stats, retry) {
    const copyButton = action('Copy', () => this.#copy(copyButton), 'quiet small');
    const retryButton = action('Retry', retry, 'quiet small retry');
    this.stats(stats);
    this.element.querySelector('.answer-foot')?.replaceChildren(copyButton, retryButton, this.#stats);
    this.#changed();
  }

  /** @param {HTMLButtonElement} button */
  async #copy(button) {
    button.textContent = (await copy(this.text)) ? 'Copied' : 'Could not copy';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  }
}

export class Transcript {
  /** @type {HTMLElement} */ #log;
  /** @type {import('./follow.js').Follow} */ #follow;

  /** @param {HTMLElement} log @param {import('./follow.js').Follow} follow */
  constructor(log, follow) {
    this.#log = log;
    this.#follow = follow;
    log.addEventListener('click', (event) => copyCode(event.target));
  }

  /** @param {string} title @param {string} line */
  clear(title, line) {
    this.#log.replaceChildren(el('p', { className: 'empty' }, el('strong', {}, title), line));
    this.#follow.toEnd();
  }

  /** @param {string} text */
  addUser(text) {
    this.#log.querySelector('.empty')?.remove();
    this.#log.append(el('div', { className: 'from-user', dir: 'auto', ariaLabel: 'You', role: 'article' }, text));
    this.#follow.toEnd();
  }

  /** A new answer at the end; only the last one can be retried. */
  addAnswer() {
    for (const old of this.#log.querySelectorAll('.retry, .error button')) old.remove();
    const answer = new Answer(() => this.#follow.update());
    this.#log.append(answer.element);
    this.#follow.toEnd();
    return answer;
  }
}

/** @param {EventTarget | null} target */
async function copyCode(target) {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains('copy-code')) return;
  const code = target.closest('.code')?.querySelector('pre')?.textContent ?? '';
  target.textContent = (await copy(code)) ? 'Copied' : 'Could not copy';
  setTimeout(() => { target.textContent = 'Copy'; }, 1500);
}
