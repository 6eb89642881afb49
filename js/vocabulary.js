/* vocabulary: text <-> ids of one loaded model, and prompts of every kind to ids. Used in the
 * worker; needs only the header of the file to be there. */
import { GemmaError } from './errors.js';
import { textDecoder } from './heap.js';
import { ChatTemplate } from './template.js';

/** @typedef {import('./template.js').Message} Message */
/** @typedef {import('./template.js').Prefix} Prefix */
/** @typedef {{ text: string } | { ids: number[] } | { messages: Message[], prefix?: Prefix }} Prompt */

export class Vocabulary {
  #native;
  /** @type {ChatTemplate | null} */
  #template = null;

  /** @param {import('./engine.js').NativeModel} native */
  constructor(native) {
    this.#native = native;
    this.size = native.number('n_vocab');
    const bos = native.number('bos_id');
    /** @type {number | null} */
    this.bos = bos >= 0 ? bos : null;
  }

  /** @param {string} text @param {{ bos?: boolean, special?: boolean }} [options] @returns {number[]} */
  encode(text, { bos = false, special = false } = {}) {
    const ids = Array.from(this.#native.encode(text, special));
    return bos && this.bos !== null ? [this.bos, ...ids] : ids;
  }

  /** @param {ArrayLike<number>} ids @param {{ special?: boolean }} [options] */
  decode(ids, { special = false } = {}) {
    const decoder = textDecoder();
    let text = '';
    for (const id of Array.from(ids)) {
      text += decoder.decode(this.#native.decode(id, special), { stream: true });
    }
    return text + decoder.decode();
  }

  /** Bytes of one token as it is shown. @param {number} id */
  bytes(id) {
    return this.#native.decode(id, false);
  }

  /** Ids of a prompt; for messages also the text that a later prompt may continue.
   * @param {Prompt} prompt @returns {{ ids: number[], text?: string }} */
  ids(prompt) {
    if ('text' in prompt) return { ids: this.encode(prompt.text, { bos: true }) };
    if ('ids' in prompt) return { ids: prompt.ids };
    return this.template.apply(prompt.messages, prompt.prefix);
  }

  /** Ids at which an answer ends. */
  get endTokens() {
    return this.#where((id) => this.#native.isEnd(id));
  }

  get template() {
    return this.#template ??= this.#makeTemplate();
  }

  #makeTemplate() {
    const source = this.#native.text('chat_template');
    if (!source) {
      throw new GemmaError('missing-template', 'this file has no chat template (a base model?); '
        + 'give the prompt as a string');
    }
    const control = this.#where((id) => this.#native.isControl(id));
    const named = control.map((id) => /** @type {const} */ ([this.decode([id], { special: true }), id]));
    /** @param {string} key */
    const token = (key) => {
      const id = this.#native.number(key);
      return id >= 0 ? this.decode([id], { special: true }) : '';
    };
    return new ChatTemplate(source, {
      control: new Map(named.filter(([piece]) => piece !== '')),
      encode: (text) => this.#native.encode(text, false),
      bos: this.bos,
      variables: { bos_token: token('bos_id'), eos_token: token('eos_id') },
    });
  }

  /** @param {(id: number) => boolean} test */
  #where(test) {
    const ids = [];
    for (let id = 0; id < this.size; id++) if (test(id)) ids.push(id);
    return ids;
  }
}
