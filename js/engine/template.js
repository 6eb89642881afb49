/* template: messages -> ids, through the chat template that the GGUF carries (Jinja).
 *
 * Text of messages never becomes a control token: the interpreter knows which characters the template wrote itself
 * (interpreter.js), and control tokens are matched in runs of those only. All else is tokenised as plain text.
 * Text that a template selects by text of messages (a condition, a key) is its own, but no control token may be put
 * together out of such texts. A condition on the name of a control token is refused: with it a template could copy
 * names out of messages. */
import { ModelError } from '../errors.js';
import { compiled, hasSentinel, limit, traced } from './interpreter.js';
/** @import { Prefix } from '../protocol.js' */

/** Stands where text of the template and other text meet; ESCAPE and a digit stand for the two in texts. */
const SENTINEL = '\ufdd0';
const ESCAPE = '\ufdd1';
/** Takes the place of the first character of a name. */
const OTHER = '\ufdd2';

/** Tokens around calls and results that some files have as pieces of any text: users' texts must not name them. */
const MARKS = ['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>'];

/** Used for Gemma files without a template. A system message is put before the first question. */
const GEMMA = `{{ bos_token }}{% set ns = namespace(lead='') %}{% for m in messages %}
{%- if m.role == 'system' %}{% set ns.lead = m.content + '\\n\\n' %}{% else %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + ns.lead }}{% set ns.lead = '' %}
{{- (m.content | trim) + '<end_of_turn>\\n' }}{% endif %}{% endfor %}
{{- '<start_of_turn>model\\n' if add_generation_prompt }}`;

/** As templates take them; with more than these where tools are used.
 * @typedef {{ role: string, content: any }} Message */

export class ChatTemplate {
  #program;
  #vocabulary;
  /** Names of control tokens. */
  #tree;
  #longest;
  /** What they begin with. */
  #starts;
  /** What templates may call. @type {Record<string, unknown>} */
  #builtins = builtins();

  /** control: pieces and ids; marks: those of them that the tokenizer would see in any text; encode: plain text to
   * ids; variables: bos_token and the like.
   * @param {string} source
   * @param {{ control: Map<string, number>, marks?: string[], encode: (text: string) => number[],
   *   bos: number | null, variables: Record<string, string> }} vocabulary */
  constructor(source, vocabulary) {
    this.#vocabulary = vocabulary;
    const names = [...vocabulary.control.keys()];
    limit('characters of control tokens', names.join('').length);
    this.#tree = tree(names);
    this.#longest = names.reduce((most, { length }) => Math.max(most, length), 0);
    const firsts = new Set(names.map((name) => `\\u{${name.codePointAt(0)?.toString(16)}}`));
    this.#starts = new RegExp(`[${[...firsts].join('')}]`, 'gu');
    this.#program = guarded(() => compiled(source));
    if (!ASKS_FOR_DATE.test(source)) this.#builtins.strftime_now = strftime;
  }

  /** Uses prefix.ids again when the rendered text begins with prefix.text. begin: what the answer begins with. Returns
   * the text with sentinels before it too, and `cut` of a prefix that ends inside a character.
   * @param {Message[]} messages @param {{ prefix?: Prefix, begin?: string, tools?: object[] }} [more] */
  apply(messages, { prefix, begin = '', tools } = {}) {
    const said = messages.map(({ role, ...more }) => ({ role: role === 'model' ? 'assistant' : role, ...more }));
    const written = this.#render(said, tools);
    this.#checkCopies(said, tools, written);
    const text = written.parts.map((run, i) => (i % 2 ? this.protect(run) : escaped(run))).join('');
    const whole = text + this.protect(begin);
    // Reuse is safe only at the end, or where a control token begins: nothing merges across it.
    const rest = prefix && whole.startsWith(prefix.text) ? whole.slice(prefix.text.length) : '';
    if (prefix && (whole === prefix.text || (!prefix.cut && this.#match(rest, 0)))) {
      return { ids: [...prefix.ids, ...this.#tokens(rest)], text, cut: prefix.cut };
    }
    return { ids: this.#oneBos(this.#tokens(whole)), text };
  }

  /** Throws if the names of control tokens in messages change which control tokens the template writes.
   * @param {Message[]} messages @param {object[] | undefined} tools
   * @param {{ parts: string[], compares: boolean }} written */
  #checkCopies(messages, tools, written) {
    let names = 0;
    /** A value with these names changed. @param {any} value @returns {any} */
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
    const otherTools = without(tools);
    if (!names && !written.compares) return;
    const control = (/** @type {string[]} */ parts) =>
      parts
        .flatMap((run, i) => {
          return i % 2 ? [] : [...this.#found(run)].map(({ at, end }) => run.slice(at, end));
        })
        .join(SENTINEL);
    // Names that only several texts together hold cannot be changed.
    if (names && control(this.#render(others, otherTools).parts) === control(written.parts)) return;
    throw new ModelError(
      'template-error',
      "The model's chat template writes control tokens because messages hold the names of" +
        ' control tokens. Change these names in the messages, or send the prompt as a string.',
    );
  }

  /** What becomes of a tool: '' if the template takes none. */
  get probe() {
    const messages = [{ role: 'user', content: 'x' }];
    const parameters = { type: 'object', properties: { y: { type: 'string', description: 'z' } }, required: ['y'] };
    const tool = { type: 'function', function: { name: 'probe', description: 'a tool', parameters } };
    try {
      const [text, without] = [[tool], undefined].map((tools) => this.#render(messages, tools).parts.join(''));
      return text === without ? '' : text;
    } catch {
      return '';
    }
  }

  /** Marks text as not the template's. @param {string} text */
  protect(text) {
    return text && SENTINEL + escaped(text) + SENTINEL;
  }

  /** Length of the longest name of a control token there, 0: none. @param {string} text @param {number} at */
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

  /** Control tokens of a text. @param {string} text */
  *#found(text) {
    limit('product', (text.length * this.#longest) / 2);
    let done = 0;
    for (const { index: at } of text.matchAll(this.#starts)) {
      const length = at < done ? 0 : this.#match(text, at);
      if (!length) continue;
      done = at + length;
      yield { at, end: done };
    }
  }

  /** @param {Message[]} messages @param {object[]} [tools] */
  #render(messages, tools) {
    const own = { ...this.#vocabulary.variables, ...this.#builtins, add_generation_prompt: true };
    const given = { messages, ...(tools && { tools }) };
    /** The same texts are asked about at many steps. @type {Map<string, boolean>} */
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
          if (!hasSentinel(its.slice(at, end))) continue;
          throw new ModelError(
            'template-error',
            "The model's chat template puts a control token together out of texts that messages select." +
              ' Send the prompt as a string, or use a file with another chat template.',
          );
        }
      }
      return { parts, compares };
    });
  }

  /** @param {string} text with sentinels */
  #tokens(text) {
    const { control, encode } = this.#vocabulary;
    /** @type {number[]} */
    const ids = [];
    let plain = '';
    const flush = () => {
      for (const part of this.#apart(plain)) for (const id of encode(part)) ids.push(id);
      plain = '';
    };
    for (const [i, part] of text.split(SENTINEL).entries()) {
      const run = part.replace(/\ufdd1([01])/g, (_, digit) => (digit === '0' ? SENTINEL : ESCAPE));
      let done = 0;
      for (const { at, end } of i % 2 ? [] : this.#found(run)) {
        plain += run.slice(done, at);
        flush();
        ids.push(/** @type {number} */ (control.get(run.slice(at, end))));
        done = end;
      }
      plain += run.slice(done);
    }
    flush();
    return ids;
  }

  /** A text cut inside what the tokenizer would take for a mark. @param {string} text */
  #apart(text) {
    const marks = (this.#vocabulary.marks ?? []).filter((mark) => text.includes(mark));
    return marks.reduce(
      (parts, mark) =>
        parts.flatMap((part) => {
          const ends = part.split(mark);
          return ends.map((end, i) => (i ? mark.slice(1) : '') + end + (i < ends.length - 1 ? mark[0] : ''));
        }),
      [text],
    );
  }

  /** The template may or may not write a BOS; exactly one remains. @param {number[]} ids */
  #oneBos(ids) {
    const { bos } = this.#vocabulary;
    if (bos === null) return ids;
    const first = ids.findIndex((id) => id !== bos);
    return [bos, ...ids.slice(first < 0 ? ids.length : first)];
  }
}

/** What a template needs of a vocabulary.
 * @typedef {{ bos: number | null, addsBos: boolean, decode: (ids: number[], special: boolean) => string,
 *   encode: (text: string) => number[], idOf: (name: string) => number | null }} Tokenizer */

/** Returns the template of a vocabulary. @param {string} source '' for Gemma's
 * @param {Tokenizer} vocabulary
 * @param {number[]} control ids of control tokens @param {number | null} eos */
export function templateOf(source, vocabulary, control, eos) {
  const { bos, addsBos } = vocabulary;
  /** @param {number | null} id */
  const name = (id) => (id === null ? '' : vocabulary.decode([id], true));
  const ids = new Map(control.map((id) => [name(id), id]));
  const marks = [];
  for (const mark of MARKS) {
    const id = vocabulary.idOf(mark);
    if (id === null || control.includes(id)) continue;
    ids.set(mark, id);
    marks.push(mark);
  }
  return new ChatTemplate(source || GEMMA, {
    control: ids,
    marks,
    encode: (text) => vocabulary.encode(text),
    bos: addsBos ? bos : null,
    variables: { bos_token: name(bos), eos_token: name(eos) },
  });
}

/** @param {string} text */
const escaped = (text) => text.replace(/[\ufdd0\ufdd1]/g, (c) => ESCAPE + (c === SENTINEL ? 0 : 1));

/** Templates that can do without the date get none: the same messages give the same prompt, whatever the day. */
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
      throw new ModelError('template-error', `The model's chat template refuses the messages: ${short(message)}.`);
    },
    /** @param {number} a @param {number} [b] @param {number} [step] */
    range(a, b, step = 1) {
      const [start, stop] = b === undefined ? [0, a] : [a, b];
      const length = Math.max(Math.ceil((stop - start) / step), 0);
      limit('items', length);
      return Array.from({ length }, (_, i) => start + i * step);
    },
  };
}

/** Marks the end of a name in a tree. */
const END = -1;
/** By UTF-16 code unit. @typedef {Map<number, any>} Tree */
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

/** @param {unknown} text */
const short = (text) => String(text).slice(0, 300);

/** @template T @param {() => T} f @returns {T} */
function guarded(f) {
  try {
    return f();
  } catch (error) {
    if (error instanceof ModelError) throw error;
    throw new ModelError(
      'template-error',
      `The model's chat template failed: ${short(error)}. Send the prompt as a string.`,
    );
  }
}
