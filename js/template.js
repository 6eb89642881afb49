/* template: messages -> ids, through the chat template that the GGUF carries (Jinja).
 *
 * User text never becomes a control token: a seam (noncharacters that occur nowhere else) is put
 * inside all in a message that reads like one, and at its edges where template text could complete
 * one. The template still sees real text, so trim and conditions work. Control tokens are matched
 * in its output; then the seams go, and the rest is tokenised as plain text.
 * Templates are strangers': they run with limits on steps, time and size. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { GemmaError, wrapped } from './errors.js';

const LIMITS = { steps: 2_000_000, milliseconds: 2000, characters: 1 << 25, items: 1 << 17 };

/** @typedef {{ role: string, content: string }} Message */
/** What the cache holds of a conversation: seamed text, and its ids.
 * @typedef {{ text: string, ids: number[] }} Prefix */

export class ChatTemplate {
  #program;
  #vocabulary;
  /** Control pieces in small letters, to look for their parts. */
  #pieces;
  /** A control piece; and a character that begins one in any case (templates may change it). */
  #exact;
  #begins;
  #seam = newSeam();

  /** control: pieces and ids; encode: plain text to ids; variables: bos_token and the like.
   * @param {string} source
   * @param {{ control: Map<string, number>, encode: (text: string) => ArrayLike<number>,
   *   bos: number | null, variables: Record<string, string> }} vocabulary */
  constructor(source, vocabulary) {
    this.#vocabulary = vocabulary;
    const names = [...vocabulary.control.keys()].sort((a, b) => b.length - a.length);
    const any = names.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|') || '(?!)';
    this.#exact = new RegExp(any, 'g');
    this.#begins = new RegExp(`(?=${any})[^]`, 'giu');
    this.#pieces = names.map((name) => name.toLowerCase());
    this.#program = guarded(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
  }

  /** Uses prefix.ids again when the rendered text begins with prefix.text. Gives the seamed text too.
   * @param {Message[]} messages @param {Prefix} [prefix] */
  apply(messages, prefix) {
    while (messages.some((m) => m.content.includes(this.#seam))) this.#seam = newSeam();
    const text = this.#render(messages.map(({ role, content }) => {
      return { role: role === 'model' ? 'assistant' : role, content: this.protect(content) };
    }));
    // Reuse is safe only where a control token begins: nothing merges across it.
    const rest = prefix && text.startsWith(prefix.text) ? text.slice(prefix.text.length) : '';
    if (prefix && rest.search(this.#exact) === 0) {
      return { ids: [...prefix.ids, ...this.#tokens(rest)], text };
    }
    return { ids: this.#oneBos(this.#tokens(text)), text };
  }

  /** Seam all that could be read as (part of) a control token. @param {string} content */
  protect(content) {
    const core = content.trim();
    if (!core) return content;
    const { head, tail } = this.#edges(core.toLowerCase());
    const inside = core.replace(this.#begins, `$&${this.#seam}`);
    const seamed = (head ? this.#seam : '') + inside + (tail ? this.#seam : '');
    return content.replace(core, () => seamed);
  }

  /** Whether text in front (head) or behind (tail) could complete a control piece. @param {string} text */
  #edges(text) {
    let head = false, tail = false;
    for (const piece of this.#pieces) {
      head ||= piece.includes(text);
      for (let n = 1; n < piece.length; n++) {
        head ||= text.startsWith(piece.slice(-n));
        tail ||= text.endsWith(piece.slice(0, n));
      }
      if (head && tail) break;
    }
    return { head, tail };
  }

  /** @param {Message[]} messages */
  #render(messages) {
    const environment = /** @type {any} */ (new Environment());
    const { variables } = this.#vocabulary;
    const globals = { ...variables, ...builtins(), messages, add_generation_prompt: true };
    for (const [name, value] of Object.entries(globals)) environment.set(name, value);
    return String(guarded(() => new LimitedInterpreter(environment).run(this.#program)).value);
  }

  /** @param {string} text seamed */
  #tokens(text) {
    const { control, encode } = this.#vocabulary;
    /** @type {number[]} */
    const ids = [];
    /** @param {string} part */
    const plain = (part) => {
      for (const id of Array.from(encode(part.replaceAll(this.#seam, '')))) ids.push(id);
    };
    let done = 0;
    for (const { 0: piece, index } of text.matchAll(this.#exact)) {
      plain(text.slice(done, index));
      ids.push(/** @type {number} */ (control.get(piece)));
      done = index + piece.length;
    }
    plain(text.slice(done));
    return ids;
  }

  /** The template may or may not write a BOS; exactly one remains. @param {number[]} ids */
  #oneBos(ids) {
    const { bos } = this.#vocabulary;
    if (bos === null) return ids;
    const first = ids.findIndex((id) => id !== bos);
    return [bos, ...ids.slice(first < 0 ? ids.length : first)];
  }
}

/** Four random noncharacters: valid in a string, never assigned, not white space. */
function newSeam() {
  const random = crypto.getRandomValues(new Uint8Array(4));
  return String.fromCharCode(...Array.from(random, (x) => 0xfdd0 + x % 32));
}

/** No date: the same messages give the same prompt. */
function builtins() {
  return {
    true: true, false: false, none: null, True: true, False: false, None: null,
    /** @param {unknown} message */
    raise_exception(message) {
      throw new GemmaError('template-error', `the model's chat template says: ${message}`);
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

/** @param {keyof typeof LIMITS} what @param {number} value */
function limit(what, value) {
  if (value <= LIMITS[what]) return;
  throw new GemmaError('template-error', "the model's chat template runs away",
    { expected: `at most ${LIMITS[what]} ${what}`, got: value });
}

// The types of this dependency do not resolve under Node's rules for modules.
/** @type {new (environment: any) => any} */
const AnyInterpreter = /** @type {any} */ (Interpreter);

class LimitedInterpreter extends AnyInterpreter {
  #steps = 0;
  #start = performance.now();

  /** @param {any} statement @param {any} environment */
  evaluate(statement, environment) {
    limit('steps', ++this.#steps);
    if (this.#steps % 16 === 0) limit('milliseconds', performance.now() - this.#start);
    const result = super.evaluate(statement, environment);
    if (typeof result.value === 'string') limit('characters', result.value.length);
    if (Array.isArray(result.value)) limit('items', result.value.length);
    return result;
  }
}

/** @template T @param {() => T} f @returns {T} */
function guarded(f) {
  return wrapped('template-error', "the model's chat template failed", f);
}
