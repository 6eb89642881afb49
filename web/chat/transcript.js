/**
 * transcript: the conversation as elements: what the user said (text, never HTML) and answers, each with what can
 * be done about it. Shows rows; which ones, and what a button does, is the conversation's affair.
 * @module
 */
import { action, announce, copy, el } from '../shell/dom.js';
import { errorBox } from '../shell/errors.js';
import { count } from '../shell/format.js';
import { MarkdownView } from '../rendering/markdown.js';

/** Longer answers are announced by their beginning only. */
const ANNOUNCED = 600;

/** @typedef {import('../history/tree.js').Said} Said */

/** A thing said, which of its versions it is, whether it ends the conversation, and whether nobody answered it. untold:
 * the model is told neither it nor, where it says `before`, what is above; long: more than one turn is told.
 * @typedef {{ said: Said, at: number, of: number, last: boolean, forgotten?: boolean, untold?: '' | 'all' | 'before',
 *   long?: boolean }} Row */

/**
 * What can be asked for, at any row.
 * @typedef {object} On
 * @property {(said: Said, step: number) => void} version   the one before or behind it
 * @property {(said: Said) => void} retry                   another answer
 * @property {(said: Said) => void} edit                    ask differently
 * @property {(said: Said) => void} branch                  go on from here, in a conversation of its own
 * @property {(said: Said) => void} goOn                    with an answer that was cut
 * @property {(said: Said) => void} shorten                 go on without the oldest turns
 * @property {() => void} anew                              a new conversation
 */

/** @typedef {{ key: string, elements: HTMLElement[] }} Shown */

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
    const body = el('div', { dir: 'auto' });
    this.#view = new MarkdownView(body, this.#changed);
    this.element.replaceChildren(body, el('div', { className: 'answer-foot' }, this.#stats));
    this.#changed(); // it is lower now: who scrolls it up is the browser, and not a reader
    return this.#view;
  }

  /** @param {string} text */
  stats(text) {
    this.#stats.textContent = text;
    this.#changed();
  }

  /** As it was kept: nothing streams, nothing is announced. @param {Said} said @param {HTMLElement[]} buttons */
  restore(said, buttons) {
    this.#open().add(said.text);
    this.#open().finish();
    const cut = said.state === 'partial' ? 'interrupted: the page was closed' : '';
    this.#foot([said.stats, cut].filter(Boolean).join(' · '), said.hint ?? '', buttons);
  }

  /** @param {Said} said @param {HTMLElement[]} buttons */
  finish({ stats = '', hint = '' }, buttons) {
    this.#open().finish();
    this.#foot(stats, hint, buttons);
    const short = this.text.length > ANNOUNCED ? `${this.text.slice(0, ANNOUNCED)} …` : this.text;
    announce(short ? `Answer: ${short}` : stats);
  }

  /** @param {unknown} error @param {...HTMLButtonElement} buttons   what may help */
  fail(error, ...buttons) {
    this.element.querySelector('.answer-foot')?.remove();
    if (this.#view) this.#view.finish();
    else this.element.replaceChildren();
    this.#view = null;
    this.element.append(errorBox(error, { buttons }));
    this.#changed();
  }

  /** @param {string} stats @param {string} hint @param {HTMLElement[]} buttons */
  #foot(stats, hint, buttons) {
    const copyButton = action('Copy', () => this.#copy(copyButton), 'quiet small');
    copyButton.hidden = !this.text;
    this.stats(stats);
    this.#stats.title = hint;
    this.element.querySelector('.answer-foot')?.replaceChildren(copyButton, ...buttons, this.#stats);
    this.#changed();
  }

  /** @param {HTMLButtonElement} button */
  async #copy(button) {
    button.textContent = (await copy(this.text)) ? 'Copied' : 'Could not copy';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  }
}

/** @param {Row} row */
const keyOf = ({ said, at, of, last, forgotten = false, untold = '' }) => {
  return [said.id, said.state, said.text.length, at, of, last, forgotten, untold].join();
};

export class Transcript {
  /** @type {HTMLElement} */ #log;
  /** @type {import('./follow.js').Follow} */ #follow;
  /** @type {Shown[]} */ #shown = [];
  /** @type {On} */ on = { version() {}, retry() {}, edit() {}, branch() {}, goOn() {}, shorten() {}, anew() {} };

  /** @param {HTMLElement} log @param {import('./follow.js').Follow} follow */
  constructor(log, follow) {
    this.#log = log;
    this.#follow = follow;
    log.addEventListener('click', (event) => copyCode(event.target));
    /** @type {HTMLDetailsElement[]} */
    let shut = [];
    addEventListener('beforeprint', () => {
      // paper cannot be opened
      shut = [...log.querySelectorAll('details')].filter(({ open }) => !open);
      for (const one of shut) one.open = true;
    });
    addEventListener('afterprint', () => {
      for (const one of shut) one.open = false;
    });
  }

  /** @param {(Node | string)[]} welcome   what an empty conversation shows */
  clear(welcome) {
    this.#shown = [];
    this.#log.replaceChildren(el('div', { className: 'empty' }, ...welcome));
    this.#follow.toStart();
  }

  /** Exactly these rows; those that are there already stay as they are. @param {Row[]} rows */
  show(rows) {
    this.#log.querySelector('.empty')?.remove();
    let same = 0;
    while (same < rows.length && this.#shown[same]?.key === keyOf(rows[same])) same++;
    for (const { elements } of this.#shown.splice(same)) for (const gone of elements) gone.remove();
    for (const row of rows.slice(same)) {
      const elements = row.said.role === 'user' ? this.#question(row) : [this.#answer(row)];
      if (row.untold === 'all') for (const one of elements) one.classList.add('untold');
      this.#log.append(...elements);
      this.#shown.push({ key: keyOf(row), elements });
    }
    this.#follow.toEnd();
  }

  /** The place of an answer that is about to come, behind what is shown. @param {Said} said */
  running(said) {
    const answer = new Answer(() => this.#follow.update());
    this.#log.append(answer.element);
    this.#shown.push({ key: `${said.id} running`, elements: [answer.element] });
    this.#follow.toEnd();
    return answer;
  }

  /** It has come to its end: its buttons, and its row. @param {Answer} answer @param {Row} row */
  settled(answer, row) {
    answer.finish(row.said, this.#buttons(row));
    this.#shown[this.#shown.length - 1].key = keyOf(row);
  }

  /** @param {Row} row */
  #answer(row) {
    const answer = new Answer(() => this.#follow.update());
    answer.restore(row.said, this.#buttons(row));
    return answer.element;
  }

  /** Only the last answer can be asked for again: the others would take with them what follows. @param {Row} row */
  #buttons(row) {
    const buttons = [];
    const { state, full } = row.said;
    if (row.last && state !== 'whole' && !full) {
      buttons.push(action('Continue', () => this.on.goOn(row.said), 'quiet small go-on'));
    }
    if (row.last && full) {
      const shorter = action('Continue without the oldest turns', () => this.on.shorten(row.said), 'small go-on');
      buttons.push(
        action('New chat', () => this.on.anew(), 'small'),
        ...(row.long ? [shorter] : []),
      );
    }
    if (row.last) buttons.push(action('Retry', () => this.on.retry(row.said), 'quiet small retry'));
    if (row.of > 1) buttons.push(this.#versions(row, 'answer'));
    const branch = action('Branch', () => this.on.branch(row.said), 'quiet small later');
    branch.title = 'Go on from here in a conversation of its own';
    return [...buttons, branch];
  }

  /** @param {Row} row */
  #question(row) {
    const { said } = row;
    const question = el(
      'div',
      { className: 'from-user', dir: 'auto', ariaLabel: 'You', role: 'article' },
      said.text,
      ...(said.files ?? []).map(folded),
    );
    if (row.forgotten) question.classList.add('forgotten');
    const edit = action('Edit', () => this.on.edit(said), 'quiet small later');
    edit.setAttribute('aria-label', 'Edit this message');
    const foot = el('div', { className: 'question-foot' }, edit);
    if (row.of > 1) foot.prepend(this.#versions(row, 'message'));
    const elements = [question, foot];
    if (row.untold === 'before') {
      elements.unshift(el('p', { className: 'told-from' }, 'The model is no longer told what is above.'));
    }
    if (row.last) elements.push(this.#unanswered(said));
    return elements;
  }

  /** The page was closed, or the model gone, before an answer began. @param {Said} said */
  #unanswered(said) {
    const retry = action('Answer this', () => this.on.retry(said), 'quiet small retry');
    return el('div', { className: 'answer-foot' }, retry);
  }

  /** @param {Row} row @param {string} what */
  #versions({ said, at, of }, what) {
    const step = (/** @type {string} */ sign, /** @type {number} */ by, /** @type {string} */ name) => {
      const button = action(sign, () => this.on.version(said, by), 'quiet small');
      button.setAttribute('aria-label', `${name} version of this ${what}`);
      button.disabled = at + by < 0 || at + by >= of;
      return button;
    };
    return el(
      'span',
      { className: 'versions', role: 'group', ariaLabel: `Versions of this ${what}` },
      step('‹', -1, 'Previous'),
      el('span', {}, `${at + 1}/${of}`),
      step('›', 1, 'Next'),
    );
  }

  /** A place in it, after its versions were stepped through. @param {string} id @param {string} selector */
  focus(id, selector) {
    const found = this.#shown.find(({ key }) => key.startsWith(`${id},`));
    const target = found?.elements.map((one) => one.querySelector(selector)).find(Boolean);
    if (target instanceof HTMLElement) target.focus();
  }
}

/** A file of a message, shut. @param {import('../history/tree.js').Attached} file */
function folded({ name, text }) {
  const head = el('summary', {}, name, el('span', { className: 'hint' }, ` ${count(text.length)} characters`));
  return el('details', { className: 'attached' }, head, el('pre', { tabIndex: 0 }, text));
}

/** @param {EventTarget | null} target */
async function copyCode(target) {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains('copy-code')) return;
  const code = target.closest('.code')?.querySelector('pre')?.textContent ?? '';
  target.textContent = (await copy(code)) ? 'Copied' : 'Could not copy';
  setTimeout(() => {
    target.textContent = 'Copy';
  }, 1500);
}
