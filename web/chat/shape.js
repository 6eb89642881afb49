/**
 * shape: a place to try answers in a shape: a question, a JSON schema, and the value as a table while it comes. The
 * page fetches this file when it is first opened.
 * @module
 */
import { action, announce, el } from '../shell/dom.js';
import { codeOf } from '../shell/errors.js';

/** @typedef {import('../../js/index.js').Model} Model */
/** What the settings say of the answer. @typedef {{ temperature: number, maxTokens: number }} Options */
/** @typedef {{ name: string, question: string, schema: object }} Example */

const TEXT = { type: 'string', maxLength: 60 };
/** @type {Example[]} */
const EXAMPLES = [
  {
    name: 'Address card',
    question: 'Invent a person and give an address card.',
    schema: {
      type: 'object',
      additionalProperties: false,
      required: ['name', 'street', 'city', 'zip'],
      properties: { name: TEXT, street: TEXT, city: TEXT, zip: { type: 'string', pattern: '^\\d{5}$' } },
    },
  },
  {
    name: 'List',
    question: 'Name five birds, each with its colour and wingspan.',
    schema: {
      type: 'array',
      minItems: 5,
      maxItems: 5,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['bird', 'colour', 'centimetres'],
        properties: { bird: TEXT, colour: TEXT, centimetres: { type: 'integer', minimum: 1, maximum: 400 } },
      },
    },
  },
  {
    name: 'Yes or no',
    question: 'Is a whale a fish?',
    schema: {
      type: 'object',
      additionalProperties: false,
      required: ['answer', 'because'],
      properties: { answer: { enum: ['yes', 'no'] }, because: { type: 'string', maxLength: 120 } },
    },
  },
];

/** @param {unknown} value */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value as it is shown: lists of objects with a column for each name, objects with a row for each.
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
    {},
    ...list.map(([value, name]) =>
      el('tr', {}, ...(name === undefined ? [] : [el('th', { scope: 'row' }, name)]), el('td', {}, drawn(value))),
    ),
  );

/** @param {Record<string, any>[]} list */
function columns(list) {
  const names = [...new Set(list.flatMap((one) => Object.keys(one)))];
  const head = el('tr', {}, ...names.map((name) => el('th', { scope: 'col' }, name)));
  return el(
    'table',
    {},
    el('thead', {}, head),
    el('tbody', {}, ...list.map((one) => el('tr', {}, ...names.map((name) => el('td', {}, drawn(one[name])))))),
  );
}

/** @param {unknown} error */
function told(error) {
  const { what, got, message } = /** @type {{ what?: string, got?: string, message: string }} */ (error);
  return codeOf(error) === 'bad-format' ? `This schema cannot be held: ${what ?? message} (at ${got ?? '#'})` : message;
}

class Shape {
  #question = el('textarea', { id: 'shape-question', rows: 2, dir: 'auto' });
  #schema = el('textarea', { id: 'shape-schema', rows: 9, className: 'code', spellcheck: false });
  #wrong = el('p', { id: 'shape-wrong', className: 'wrong', role: 'alert' });
  #value = el('div', { id: 'shape-value', className: 'value', tabIndex: 0, role: 'region', ariaLabel: 'The answer' });
  #said = el('p', { id: 'shape-said', className: 'hint' });
  #ask = el('button', { id: 'shape-ask', type: 'submit', className: 'primary' }, 'Answer');
  /** @type {AbortController | null} */
  #running = null;
  /** @type {{ model: Model, options: Options }} */
  #with;

  /** @param {Model} model @param {Options} options */
  constructor(model, options) {
    this.#with = { model, options };
    const form = el(
      'form',
      {
        className: 'stack',
        noValidate: true,
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          if (this.#running) this.#running.abort();
          else void this.#answer();
        },
      },
      el(
        'div',
        { className: 'moods', role: 'group', ariaLabel: 'Examples' },
        ...EXAMPLES.map((example) => action(example.name, () => this.#take(example))),
      ),
      el('label', {}, 'Question ', this.#question),
      el('label', {}, 'JSON schema ', this.#schema),
      this.#wrong,
      el(
        'div',
        { className: 'form-end' },
        action('Close', () => this.dialog.close()),
        this.#ask,
      ),
    );
    this.dialog = el(
      'dialog',
      { id: 'shape', className: 'shortcuts shape', ariaLabel: 'Answer in a shape' },
      el('h2', {}, 'Answer in a shape'),
      el(
        'p',
        { className: 'hint' },
        'What the model may write is held to a JSON schema, so the answer always fits it.',
      ),
      form,
      this.#value,
      this.#said,
    );
    this.dialog.addEventListener('close', () => this.#running?.abort());
    this.dialog.addEventListener('keydown', (event) => event.stopPropagation());
    this.#take(EXAMPLES[0]);
    document.body.append(this.dialog);
  }

  /** @param {Model} model @param {Options} options */
  open(model, options) {
    this.#with = { model, options };
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
      this.#wrong.textContent = `The schema is not JSON: ${/** @type {Error} */ (error).message}`;
      return;
    }
    this.#running = new AbortController();
    this.#ask.textContent = 'Stop';
    try {
      await this.#draw(schema, this.#running.signal);
    } catch (error) {
      this.#wrong.textContent = told(error);
    } finally {
      this.#running = null;
      this.#ask.textContent = 'Answer';
    }
  }

  /** @param {any} schema @param {AbortSignal} signal */
  async #draw(schema, signal) {
    const { model, options } = this.#with;
    const content = this.#question.value;
    const prompt = model.info.chatTemplate ? [{ role: /** @type {const} */ ('user'), content }] : content;
    const out = model.generate(prompt, { ...options, format: { schema }, signal });
    let tokens = 0;
    let forced = 0;
    for await (const step of out.steps()) {
      tokens += step.ids.length;
      if (step.forced) forced += step.ids.length;
      this.#value.replaceChildren(drawn(out.partial()));
    }
    const { finishReason, value } = await out.result();
    if (finishReason === 'stop') this.#value.replaceChildren(drawn(value));
    this.#said.textContent = `${tokens} tokens, ${forced} of them without asking the model${ENDS[finishReason] ?? ''}.`;
    this.#said.scrollIntoView({ block: 'nearest' }); // on low windows it is below what is seen
    announce('The answer is there.');
  }
}

/** What is told of an answer that is not whole. @type {Record<string, string>} */
const ENDS = {
  length: '; cut off at the most tokens that the settings allow',
  aborted: '; stopped',
  context: '; the context is full',
};

/** @type {Shape | null} */
let shape = null;

/** @param {Model} model @param {Options} options */
export function openShape(model, options) {
  shape ??= new Shape(model, options);
  shape.open(model, options);
}
