/**
 * shape: a dialog for answers that follow a JSON schema, shown as a table while they stream. The page fetches this file
 * when the dialog is first opened.
 * @module
 */
/// <reference path="../css.d.ts" />
import { action, announce, el, sheetOf } from '../shell/dom.js';
import { PageError, codeOf, lineOf, withDetails } from '../shell/errors.js';
import { known, t } from '../shell/language.js';
import { actions, state } from '../shell/store.js';
import css from './shape.css';

/** @typedef {{ name: string, question: string, schema: object }} Example */

/** @param {Record<string, object>} properties   all are required, and no others are allowed */
const only = (properties) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
});
const TEXT = { type: 'string', maxLength: 60 };
/** @type {Example[]} */
const EXAMPLES = [
  {
    name: t('shape.card'),
    question: t('shape.card.ask'),
    schema: only({ name: TEXT, street: TEXT, city: TEXT, zip: { type: 'string', pattern: '^\\d{5}$' } }),
  },
  {
    name: t('shape.list'),
    question: t('shape.list.ask'),
    schema: {
      type: 'array',
      minItems: 5,
      maxItems: 5,
      items: only({ bird: TEXT, colour: TEXT, centimetres: { type: 'integer', minimum: 1, maximum: 400 } }),
    },
  },
  {
    name: t('shape.yes'),
    question: t('shape.yes.ask'),
    schema: only({ answer: { enum: ['yes', 'no'] }, because: { type: 'string', maxLength: 120 } }),
  },
];

/** @param {unknown} value */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Renders a JSON value: an array of objects with a column for each name, an object with a row for each name.
 * @param {any} value @returns {Node | string} */
function drawn(value) {
  if (Array.isArray(value) && value.length && value.every(isObject)) return columns(value);
  if (Array.isArray(value)) return rows(value.map((one) => [one]));
  if (isObject(value)) return rows(Object.entries(value).map(([name, one]) => [one, name]));
  return value === undefined ? '' : String(value);
}

/** @param {[value: any, name?: string][]} list */
const rows = (list) =>
  el(
    'table',
    ...list.map(([value, name]) =>
      el('tr', ...(name === undefined ? [] : [el('th', { scope: 'row' }, name)]), el('td', drawn(value))),
    ),
  );

/** @param {Record<string, any>[]} list */
function columns(list) {
  const names = [...new Set(list.flatMap((one) => Object.keys(one)))];
  const head = el('tr', ...names.map((name) => el('th', { scope: 'col' }, name)));
  const body = list.map((one) => el('tr', ...names.map((name) => el('td', drawn(one[name])))));
  return el('table', el('thead', head), el('tbody', ...body));
}

/** @param {unknown} error */
function told(error) {
  if (/format/.test(codeOf(error))) return t('shape.unsupported', { why: /** @type {Error} */ (error).message });
  return withDetails(lineOf(error), error);
}

class Shape {
  #question = el('textarea', { id: 'shape-question', rows: 2, dir: 'auto' });
  #schema = el('textarea.code', { id: 'shape-schema', rows: 9, spellcheck: false, dir: 'ltr' });
  #wrong = el('div.wrong', { id: 'shape-wrong', role: 'alert' });
  #value = el('div.value', { id: 'shape-value', tabIndex: 0, role: 'region', ariaLabel: t('shape.value') });
  #said = el('p.hint', { id: 'shape-said' });
  #ask = el('button.primary', { id: 'shape-ask', type: 'submit' }, t('shape.answer'));
  /** @type {AbortController | null} */
  #running = null;

  constructor() {
    const form = el(
      'form.stack',
      {
        noValidate: true,
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          if (this.#running) this.#running.abort();
          else void this.#answer();
        },
      },
      el(
        'div.moods',
        { role: 'group', ariaLabel: t('shape.examples') },
        ...EXAMPLES.map((example) => action(example.name, () => this.#take(example))),
      ),
      el('label', t('shape.question'), ' ', this.#question),
      el('label', t('shape.schema'), ' ', this.#schema),
      this.#wrong,
      el(
        'div.form-end',
        action(t('close'), () => this.dialog.close()),
        this.#ask,
      ),
    );
    this.dialog = el(
      'dialog.shortcuts.shape',
      { id: 'shape', ariaLabel: t('shape.title') },
      el('h2', t('shape.title')),
      el('p.hint', t('shape.about')),
      form,
      this.#value,
      this.#said,
      el('p.said.hidden-text', { role: 'status' }),
    );
    this.dialog.addEventListener('close', () => this.#running?.abort());
    this.dialog.addEventListener('keydown', (event) => event.stopPropagation());
    this.#take(EXAMPLES[0]);
    document.body.append(this.dialog);
  }

  open() {
    this.dialog.showModal();
    this.#question.focus();
  }

  /** @param {Example} example */
  #take({ question, schema }) {
    this.#question.value = question;
    this.#schema.value = JSON.stringify(schema, null, 2);
    this.#wrong.textContent = '';
  }

  async #answer() {
    this.#wrong.textContent = this.#said.textContent = '';
    this.#value.replaceChildren();
    let schema;
    try {
      schema = JSON.parse(this.#schema.value);
    } catch (error) {
      this.#wrong.textContent = t('shape.not-json', { why: /** @type {Error} */ (error).message });
      return;
    }
    this.#running = new AbortController();
    this.#ask.textContent = t('shape.stop');
    try {
      await this.#draw(schema, this.#running.signal);
    } catch (error) {
      this.#wrong.replaceChildren(told(error));
    } finally {
      this.#running = null;
      this.#ask.textContent = t('shape.answer');
    }
  }

  /** @param {any} schema @param {AbortSignal} signal */
  async #draw(schema, signal) {
    const { model } = state;
    if (!model) throw new PageError('hindered.model');
    const content = this.#question.value;
    const prompt = model.info.chatTemplate ? [{ role: /** @type {const} */ ('user'), content }] : content;
    const out = model.generate(prompt, { ...actions.sampling(), format: { schema }, signal });
    let tokens = 0;
    let forced = 0;
    for await (const step of out.steps()) {
      tokens += step.ids.length;
      if (step.forced) forced += step.ids.length;
      this.#value.replaceChildren(drawn(out.partial()));
    }
    const { finishReason, value } = await out.result();
    if (finishReason === 'stop') this.#value.replaceChildren(drawn(value));
    const said = t('shape.said', { tokens: t('tokens', { n: tokens }), n: forced });
    this.#said.textContent = [said, known(`end.${finishReason}`)].filter(Boolean).join(' · ');
    this.#said.scrollIntoView({ block: 'nearest' }); // in a small window, this line may be out of sight
    announce(t('shape.ready'));
  }
}

document.adoptedStyleSheets.push(sheetOf(css));
export const shape = new Shape();
