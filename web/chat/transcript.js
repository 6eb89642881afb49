/**
 * transcript: the messages of a conversation as elements, each with its buttons. The conversation decides which
 * messages are shown and what a button does. The user's text is never HTML.
 * @module
 */
import { action, announce, copy, el, whenIdle } from '../shell/dom.js';
import { errorBox } from '../shell/errors.js';
import { t } from '../shell/language.js';
import { actions } from '../shell/store.js';
import { MarkdownView } from '../rendering/markdown.js';
import { Thoughts } from './thoughts.js';

/** Maximum characters of an answer that screen readers announce. */
const ANNOUNCED = 600;
/** Number of messages at the end that are rendered at once. Others wait until the browser is idle. */
const AT_ONCE = 12;

/** @import { Said, Attached } from '../history/tree.js' */
/** @import { Follow } from './follow.js' */

/** A message of the transcript. at: index of this version among `of` versions; unanswered: it got no answer; excluded:
 * the prompt omits this message ('all'), or the messages above it ('before'); long: the prompt has more than one turn;
 * by: the name of its model, if another model gave the previous answer.
 * @typedef {{ said: Said, at: number, of: number, last: boolean, unanswered?: boolean,
 *   excluded?: '' | 'all' | 'before', long?: boolean, by?: string }} Row */

/** Actions of a row's buttons. version: shows the previous or next version; branch: continues in a separate
 * conversation; extend: continues an answer that was cut off; shorten: continues without the oldest turns.
 * @typedef {Record<'retry' | 'edit' | 'branch' | 'extend' | 'shorten', (said: Said) => void> &
 *   { version: (said: Said, step: number) => void }} On */

/** @typedef {{ key: string, elements: HTMLElement[] }} Shown */

/** The element of one answer: waiting, then running, then finished or failed. */
export class Answer {
  element = el('article.from-model', { ariaLabel: t('answer') });
  /** @type {MarkdownView | null} */ #view = null;
  /** @type {Thoughts | null} */ #thoughts = null;
  #stats = el('span.stats');
  /** The text of an answer whose Markdown is not rendered yet. */ #raw = '';
  #changed;

  /** @param {() => void} changed   called when the element has changed its size */
  constructor(changed) {
    this.#changed = changed;
    this.waiting(t('reading'));
  }

  /** The Markdown source so far. */
  get text() {
    return this.#view?.text ?? this.#raw;
  }

  /** The thoughts so far. ms: their duration in milliseconds when they last ended, 0 if they never did. */
  get thoughts() {
    return { text: this.#thoughts?.text ?? '', ms: this.#thoughts?.ms ?? 0 };
  }

  /** Shows a text instead of the answer, which has not begun. @param {string} what */
  waiting(what) {
    this.#view = null;
    this.#thoughts = null;
    this.element.replaceChildren(el('p.waiting', what));
    this.#changed();
  }

  /** Appends text to the answer. Ends its thoughts. @param {string} piece */
  add(piece) {
    this.#thoughts?.end();
    this.#open().add(piece);
  }

  /** Appends text to the thoughts. Announces their beginning. @param {string} piece   of the model's thoughts */
  think(piece) {
    if (!this.#thoughts) announce(t('thinking'));
    this.#think().add(piece);
    this.#changed();
  }

  #think() {
    if (this.#thoughts) return this.#thoughts;
    const thoughts = (this.#thoughts = new Thoughts());
    this.element.querySelector('.waiting')?.remove();
    this.element.prepend(thoughts.element);
    if (!this.element.contains(this.#stats)) this.element.append(el('div.answer-foot', this.#stats));
    return thoughts;
  }

  /** Shows saved thoughts, if there are any.
   * @param {Pick<Said, 'thoughts' | 'thoughtMs'>} said @param {boolean} [running]   the thoughts continue */
  recall({ thoughts = '', thoughtMs }, running = false) {
    if (!thoughts) return;
    this.#think().add(thoughts);
    this.#think().restore(thoughtMs);
    if (running) this.#think().resume();
  }

  #open() {
    if (this.#view) return this.#view;
    const body = el('div', { dir: 'auto' });
    this.#view = new MarkdownView(body, this.#changed);
    const folded = this.#thoughts ? [this.#thoughts.element] : [];
    this.element.replaceChildren(...folded, body, el('div.answer-foot', this.#stats));
    this.#changed(); // the row is shorter now, so the browser may have scrolled up
    return this.#view;
  }

  /** Shows a text, such as the speed, in the line under the answer. @param {string} text */
  stats(text) {
    this.#stats.textContent = text;
    this.#changed();
  }

  /** Shows a saved answer as plain text until render() is called. @param {Row} row @param {HTMLElement[]} buttons */
  restore({ said, by }, buttons) {
    this.#raw = said.text;
    this.element.replaceChildren(el('div.md.raw', { dir: 'auto' }, said.text), el('div.answer-foot', this.#stats));
    this.recall(said);
    const cut = said.state === 'partial' ? t('interrupted') : '';
    this.#foot([by, said.stats, cut], said.hint, buttons);
  }

  /** Renders the Markdown of a saved answer, which screen readers do not announce. */
  render() {
    const body = this.element.querySelector('.raw');
    if (!(body instanceof HTMLElement)) return;
    body.classList.remove('raw');
    this.#view = new MarkdownView(body, this.#changed);
    this.#view.add(this.#raw);
    this.#view.finish();
  }

  /** Shows the buttons and numbers of an answer that has ended, and announces its text.
   * @param {Row} row @param {HTMLElement[]} buttons */
  finish({ said: { stats = '', hint }, by }, buttons) {
    this.#thoughts?.end();
    this.#open().finish();
    this.#foot([by, stats], hint, buttons);
    const short = this.text.length > ANNOUNCED ? `${this.text.slice(0, ANNOUNCED)} …` : this.text;
    announce(short ? t('answer.text', { text: short }) : stats);
  }

  /** Ends the answer with an error, which is shown below the text so far.
   * @param {unknown} error @param {...HTMLButtonElement} buttons   buttons that may help */
  fail(error, ...buttons) {
    this.element.querySelector('.answer-foot')?.remove();
    this.#thoughts?.end();
    if (this.#view) this.#view.finish();
    else this.element.replaceChildren(...(this.#thoughts ? [this.#thoughts.element] : []));
    this.#view = null;
    this.element.append(errorBox(error, { buttons }));
    this.#changed();
  }

  /** @param {(string | undefined)[]} facts @param {string | undefined} hint @param {HTMLElement[]} buttons */
  #foot(facts, hint, buttons) {
    const copyButton = action(t('copy'), () => void copy(copyButton, this.text), 'quiet small');
    copyButton.hidden = !this.text;
    this.stats(facts.filter(Boolean).join(' · '));
    this.#stats.title = hint ?? '';
    this.element.querySelector('.answer-foot')?.replaceChildren(copyButton, ...buttons, this.#stats);
    this.#changed();
  }
}

/** @param {Row} row */
const keyOf = ({ said, at, of, last, unanswered = false, excluded = '', by = '' }) =>
  [said.id, said.state, said.text.length, at, of, last, unanswered, excluded, by].join();

/** The list of the messages that are shown. */
export class Transcript {
  /** @type {HTMLElement} */ #log;
  /** @type {Follow} */ #follow;
  /** @type {Shown[]} */ #shown = [];
  /** Answers that are not rendered yet, the newest last. @type {Answer[]} */ #waiting = [];
  on = /** @type {On} */ ({});

  /** @param {HTMLElement} log @param {Follow} follow */
  constructor(log, follow) {
    this.#log = log;
    this.#follow = follow;
    log.addEventListener('click', (event) => copyCode(event.target));
    /** @type {HTMLDetailsElement[]} */
    let shut = [];
    addEventListener('beforeprint', () => {
      for (const answer of this.#waiting.splice(0)) answer.render();
      // opens folded elements, because printed pages cannot be expanded
      shut = [...log.querySelectorAll('details')].filter(({ open }) => !open);
      for (const one of shut) one.open = true;
    });
    addEventListener('afterprint', () => {
      for (const one of shut) one.open = false;
    });
  }

  /** Removes all messages. @param {(Node | string)[]} welcome   the contents of an empty conversation */
  clear(welcome) {
    [this.#shown, this.#waiting] = [[], []];
    this.#log.replaceChildren(el('div.empty', ...welcome));
    this.#follow.toStart();
  }

  /** Shows exactly these rows; rows that are already shown keep their elements. @param {Row[]} rows */
  show(rows) {
    this.#log.querySelector('.empty')?.remove();
    let same = 0;
    while (same < rows.length && this.#shown[same]?.key === keyOf(rows[same])) same++;
    for (const { elements } of this.#shown.splice(same)) for (const gone of elements) gone.remove();
    const soon = rows.length - AT_ONCE;
    for (const [i, row] of rows.entries()) {
      if (i < same) continue;
      const elements = row.said.role === 'user' ? this.#question(row) : [this.#answer(row, i < soon)];
      if (row.excluded === 'all') for (const one of elements) one.classList.add('excluded');
      this.#log.append(...elements);
      this.#shown.push({ key: keyOf(row), elements });
    }
    this.#follow.toEnd();
    this.#renderRest();
  }

  /** Renders the waiting answers, newest first, one in each idle moment. */
  #renderRest() {
    const list = this.#waiting;
    if (list.length)
      whenIdle(() => {
        const next = list.pop();
        if (!next || list !== this.#waiting) return; // meanwhile another conversation was opened
        this.#follow.steady(next.element, () => next.render());
        this.#renderRest();
      });
  }

  /** Appends the row of an answer that is about to begin, and returns it. @param {Said} said */
  running(said) {
    const answer = new Answer(() => this.#follow.update());
    this.#log.append(answer.element);
    this.#shown.push({ key: `${said.id} running`, elements: [answer.element] });
    this.#follow.toEnd();
    return answer;
  }

  /** Shows the end of the answer that running() returned last. @param {Answer} answer @param {Row} row */
  settled(answer, row) {
    answer.finish(row, this.#buttons(row));
    this.#shown[this.#shown.length - 1].key = keyOf(row);
  }

  /** @param {Row} row @param {boolean} later */
  #answer(row, later) {
    const answer = new Answer(() => this.#follow.update());
    answer.restore(row, this.#buttons(row));
    if (later) this.#waiting.push(answer);
    else answer.render();
    return answer.element;
  }

  /** Returns the buttons of a row. Only the last answer can be retried: retrying an earlier one would hide the
   * messages after it. @param {Row} row */
  #buttons(row) {
    const buttons = [];
    const { state, full } = row.said;
    if (row.last && state !== 'whole' && !full) {
      buttons.push(action(t('continue'), () => this.on.extend(row.said), 'quiet small continue-answer'));
    }
    if (row.last && full) {
      buttons.push(action(t('new-chat'), () => void actions.open(null), 'small'));
      if (row.long)
        buttons.push(action(t('continue.shorter'), () => this.on.shorten(row.said), 'small continue-answer'));
    }
    if (row.last) buttons.push(action(t('retry'), () => this.on.retry(row.said), 'quiet small retry'));
    if (row.of > 1) buttons.push(this.#versions(row, 'answer'));
    const branch = action(t('branch'), () => this.on.branch(row.said), 'quiet small later');
    branch.title = t('branch.title');
    return [...buttons, branch];
  }

  /** @param {Row} row */
  #question(row) {
    const { said } = row;
    const question = el(
      'div.from-user',
      { dir: 'auto', ariaLabel: t('you'), role: 'article' },
      said.text,
      ...(said.files ?? []).map(folded),
    );
    if (row.unanswered) {
      question.classList.add('unanswered');
      question.dataset.note = t('not-answered');
    }
    const edit = action(t('edit'), () => this.on.edit(said), 'quiet small later', t('edit.label'));
    const foot = el('div.question-foot', edit);
    if (row.of > 1) foot.prepend(this.#versions(row, 'message'));
    const elements = [question, foot];
    if (row.excluded === 'before') elements.unshift(el('p.told-from', t('told-from')));
    if (row.last) {
      const retry = action(t('answer.it'), () => this.on.retry(said), 'quiet small retry');
      elements.push(el('div.answer-foot', retry));
    }
    return elements;
  }

  /** @param {Row} row @param {'message' | 'answer'} what */
  #versions({ said, at, of }, what) {
    const step = (/** @type {string} */ sign, /** @type {number} */ by, /** @type {string} */ label) => {
      const button = action(sign, () => this.on.version(said, by), 'quiet small', label);
      button.disabled = at + by < 0 || at + by >= of;
      return button;
    };
    return el(
      'span.versions',
      { role: 'group', ariaLabel: t(`versions.${what}`) },
      step('‹', -1, t('version.previous')),
      el('span', `${at + 1}/${of}`),
      step('›', 1, t('version.next')),
    );
  }

  /** Focuses the button for a message's previous (step < 0) or next version; the other one if that is disabled.
   * @param {string} id @param {number} step */
  focusVersions(id, step) {
    const { elements = [] } = this.#shown.find(({ key }) => key.startsWith(`${id},`)) ?? {};
    const buttons = elements.flatMap((one) => [...one.querySelectorAll('.versions button:enabled')]);
    /** @type {HTMLElement | undefined} */ (buttons.at(step < 0 ? 0 : -1))?.focus();
  }
}

/** @param {Attached} file */
function folded({ name, text }) {
  const head = el('summary', name, el('span.hint', ` ${t('characters', { n: text.length })}`));
  return el('details.attached', head, el('pre', { tabIndex: 0 }, text));
}

/** @param {EventTarget | null} target */
function copyCode(target) {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains('copy-code')) return;
  void copy(target, target.closest('.code')?.querySelector('pre')?.textContent ?? '');
}
