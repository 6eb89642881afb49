/* template: converts messages to token ids with the chat template (Jinja) of the GGUF file.
 *
 * Message text never becomes a control token. The interpreter records which characters the template wrote
 * (interpreter.js), and only runs of these can match control tokens; all other text is encoded as plain text.
 * A template is rejected if it could copy the name of a control token from a message into its own text, by testing the
 * message for the name. */
import { ModelError } from '../errors.js';
import * as errors from './errors.js';
import { compiled, hasSentinel, limit, traced } from './interpreter.js';
import { lastBytes, prefixOf } from './prefix.js';
import { SWITCH, thoughtMarks } from './thinking.js';
import { ThoughtReader } from './thoughts.js';
/** @import { Prefix } from '../protocol.js' */
/** @import { ThoughtMarks } from './thinking.js' */

/** Character that separates text of the template from other text. Where SENTINEL or ESCAPE occur in a text, they are
 * replaced by ESCAPE and a digit. */
const SENTINEL = '\ufdd0';
const ESCAPE = '\ufdd1';
/** Character that replaces the first character of a control token's name, so that the text is not a token
 * name (#checkCopies()). */
const OTHER = '\ufdd2';

/** Names of tokens around tool calls, their results and thoughts. Some tokenizers match these names in any text, so
 * those in messages are split. */
const MARKS = ['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<think>', '</think>'];

/** The chat template for Gemma files that have none. It puts a system message at the beginning of the next message. */
const GEMMA = `{{ bos_token }}{% set ns = namespace(lead='') %}{% for m in messages %}
{%- if m.role == 'system' %}{% set ns.lead = m.content + '\\n\\n' %}{% else %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + ns.lead }}{% set ns.lead = '' %}
{{- (m.content | trim) + '<end_of_turn>\\n' }}{% endif %}{% endfor %}
{{- '<start_of_turn>model\\n' if add_generation_prompt }}`;

/** A message as chat templates expect it. In conversations with tools, messages have further properties.
 * @typedef {{ role: string, content: any, thoughts?: string }} Message */
/** Variables for a template, besides messages. thinking: undefined for the template's default.
 * @typedef {{ tools?: object[], thinking?: boolean }} Variables */

/** One compiled chat template, with the control tokens of its tokenizer. */
export class ChatTemplate {
  #program;
  #tokenizer;
  #tree;
  #longest;
  #starts;
  #knowsDeveloper;
  #readsCodes;
  /** @type {Record<string, unknown>} */
  #builtins = builtins();

  /** Compiles a template. control: ids of control tokens by name; marks: names that the tokenizer matches in any
   * text; thoughts: the tokens around thoughts; isPhi3: whether the vocabulary is Phi-3's; encode: returns the ids
   * of plain text; variables: bos_token and others. Throws `template-error`.
   * @param {string} source
   * @param {{ control: Map<string, number>, marks?: string[], thoughts?: ThoughtMarks, isPhi3?: boolean,
   *   encode: (text: string) => number[], bos: number | null, variables: Record<string, string> }} tokenizer */
  constructor(source, tokenizer) {
    this.#tokenizer = tokenizer;
    const names = [...tokenizer.control.keys()].filter(Boolean); // a hostile file can have a token without a name
    limit('characters of control tokens', names.join('').length);
    this.#tree = tree(names);
    this.#longest = names.reduce((most, { length }) => Math.max(most, length), 0);
    const firsts = new Set(names.map((name) => `\\u{${name.codePointAt(0)?.toString(16)}}`));
    this.#starts = new RegExp(`[${[...firsts].join('')}]`, 'gu');
    this.#program = guarded(() => compiled(source));
    this.#knowsDeveloper = source.includes('developer');
    this.#readsCodes = source.includes('source_lang_code');
    if (!ASKS_FOR_DATE.test(source)) this.#builtins.strftime_now = strftime;
  }

  /** Renders messages. Reuses prefix.ids if the rendered text begins with prefix.text. begin: text that the answer
   * begins with; thought: text that its thought begins with. Returns the ids, the text before the answer with
   * sentinels, and prefix.cut if the prefix is reused. Throws `template-error`. @param {Message[]} messages
   * @param {{ prefix?: Prefix, begin?: string, thought?: string } & Variables} [more] */
  apply(messages, { prefix, begin = '', thought = '', ...variables } = {}) {
    const given = messages.map((message) => this.#named(message));
    const { said, written } = this.#accepted(given, variables);
    this.#checkCopies(said, variables, written);
    const text = written.parts.map((run, i) => (i % 2 ? this.protect(run) : escaped(run))).join('');
    const whole = this.answered(text, thought, begin);
    // A prefix can be reused only at the end of the text or before a control token, because elsewhere its last token
    // could merge with the next token.
    const rest = prefix && whole.startsWith(prefix.text) ? whole.slice(prefix.text.length) : '';
    if (prefix && (whole === prefix.text || (!prefix.cut && this.#match(rest, 0)))) {
      return { ids: [...prefix.ids, ...this.#tokens(rest)], text, cut: prefix.cut };
    }
    return { ids: this.#oneBos(this.#tokens(whole)), text };
  }

  /** Returns a message with the names that templates use: renames `thoughts` to `reasoning_content`, the role `model`
   * to `assistant`, and the role `developer` to `system` unless the template knows `developer`. Throws `bad-option` if
   * language codes are malformed or if the template does not read them. @param {Message} message @returns {Message} */
  #named({ role, content, thoughts, ...more }) {
    const name = role === 'model' ? 'assistant' : role === 'developer' && !this.#knowsDeveloper ? 'system' : role;
    if (role === 'user' && Array.isArray(content)) this.#checkCodes(content[0]);
    return { role: name, content, ...more, ...(thoughts && { reasoning_content: thoughts }) };
  }

  /** @param {Record<string, string>} part of a message */
  #checkCodes(part) {
    if (!this.#readsCodes) throw errors.noLanguageCodes();
    for (const name of ['source_lang_code', 'target_lang_code']) {
      if (/^[a-z]{2,3}([-_][a-z0-9]+)*$/i.test(part[name])) continue;
      throw errors.badLanguageCode(name, part[name]);
    }
  }

  /** Renders messages. If the template rejects them, joins successive messages of the user; if that fails, also
   * turns system messages into messages of the user, as Gemma's documentation advises. @param {Message[]} messages
   * @param {Variables} variables */
  #accepted(messages, variables) {
    const attempts = [messages];
    if (joined(messages).length < messages.length) attempts.push(joined(messages));
    if (messages.some(isSystem)) attempts.push(joined(messages.map((one) => (isSystem(one) ? asUser(one) : one))));
    let refusal;
    for (const said of attempts) {
      try {
        return { said, written: this.#render(said, variables) };
      } catch (error) {
        if (!(error instanceof errors.Refusal)) throw error;
        refusal ??= error;
      }
    }
    throw refusal;
  }

  /** Throws `template-error` if names of control tokens in messages influence which control tokens the template
   * writes. To find out, renders the messages with these names changed, and compares. @param {Message[]} messages
   * @param {Variables} variables @param {{ parts: string[], compares: boolean }} written */
  #checkCopies(messages, variables, written) {
    let names = 0;
    /** @param {any} value @returns {any} */
    const without = (value) => {
      if (typeof value === 'string') {
        let text = '';
        let done = 0;
        for (const { at } of this.#found(value)) {
          const first = String.fromCodePoint(/** @type {number} */ (value.codePointAt(at)));
          text += value.slice(done, at) + OTHER.repeat(first.length);
          done = at + first.length;
          names++;
        }
        return text + value.slice(done);
      }
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(without);
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [without(key), without(one)]));
    };
    const others = messages.map(({ role, ...more }) => ({ role, ...without(more) }));
    const otherTools = without(variables.tools);
    if (!names && !written.compares) return;
    const control = (/** @type {string[]} */ parts) =>
      parts
        .flatMap((run, i) => {
          return i % 2 ? [] : [...this.#found(run)].map(({ at, end }) => run.slice(at, end));
        })
        .join(SENTINEL);
    // If `names` is 0, the template compared a name that appears only in joined texts. Such a name cannot be changed,
    // so the messages are rejected.
    if (names && control(this.#render(others, { ...variables, tools: otherTools }).parts) === control(written.parts))
      return;
    throw errors.tokensCopied();
  }

  /** Returns the text that the template renders for a sample tool, or '' if it ignores tools. */
  get probe() {
    const messages = [{ role: 'user', content: 'x' }];
    const parameters = { type: 'object', properties: { y: { type: 'string', description: 'z' } }, required: ['y'] };
    const tool = { type: 'function', function: { name: 'probe', description: 'a tool', parameters } };
    try {
      const [text, without] = [[tool], undefined].map((tools) => this.#render(messages, { tools }).parts.join(''));
      return text === without ? '' : text;
    } catch {
      return '';
    }
  }

  /** Encloses text that the template did not write in sentinels. @param {string} text */
  protect(text) {
    return text && SENTINEL + escaped(text) + SENTINEL;
  }

  /** Returns a prompt followed by the beginning of its answer, with sentinels. If `text` is not empty, the thought
   * is complete. @param {string} prompt with sentinels @param {string} thought @param {string} text */
  answered(prompt, thought, text) {
    const { thoughts } = this.#tokenizer;
    if (!thought || !thoughts) return prompt + this.protect(text);
    const { begin, head, close, end, gap } = thoughts;
    const opening = prompt.endsWith(begin + head) ? '' : begin + head;
    return prompt + opening + this.protect(thought) + (text && close + end + gap + this.protect(text));
  }

  lastBytes = lastBytes;

  /** Returns the prefix for the turn after an answer, or the reason why there is none.
   * @param {import('./prefix.js').Answer} answer @param {string} finishReason */
  prefixOf(answer, finishReason) {
    return prefixOf((...parts) => this.answered(...parts), answer, finishReason);
  }

  /** Returns a reader of the thoughts in an answer, or null if the vocabulary has no tokens that mark thoughts.
   * @param {number[]} prompt @param {{ thought?: string, budget?: number }} options
   * thought: beginning of a thought in the prompt */
  thoughtReader(prompt, { thought = '', budget }) {
    const { thoughts, encode } = this.#tokenizer;
    if (!thoughts) return null;
    const [begin, end] = [thoughts.begin, thoughts.end].map((name) => this.#tokens(name)[0]);
    const [head, close, gap] = [thoughts.head, thoughts.close, thoughts.gap].map((text) => encode(text));
    const inside = prompt.lastIndexOf(begin) > prompt.lastIndexOf(end);
    const ids = { begin, end, head, close, gap };
    return new ThoughtReader(thoughts, ids, { inside, begun: inside && thought !== '', budget });
  }

  /** Returns the length of the longest name of a control token at an offset, or 0 if there is none.
   * @param {string} text
   * @param {number} at */
  #match(text, at) {
    let found = 0;
    /** @type {Tree | undefined} */
    let node = this.#tree;
    for (let end = at; node && end < text.length; ) {
      node = node.get(text.charCodeAt(end++));
      if (node?.has(END)) found = end - at;
    }
    return found;
  }

  /** Yields the ranges of a text that are names of control tokens. @param {string} text */
  *#found(text) {
    limit('steps of one operation', (text.length * this.#longest) / 2);
    let done = 0;
    for (const { index: at } of text.matchAll(this.#starts)) {
      const length = at < done ? 0 : this.#match(text, at);
      if (!length) continue;
      done = at + length;
      yield { at, end: done };
    }
  }

  /** @param {Message[]} messages @param {Variables} variables */
  #render(messages, { tools, thinking }) {
    const own = {
      ...this.#tokenizer.variables,
      ...this.#builtins,
      add_generation_prompt: true,
      ...(thinking !== undefined && { [SWITCH]: thinking }),
    };
    const given = { messages, ...(tools && { tools }) };
    /** Whether texts contain the name of a control token. Many operations test the same texts.
     * @type {Map<string, boolean>} */
    const known = new Map();
    const names = (/** @type {string} */ text) => {
      const found = known.get(text) ?? !this.#found(text).next().done;
      known.set(text, found);
      return found;
    };
    return guarded(() => {
      const { parts, origin, compares } = traced(this.#program, { own, given, names });
      let from = 0;
      for (const [i, part] of parts.entries()) {
        const its = origin.slice(from, (from += part.length));
        for (const { at, end } of i % 2 === 0 && hasSentinel(its) ? this.#found(part) : []) {
          if (hasSentinel(its.slice(at, end))) throw errors.tokenAssembled();
        }
      }
      return { parts, compares };
    });
  }

  /** @param {string} text with sentinels */
  #tokens(text) {
    const { control, encode, isPhi3 } = this.#tokenizer;
    /** @type {number[]} */
    const ids = [];
    let plain = '';
    let strips = false;
    const flush = () => {
      for (const part of this.#apart(strips ? plain.trimStart() : plain)) for (const id of encode(part)) ids.push(id);
      plain = '';
    };
    for (const [i, part] of text.split(SENTINEL).entries()) {
      const run = part.replace(/\ufdd1([01])/g, (_, digit) => (digit === '0' ? SENTINEL : ESCAPE));
      let done = 0;
      for (const { at, end } of i % 2 ? [] : this.#found(run)) {
        plain += run.slice(done, at);
        flush();
        const name = run.slice(at, end);
        ids.push(/** @type {number} */ (control.get(name)));
        // Phi-3's tokenizer drops white space after most control tokens (`rstrip`), which a GGUF does not record.
        strips = isPhi3 === true && /^<\|(?!endoftext)/.test(name);
        done = end;
      }
      plain += run.slice(done);
    }
    flush();
    return ids;
  }

  /** Splits a text inside each of `marks` (token names) that it contains, so that the tokenizer does not match them.
   * @param {string} text */
  #apart(text) {
    const marks = (this.#tokenizer.marks ?? []).filter((mark) => text.includes(mark));
    return marks.reduce(
      (parts, mark) =>
        parts.flatMap((part) => {
          const ends = part.split(mark);
          return ends.map((end, i) => (i ? mark.slice(1) : '') + end + (i < ends.length - 1 ? mark[0] : ''));
        }),
      [text],
    );
  }

  /** @param {number[]} ids */
  #oneBos(ids) {
    const { bos } = this.#tokenizer;
    if (bos === null) return ids;
    const first = ids.findIndex((id) => id !== bos);
    return [bos, ...ids.slice(first < 0 ? ids.length : first)];
  }
}

/** @param {Message} message */
const isSystem = ({ role }) => role === 'system';
/** @param {Message} message @returns {Message} */
const asUser = (message) => ({ ...message, role: 'user' });

/** @param {Message[]} messages */
function joined(messages) {
  /** @type {Message[]} */
  const out = [];
  for (const message of messages) {
    const last = out[out.length - 1];
    const texts = [message.content, last?.content].every((content) => typeof content === 'string');
    if (message.role !== 'user' || last?.role !== 'user' || !texts) out.push({ ...message });
    else last.content += `\n\n${message.content}`;
  }
  return out;
}

/** The properties of the prompt encoder that a template needs.
 * @typedef {{ bos: number | null, addsBos: boolean, decode: (ids: number[], special: boolean) => string,
 *   encode: (text: string) => number[], idOf: (name: string) => number | null }} Tokenizer */

/** Compiles the chat template of a file. @param {string} source '' to use Gemma's template
 * @param {Tokenizer} tokenizer
 * @param {number[]} control ids of control tokens @param {number | null} eos */
export function templateOf(source, tokenizer, control, eos) {
  const { bos, addsBos } = tokenizer;
  /** @param {number | null} id */
  const name = (id) => (id === null ? '' : tokenizer.decode([id], true));
  const ids = new Map(control.map((id) => [name(id), id]));
  const marks = [];
  for (const mark of MARKS) {
    const id = tokenizer.idOf(mark);
    if (id === null || control.includes(id)) continue;
    ids.set(mark, id);
    marks.push(mark);
  }
  return new ChatTemplate(source || GEMMA, {
    control: ids,
    marks,
    thoughts: thoughtMarks((name) => ids.get(name) ?? null),
    encode: (text) => tokenizer.encode(text),
    isPhi3: ids.has('<|end|>') && ids.has('<|assistant|>') && tokenizer.idOf('</s>') !== null,
    bos: addsBos ? bos : null,
    variables: { bos_token: name(bos), eos_token: name(eos) },
  });
}

/** @param {string} text */
const escaped = (text) => text.replace(/[\ufdd0\ufdd1]/g, (c) => ESCAPE + (c === SENTINEL ? 0 : 1));

/** Matches templates that can be rendered without a date. They get no date, so that a prompt is the same on every
 * day. */
const ASKS_FOR_DATE = /strftime_now\s+is\s+(not\s+)?defined/;

/** @param {string} format */
function strftime(format) {
  const now = new Date();
  const name = (/** @type {Intl.DateTimeFormatOptions} */ which) => now.toLocaleDateString('en', which);
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  /** @type {Record<string, string | undefined>} */
  const parts = {
    Y: String(now.getFullYear()),
    y: two(now.getFullYear() % 100),
    m: two(now.getMonth() + 1),
    d: two(now.getDate()),
    B: name({ month: 'long' }),
    b: name({ month: 'short' }),
    A: name({ weekday: 'long' }),
    a: name({ weekday: 'short' }),
    H: two(now.getHours()),
    I: two(((now.getHours() + 11) % 12) + 1),
    M: two(now.getMinutes()),
    S: two(now.getSeconds()),
    p: now.getHours() < 12 ? 'AM' : 'PM',
    '%': '%',
  };
  return String(format).replace(/%(-?)([a-zA-Z%])/g, (all, short, letter) => {
    return (short ? parts[letter]?.replace(/^0(?=.)/, '') : parts[letter]) ?? all;
  });
}

function builtins() {
  return {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    /** @param {unknown} message */
    raise_exception(message) {
      throw errors.messagesRefused(message);
    },
    /** @param {number} a @param {number} [b] @param {number} [step] */
    range(a, b, step = 1) {
      const [start, stop] = b === undefined ? [0, a] : [a, b];
      const length = Math.max(Math.ceil((stop - start) / step), 0);
      limit('list items', length);
      return Array.from({ length }, (_, i) => start + i * step);
    },
  };
}

const END = -1;
/** A node of the trie of control token names: children by UTF-16 code unit. @typedef {Map<number, any>} Tree */
/** @param {string[]} pieces */
function tree(pieces) {
  /** @type {Tree} */
  const root = new Map();
  for (const piece of pieces) {
    let node = root;
    for (let i = 0; i < piece.length; i++) {
      const unit = piece.charCodeAt(i);
      if (!node.has(unit)) node.set(unit, new Map());
      node = node.get(unit);
    }
    node.set(END, node);
  }
  return root;
}

/** @template T @param {() => T} f @returns {T} */
function guarded(f) {
  try {
    return f();
  } catch (error) {
    if (error instanceof ModelError) throw error;
    throw errors.templateFailed(error);
  }
}
