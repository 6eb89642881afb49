/**
 * transcript: the conversation as elements: what the user said (text, never HTML) and answers.
 * @module
 */
import { action, announce, copy, el } from './dom.js';
import { errorBox } from './errors.js';
import { MarkdownView } from './markdown.js';

/** Longer answers are announced by their beginning only. */
const ANNOUNCED = 600;

/**
 * Numbers under an answer; kept: the model remembers it.
 * @typedef {{ stats: string, hint: string, kept: boolean }} End
 */

/** One answer: waiting, streaming, then finished with its numbers, or failed. */
export class Answer {
  element = el('article', { className: 'from-model', ariaLabel: 'Answer' });
  /** @type {MarkdownView | null} */ #view = null;
  #stats = el('span', { className: 'stats' });
  /** @type {() => void} */ #changed;
  /** The last complete answer, for a retry that comes to nothing. @type {{ text: string, end: End } | null} */
  #whole = null;

  /** @param {() => void} changed   called when the element has changed its size */
  constructor(changed) {
    this.#changed = changed;
    this.waiting('Reading…');
  }

  /** Whether the model remembers this turn. */
  get kept() {
    return this.#whole?.end.kept ?? false;
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
    this.#changed();
  }

  /** @param {End} end @param {() => void} retry */
  finish(end, retry) {
    this.#open().finish();
    this.#whole = { text: this.text, end };
    this.#foot(end, retry);
    const short = this.text.length > ANNOUNCED ? `${this.text.slice(0, ANNOUNCED)} …` : this.text;
    announce(short ? `Answer: ${short}` : end.stats);
  }

  /** Back to the answer before the retry, if there was one. @param {() => void} retry */
  restore(retry) {
    const whole = this.#whole;
    if (!whole) return false;
    this.#view = null;
    this.add(whole.text);
    this.finish(whole.end, retry);
    return true;
  }

  /** @param {unknown} error @param {HTMLButtonElement} button   what may help */
  fail(error, button) {
    this.element.querySelector('.answer-foot')?.remove();
    if (this.#view) this.#view.finish();
    else this.element.replaceChildren();
    this.#view = null;
    this.element.append(errorBox(error, button));
    this.#changed();
  }

  /** @param {End} end @param {() => void} retry */
  #foot({ stats, hint }, retry) {
    const copyButton = action('Copy', () => this.#copy(copyButton), 'quiet small');
    const retryButton = action('Retry', retry, 'quiet small retry');
    copyButton.hidden = !this.text;
    this.stats(stats);
    this.#stats.title = hint;
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
  /** @type {{ question: HTMLElement, answer: Answer } | null} */ #last = null;

  /** @param {HTMLElement} log @param {import('./follow.js').Follow} follow */
  constructor(log, follow) {
    this.#log = log;
    this.#follow = follow;
    log.addEventListener('click', (event) => copyCode(event.target));
  }

  /** @param {(Node | string)[]} welcome   what an empty conversation shows */
  clear(welcome) {
    this.#last = null;
    this.#log.replaceChildren(el('div', { className: 'empty' }, ...welcome));
    this.#follow.toEnd();
  }

  /** A message and the place of its answer. Only the last answer can be retried.
   * @param {string} text */
  addTurn(text) {
    this.#log.querySelector('.empty')?.remove();
    for (const old of this.#log.querySelectorAll('.retry, .error button')) old.remove();
    if (this.#last && !this.#last.answer.kept) this.#last.question.classList.add('forgotten');
    const question = el('div', { className: 'from-user', dir: 'auto', ariaLabel: 'You', role: 'article' }, text);
    const answer = new Answer(() => this.#follow.update());
    this.#log.append(question, answer.element);
    this.#last = { question, answer };
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
