/* template: messages -> ids, through the chat template that the GGUF carries (Jinja).
 *
 * User text can never become a control token, whatever the template does with it: before the
 * template runs, a seam (a few noncharacters that occur nowhere else) is put inside everything in a
 * message that reads like a control token, and at its edges where template text could complete one.
 * The template still sees real text, so trim, conditions and concatenation work. Afterwards control
 * tokens are matched in the output, seams keep user text from matching, the seams are taken out,
 * and what lies between control tokens is tokenised as plain text.
 * Templates come from files of strangers: they run with limits on steps, time and size. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { GemmaError } from './errors.js';

const LIMITS = { steps: 2_000_000, milliseconds: 2000, characters: 1 << 25, items: 1 << 17 };

/** @typedef {{ role: string, content: string }} Message */
/** What a conversation has in the cache already: seamed text, and the ids it was evaluated as.
 * @typedef {{ text: string, ids: number[] }} Prefix */

export class ChatTemplate {
  #program;
  #pieces;
  #encode;
  #bos;
  #variables;
  #seam = newSeam();

  /**
   * @param {string} source
   * @param {{ control: Map<string, number>, encode: (text: string) => ArrayLike<number>,
   *   bos: number | null, variables: Record<string, string> }} vocabulary control pieces and their
   *   ids; plain text to ids; variables of the template: bos_token and the like
   */
  constructor(source, { control, encode, bos, variables }) {
    this.#pieces = new ControlPieces(control);
    this.#encode = encode;
    this.#bos = bos;
    this.#variables = variables;
    this.#program = guarded(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
  }

  /**
   * @param {Message[]} messages
   * @param {Prefix} [prefix] ids to use again when the rendered text begins with prefix.text
   * @returns {{ ids: number[], text: string }} text is the seamed text, for the next prefix
   */
  apply(messages, prefix) {
    while (messages.some((m) => m.content.includes(this.#seam))) this.#seam = newSeam();
    const text = this.#render(messages.map(({ role, content }) => {
      return { role: role === 'model' ? 'assistant' : role, content: this.protect(content) };
    }));
    if (prefix && this.#continues(text, prefix.text)) {
      const rest = this.#tokens(text.slice(prefix.text.length));
      return { ids: [...prefix.ids, ...rest], text };
    }
    return { ids: this.#oneBos(this.#tokens(text)), text };
  }

  /** Seam everything in content that could be read as (part of) a control token.
   * @param {string} content */
  protect(content) {
    const core = content.trim();
    if (!core) return content;
    const { head, tail } = this.#pieces.edges(core);
    let seamed = head ? this.#seam : '';
    for (let at = 0; at < core.length; at++) {
      seamed += this.#pieces.reads(core, at) ? core[at] + this.#seam : core[at];
    }
    if (tail) seamed += this.#seam;
    const from = content.indexOf(core);
    return content.slice(0, from) + seamed + content.slice(from + core.length);
  }

  /** Reuse is safe only where a control token begins: nothing merges across it.
   * @param {string} text @param {string} before */
  #continues(text, before) {
    return text.startsWith(before) && this.#pieces.at(text, before.length) !== null;
  }

  /** @param {Message[]} messages */
  #render(messages) {
    const environment = /** @type {any} */ (new Environment());
    const globals = { ...this.#variables, ...builtins(), messages, add_generation_prompt: true };
    for (const [name, value] of Object.entries(globals)) environment.set(name, value);
    return String(guarded(() => new LimitedInterpreter(environment).run(this.#program)).value);
  }

  /** @param {string} text seamed */
  #tokens(text) {
    /** @type {number[]} */
    const ids = [];
    /** @param {number} from @param {number} to */
    const plain = (from, to) => {
      const part = text.slice(from, to).replaceAll(this.#seam, '');
      if (part) for (const id of Array.from(this.#encode(part))) ids.push(id);
    };
    let done = 0;
    for (let at = 0; at < text.length; at = Math.max(at + 1, done)) {
      const piece = this.#pieces.at(text, at);
      if (!piece) continue;
      plain(done, at);
      ids.push(piece.id);
      done = at + piece.length;
    }
    plain(done, text.length);
    return ids;
  }

  /** The template may or may not write a BOS; exactly one remains. @param {number[]} ids */
  #oneBos(ids) {
    if (this.#bos === null) return ids;
    const first = ids.findIndex((id) => id !== this.#bos);
    return [this.#bos, ...ids.slice(first < 0 ? ids.length : first)];
  }
}

/** Look-up of control pieces in text. */
class ControlPieces {
  #ids;
  /** @type {Map<string, number[]>} lengths by first character, longest first */
  #lengths = new Map();
  #folded;

  /** @param {Map<string, number>} ids */
  constructor(ids) {
    this.#ids = ids;
    this.#folded = new Set([...ids.keys()].map(fold));
    for (const piece of [...ids.keys(), ...this.#folded]) {
      const lengths = this.#lengths.get(piece[0]) ?? [];
      if (!lengths.includes(piece.length)) lengths.push(piece.length);
      this.#lengths.set(piece[0], lengths.sort((a, b) => b - a));
    }
  }

  /** The longest control piece at text[at], exactly as written. @param {string} text @param {number} at */
  at(text, at) {
    for (const length of this.#lengths.get(text[at]) ?? []) {
      const id = this.#ids.get(text.slice(at, at + length));
      if (id !== undefined) return { id, length };
    }
    return null;
  }

  /** Whether text[at] begins what reads like a control piece in upper or lower case, which a
   * template may change. @param {string} text @param {number} at */
  reads(text, at) {
    const lengths = this.#lengths.get(fold(text[at]));
    return lengths?.some((n) => this.#folded.has(fold(text.slice(at, at + n)))) ?? false;
  }

  /** Whether text in front (head) or behind (tail) could complete a control piece.
   * @param {string} core */
  edges(core) {
    const text = fold(core);
    let head = false, tail = false;
    for (const piece of this.#folded) {
      // All of the text inside a piece, an end of a piece in front, a beginning of one behind.
      head ||= piece.includes(text);
      for (let n = 1; n < piece.length; n++) {
        head ||= text.startsWith(piece.slice(-n));
        tail ||= text.endsWith(piece.slice(0, n));
      }
      if (head && tail) break;
    }
    return { head, tail };
  }
}

/** ASCII lower case; keeps every index. @param {string} text */
const fold = (text) => text.replace(/[A-Z]/g, (c) => c.toLowerCase());

/** Four random noncharacters: valid in a string, never assigned, not white space. */
function newSeam() {
  const random = crypto.getRandomValues(new Uint8Array(4));
  return String.fromCharCode(...Array.from(random, (x) => 0xfdd0 + x % 32));
}

/** Values that every template may use. The date is left out on purpose: the same messages give the
 * same prompt. */
function builtins() {
  return {
    true: true, false: false, none: null, True: true, False: false, None: null,
    /** @param {unknown} message */
    raise_exception(message) {
      throw new GemmaError('template-error', `the model's chat template says: ${message}`);
    },
    /** @param {number} a @param {number} [b] @param {number} [step] */
    range(a, b, step = 1) {
      const [start, stop] = b === undefined || b === null ? [0, a] : [a, b];
      const count = Math.ceil((stop - start) / step);
      if (!(count <= LIMITS.items)) throw tooMuch('items', LIMITS.items);
      return Array.from({ length: Math.max(count, 0) }, (_, i) => start + i * step);
    },
  };
}

/** @param {string} what @param {number} limit */
function tooMuch(what, limit) {
  return new GemmaError('template-error', "the model's chat template runs away",
    { expected: `at most ${limit} ${what}`, got: 'more' });
}

// The types of this dependency do not resolve under Node's rules for modules.
/** @type {new (environment: any) => any} */
const AnyInterpreter = /** @type {any} */ (Interpreter);

class LimitedInterpreter extends AnyInterpreter {
  #steps = 0;
  #deadline = performance.now() + LIMITS.milliseconds;

  /** Called for every node of the template. @param {any} statement @param {any} environment */
  evaluate(statement, environment) {
    if (++this.#steps > LIMITS.steps) throw tooMuch('steps', LIMITS.steps);
    if (this.#steps % 16 === 0 && performance.now() > this.#deadline) {
      throw tooMuch('milliseconds', LIMITS.milliseconds);
    }
    const result = super.evaluate(statement, environment);
    const { value } = result;
    if (typeof value === 'string' && value.length > LIMITS.characters) {
      throw tooMuch('characters', LIMITS.characters);
    }
    if (Array.isArray(value) && value.length > LIMITS.items) throw tooMuch('items', LIMITS.items);
    return result;
  }
}

/** @template T @param {() => T} f @returns {T} */
function guarded(f) {
  try {
    return f();
  } catch (cause) {
    if (cause instanceof GemmaError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new GemmaError('template-error', `the model's chat template failed: ${why}`, { cause });
  }
}
