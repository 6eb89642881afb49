/* vocabulary: text <-> ids, and prompts of every kind to ids; needs the header of the file only. */
import { noTemplate } from '../errors.js';
import { textDecoder } from './heap.js';
import { ChatTemplate } from './template.js';

/** @import { Message, Prefix } from './template.js' */
/** @typedef {{ text: string } | { ids: number[] }
 *   | { messages: Message[], prefix?: Prefix }} Prompt */

/** What Gemma's files say, for those that say nothing: text of a system message goes before the first question. */
const GEMMA = `{{ bos_token }}{% set ns = namespace(lead='') %}{% for m in messages %}
{%- if m.role == 'system' %}{% set ns.lead = m.content + '\\n\\n' %}{% else %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + ns.lead }}{% set ns.lead = '' %}
{{- (m.content | trim) + '<end_of_turn>\\n' }}{% endif %}{% endfor %}
{{- '<start_of_turn>model\\n' if add_generation_prompt }}`;

export class Vocabulary {
  #native;
  /** @type {ChatTemplate | null} */
  #template = null;

  /** @param {import('./engine.js').Engine} native */
  constructor(native) {
    this.#native = native;
    this.size = native.number('n_vocab');
    this.bos = this.#id('bos');
    this.addsBos = native.number('add_bos') === 1;
  }

  /** @param {string} name */
  #id(name) {
    const id = this.#native.number(`${name}_id`);
    return id >= 0 ? id : null;
  }

  /** @param {string} text @param {{ bos?: boolean, special?: boolean }} [options] */
  encode(text, { bos = false, special = false } = {}) {
    const ids = Array.from(this.#native.encode(text, special));
    return bos && this.bos !== null ? [this.bos, ...ids] : ids;
  }

  /** Some files' tokenizers read a text as if a blank stood before it: such a blank is left out again, at the
   * beginning and behind control tokens, so the tokens before must be known.
   * @param {number[]} ids @param {boolean} [special] name control tokens
   * @param {number} [before] the token that they stand behind, -1 at the beginning of a text */
  decode(ids, special = false, before = -1) {
    const decoder = textDecoder();
    const parts = ids.map((id, i) => {
      return decoder.decode(this.#native.decode(id, special, i ? ids[i - 1] : before), { stream: true });
    });
    return parts.join('') + decoder.decode();
  }

  /** For messages also the text that a later prompt may continue.
   * @param {Prompt} prompt @returns {{ ids: number[], text?: string }} */
  ids(prompt) {
    // A text of nothing needs a beginning even where the file puts none before texts.
    if ('text' in prompt) return { ids: this.encode(prompt.text, { bos: this.addsBos || !prompt.text }) };
    if ('ids' in prompt) return prompt;
    return this.template.apply(prompt.messages, prompt.prefix);
  }

  get endTokens() {
    return this.#native.where('is_end', this.size);
  }

  get template() {
    return this.#template ??= this.#makeTemplate();
  }

  /** The file's own, or that of its architecture; null: there is none. */
  get templateSource() {
    const architecture = this.#native.text('architecture') ?? '';
    return this.#native.text('chat_template') || (/^gemma\d*$/.test(architecture) ? GEMMA : null);
  }

  #makeTemplate() {
    const source = this.templateSource;
    if (!source) throw noTemplate();
    /** @param {number | null} id */
    const name = (id) => (id === null ? '' : this.decode([id], true));
    const control = this.#native.where('is_control', this.size);
    return new ChatTemplate(source, {
      control: new Map(control.map((id) => /** @type {const} */ ([name(id), id]))),
      encode: (text) => this.#native.encode(text, false),
      bos: this.addsBos ? this.bos : null,
      variables: { bos_token: name(this.bos), eos_token: name(this.#id('eos')) },
    });
  }
}
