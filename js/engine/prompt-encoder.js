/* prompt-encoder: converts prompts and other texts to token ids, and ids to text, with the tokenizer and chat
 * template of a file. Needs only the file's header. */
import { noTemplate } from '../errors.js';
import { notSplittable, tooManyTokens } from './errors.js';
import { joined, textDecoder, utf8 } from './heap.js';
import { SWITCH, thoughtMarks } from './thinking.js';

/** @import { PostedPrompt as Prompt, Prefix, PostedMessage } from '../protocol.js' */
/** @import { Dialect } from '../tool-calling/dialects.js' */
/** @import { Platform } from './engine.js' */
/** @import { ChatTemplate } from './template.js' */

/** Number of bytes that are decoded per call of a TextDecoder, because a call has a fixed cost; and typical maximum
 * size of a token in bytes. */
const DECODED_AT_ONCE = 1 << 14;
const ROOM = 16;
/** Number of characters that are encoded per call of the tokenizer; and maximum number of bytes without a word
 * boundary. */
const ENCODED_AT_ONCE = 1 << 16;
const MAX_REST = 1 << 24;
/** Maximum number of tokens of one text, more than any context can have. */
const MAX_IDS = 1 << 24;

/** Function that lets the worker receive messages between pieces of work. Throws if the call was aborted.
 * @typedef {() => Promise<unknown>} Pause */
const NO_PAUSE = async () => {};

/** Returns a slice of a text. Does not split a surrogate pair at its end. @param {string} text @param {number} at
 * @param {number} end */
function sliceOf(text, at, end) {
  const halved = end < text.length && (text.charCodeAt(end) & 0xfc00) === 0xdc00;
  return text.slice(at, halved ? end - 1 : end);
}

/** Converts between texts, prompts and token ids of one model. */
export class PromptEncoder {
  #native;
  #load;
  /** @type {ChatTemplate | null} */
  #template = null;
  /** @type {Dialect | null} */
  #dialect = null;
  /** @type {boolean | undefined} */
  #nfc;

  /** @param {import('./engine.js').Engine} native @param {Platform['load']} load
   * @param {() => void} alive sends a heartbeat during synchronous work */
  constructor(native, load, alive) {
    this.#native = native;
    this.#load = load;
    this.alive = alive;
    this.size = native.number('n_vocab');
    this.bos = this.#id('bos');
    this.addsBos = native.number('add_bos') === 1;
    this.eos = native.number('add_eos') === 1 ? this.#id('eos') : null;
  }

  /** @param {string} name */
  #id(name) {
    const id = this.#native.number(`${name}_id`);
    return id >= 0 ? id : null;
  }

  /** Returns the token ids of a text. exact: do not normalise the text. @param {string} text
   * @param {{ bos?: boolean, special?: boolean, exact?: boolean }} [options] */
  encode(text, { bos = false, special = false, exact = false } = {}) {
    const ids = Array.from(this.#native.encode(exact ? text : this.#normal(text, special), special));
    return bos && this.bos !== null ? [this.bos, ...ids] : ids;
  }

  /** Returns the token ids of a text of any length. Pauses between pieces of the text. Throws an error with `code` if
   * the text has too many tokens.
   * @param {string} given @param {{ bos?: boolean, special?: boolean, exact?: boolean }} options @param {Pause} pause
   * @param {'bad-count' | 'context-exceeded'} [code] */
  async encodeAll(given, { bos = false, special = false, exact = false }, pause, code = 'bad-count') {
    if (given.length <= ENCODED_AT_ONCE) return this.encode(given, { bos, special, exact });
    const text = exact ? given : this.#normal(given, special);
    const ids = bos && this.bos !== null ? [this.bos] : [];
    let rest = new Uint8Array();
    let begun = false;
    for (let at = 0; at < text.length; await pause()) {
      const slice = sliceOf(text, at, at + Math.max(ENCODED_AT_ONCE, rest.length));
      const bytes = joined(rest, utf8(slice));
      at += slice.length;
      const { ids: some, taken } = this.#native.encodePart(bytes, { special, begun, more: at < text.length });
      for (const id of some) ids.push(id);
      if (ids.length > MAX_IDS) throw tooManyTokens(code, MAX_IDS);
      begun ||= taken > 0;
      rest = bytes.slice(taken);
      if (rest.length > MAX_REST) throw notSplittable(MAX_REST);
    }
    return ids;
  }

  /** Normalises a text to NFC if the model's tokenizer requires that, as Qwen's tokenizer.json does. Normalises text
   * after an added token separately: U+0338 must not combine with the '>' at the token's end. @param {string} text
   * @param {boolean} special */
  #normal(text, special) {
    if (text.normalize() === text || !this.#composes) return text;
    /** @type {Map<string, number | null>} */
    const ids = new Map();
    let normal = '';
    let done = 0;
    for (const { 0: name, index } of text.matchAll(/<[/|]?\w+\|?>(?=\u0338)/g)) {
      if (!ids.has(name)) ids.set(name, this.idOf(name));
      const id = ids.get(name) ?? null;
      const end = index + name.length;
      if (id === null || (!special && this.isControl(id))) continue;
      normal += text.slice(done, end).normalize();
      done = end;
    }
    return normal + text.slice(done).normalize();
  }

  get #composes() {
    const pre = () => this.#native.list('metadata').find(({ key }) => key === 'tokenizer.ggml.pre')?.value;
    return (this.#nfc ??= pre() === 'qwen2');
  }

  /** Returns the text of ids, without the space that some tokenizers insert at the beginning of a text and after
   * control tokens. @param {number[]} ids @param {boolean} [special] return names of control tokens too
   * @param {number} [before] the previous token, -1 at the beginning of a text */
  decode(ids, special = false, before = -1) {
    return [...this.#texts(ids, special, before)].join('');
  }

  /** Returns the text of any number of ids. Pauses between pieces of the text.
   * @param {number[]} ids @param {boolean} special @param {Pause} pause */
  async decodeAll(ids, special, pause) {
    const parts = [];
    for (const part of this.#texts(ids, special)) {
      parts.push(part);
      await pause();
    }
    return parts.join('');
  }

  /** @param {number[]} ids @param {boolean} special @param {number} [before] @returns {Generator<string>} */
  *#texts(ids, special, before = -1) {
    const decoder = textDecoder();
    const bytes = new Uint8Array(Math.min(DECODED_AT_ONCE, ROOM * ids.length));
    let n = 0;
    for (const [i, id] of ids.entries()) {
      const piece = this.#native.decode(id, special, i ? ids[i - 1] : before);
      if (n + piece.length > bytes.length) {
        yield decoder.decode(bytes.subarray(0, n), { stream: true });
        n = 0;
      }
      if (piece.length > bytes.length) {
        yield decoder.decode(piece, { stream: true });
      } else {
        bytes.set(piece, n);
        n += piece.length;
      }
    }
    yield decoder.decode(bytes.subarray(0, n), { stream: true }) + decoder.decode();
  }

  /** Returns a prefix if it belongs to this model, else undefined, because other models have other token ids.
   * @param {Prefix} [prefix] */
  #own(prefix) {
    return prefix?.of === this.#native.stateName ? prefix : undefined;
  }

  /** Imports the module for formats and tools. @returns {Promise<typeof import('../tool-calling/index.js')>} */
  load() {
    return this.#load('grammar');
  }

  async #ready() {
    return (this.#template ??= await this.#makeTemplate());
  }

  /** Returns the token ids of a prompt. For messages, also returns the rendered text, which a later prompt may
   * continue.
   * @param {Prompt} prompt @param {Pause} [pause] @returns {Promise<{ ids: number[], text?: string, cut?: number }>} */
  async prompted(prompt, pause) {
    if ('text' in prompt) return { ids: await this.#begun(prompt.text, pause) };
    if ('ids' in prompt) return prompt;
    const { messages, prefix, ...more } = prompt;
    const calling = more.tools || messages.some(({ role, toolCalls }) => role === 'tool' || toolCalls);
    if (calling) return this.#withTools(prompt);
    return (await this.#ready()).apply(messages, { ...more, prefix: this.#own(prefix) });
  }

  /** @param {Extract<Prompt, { messages: PostedMessage[] }>} prompt */
  async #withTools({ messages, prefix: given, tools = [], formatted, ...more }) {
    const { withInstructions } = await this.load();
    const template = await this.#ready();
    const { instructions, ...form } = (await this.dialect()).render(messages, tools, formatted);
    const said = instructions ? withInstructions(form.messages, instructions) : form.messages;
    return template.apply(said, { ...more, prefix: this.#own(given), tools: form.tools });
  }

  /** Returns the syntax in which the model calls tools. */
  async dialect() {
    if (this.#dialect) return this.#dialect;
    const { dialectOf } = await this.load();
    const { probe } = await this.#ready();
    return (this.#dialect = dialectOf({ probe, has: (name) => this.idOf(name) !== null }));
  }

  /** Returns a reader of the tool calls in one answer. @param {import('../protocol.js').ToolSpec[] | null} tools
   * passed only with `format`: the answer is then either calls or a text in this format */
  async callReader(tools) {
    const { CallReader } = await this.load();
    const { openings, ...dialect } = await this.dialect();
    return new CallReader(dialect, (name) => this.idOf(name), tools && openings(tools));
  }

  /** Whether the chat template can turn thinking on and off, and the vocabulary has known marks of thoughts. */
  get thinks() {
    return Boolean(this.templateSource?.includes(SWITCH) && thoughtMarks((name) => this.idOf(name)));
  }

  /** Returns a reader of the thoughts in one answer, or null if the model does not think. Only valid after prompted().
   * @param {Prompt} prompt @param {number[]} ids of the prompt
   * @param {boolean | number | null} thinking a number is the budget in tokens */
  thoughtReader(prompt, ids, thinking) {
    if (!('messages' in prompt)) return null;
    const budget = typeof thinking === 'number' ? thinking : undefined;
    return this.template.thoughtReader(ids, { thought: prompt.thought, budget });
  }

  /** Returns the id of the token with a name, or null if the name is not a single token. @param {string} name */
  idOf(name) {
    const [id, ...more] = this.encode(name, { special: true });
    return !more.length && id !== undefined && this.decode([id], true) === name ? id : null;
  }

  /** Returns the bytes of a token, none for a control token. @param {number} id
   * @param {number} before previous token */
  bytes(id, before) {
    return this.#native.decode(id, false, before);
  }

  /** Returns whether a token is a control token, or false for a negative id. @param {number} id */
  isControl(id) {
    return id >= 0 && this.#native.call('is_control', id) === 1;
  }

  /** Returns the ids of a whole text, with BOS and EOS if the file's tokenizer adds them.
   * @param {string} text @param {Pause} [pause] */
  async whole(text, pause) {
    const ids = await this.#begun(text || this.eos === null ? text : null, pause);
    return this.eos === null ? ids : [...ids, this.eos];
  }

  /** Returns the ids of a text, with a BOS if the tokenizer adds one or if the text is empty, because a prompt needs at
   * least one token.
   * @param {string | null} text null for an empty text to which the caller appends an end token
   * @param {Pause} [pause] */
  #begun(text, pause = NO_PAUSE) {
    return this.encodeAll(text ?? '', { bos: this.addsBos || text === '' }, pause, 'context-exceeded');
  }

  /** Ids of the tokens that end an answer, ascending. Tests each id of the vocabulary at each access. */
  get endTokens() {
    return this.#native.where('is_end', this.size);
  }

  /** The chat template in use. Only valid after prompted() with messages. */
  get template() {
    return /** @type {ChatTemplate} */ (this.#template);
  }

  /** Source of the file's chat template; '' for a Gemma file without a template, which uses Gemma's (template.js); null
   * for any other file without a template. */
  get templateSource() {
    const architecture = this.#native.text('architecture') ?? '';
    return this.#native.text('chat_template') || (/^gemma[23]?$/.test(architecture) ? '' : null);
  }

  /** @returns {Promise<ChatTemplate>} */
  async #makeTemplate() {
    const source = this.templateSource;
    if (source === null) throw noTemplate();
    const { templateOf } = await this.#load('template');
    return templateOf(source, this, this.#native.where('is_control', this.size), this.#id('eos'));
  }
}
