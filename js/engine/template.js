/* template: messages -> ids, through the chat template that the GGUF carries (Jinja).
 *
 * User text never becomes a control token: a seam (noncharacters that occur nowhere else) is put
 * inside all in a message that reads like one, and at its edges where template text could complete
 * one. The template still sees real text, so trim and conditions work. Control tokens are matched
 * in its output; then the seams go, and the rest is tokenised as plain text.
 * Templates are strangers': they run with limits on work, time and size. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { GemmaError } from '../errors.js';
import { strip } from './strip.js';

/** size: of a value with all in it; product: of what one operation takes. */
const LIMITS = {
  milliseconds: 2000,
  work: 1 << 27,
  size: 1 << 22,
  product: 1 << 26,
  items: 1 << 17,
  'characters of template': 1 << 17,
  blanks: 500,
  'characters of control tokens': 1 << 19,
};
const STEP = 64,
  ITEM = 8;

/** Words that conversations and schemas are built of: they are not seamed where they are keys or name a type. */
const BUILT_OF = new Set(
  `type function name description parameters properties required items enum string number
  integer boolean object array null id tool_calls tool_call_id arguments role content response text assistant user
  tool`.split(/\s+/),
);

/** As templates take them; with more than these where tools are used.
 * @typedef {{ role: string, content: any }} Message */
/** What the cache holds of a conversation: seamed text, its seam, and its ids; of: which engine's and model's they are.
 * @typedef {{ of: string, text: string, seam: string, ids: number[] }} Prefix */

export class ChatTemplate {
  #program;
  #vocabulary;
  /** Control pieces, folded; trees of them, of them from behind, and of them as they are. */
  #pieces;
  #heads;
  #tails;
  #exact;
  #longest;
  /** What they begin with. */
  #starts;
  #seam = newSeam();
  /** What templates may call. @type {Record<string, unknown>} */
  #builtins = builtins();

  /** control: pieces and ids; marks: those of them that the tokenizer would see in any text; encode: plain text to
   * ids; variables: bos_token and the like.
   * @param {string} source
   * @param {{ control: Map<string, number>, marks?: string[], encode: (text: string) => ArrayLike<number>,
   *   bos: number | null, variables: Record<string, string> }} vocabulary */
  constructor(source, vocabulary) {
    this.#vocabulary = vocabulary;
    const names = [...vocabulary.control.keys()];
    this.#pieces = names.map(fold);
    limit('characters of control tokens', names.join('').length);
    this.#heads = tree(this.#pieces);
    this.#tails = tree(this.#pieces.map((piece) => [...piece].reverse()));
    this.#exact = names.every((name, i) => name === this.#pieces[i]) ? this.#heads : tree(names);
    this.#longest = names.reduce((most, { length }) => Math.max(most, length), 0);
    const starts = [...this.#heads.keys()].map((c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
    this.#starts = new RegExp(`[${starts.join('')}]`, 'giu');
    limit('characters of template', source.length);
    if (!ASKS_FOR_DATE.test(source)) this.#builtins.strftime_now = strftime;
    // The lexer looks at each of them again from all before it.
    limit('blanks', source.match(/\s{500,}/)?.[0].length ?? 0);
    this.#program = guarded(() => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
  }

  get seam() {
    return this.#seam;
  }

  /** Uses prefix.ids again when the rendered text begins with prefix.text. begin: what the answer begins with. Gives
   * the seamed text before it too.
   * @param {Message[]} messages @param {{ prefix?: Prefix, begin?: string, tools?: object[] }} [more] */
  apply(messages, { prefix, begin = '', tools } = {}) {
    while (JSON.stringify([messages, begin, tools]).includes(this.#seam)) this.#seam = newSeam();
    const text = this.#render(
      messages.map(({ role, content, ...more }) => {
        const as = role === 'model' ? 'assistant' : role;
        return { role: as, content: this.#protected(content), ...this.#protected(more) };
      }),
      this.#protected(tools),
    );
    const whole = text + this.protect(begin);
    // Reuse is safe only at the end, or where a control token begins: nothing merges across it.
    const before = prefix?.text.replaceAll(prefix.seam, this.#seam) ?? '';
    const rest = prefix && whole.startsWith(before) ? whole.slice(before.length) : '';
    if (prefix && (whole === before || this.#match(rest, 0, this.#exact))) {
      return { ids: [...prefix.ids, ...this.#tokens(rest)], text };
    }
    return { ids: this.#oneBos(this.#tokens(whole)), text };
  }

  /** All texts in a value. @param {any} value @returns {any} */
  #protected(value) {
    if (typeof value === 'string') return this.protect(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((one) => this.#named(one));
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [this.#named(key), this.#named(one)]));
  }

  /** @param {any} value in a list or an object */
  #named(value) {
    return BUILT_OF.has(value) ? value : this.#protected(value);
  }

  /** What becomes of a tool: '' if the template takes none. */
  get probe() {
    const messages = [{ role: 'user', content: 'x' }];
    const parameters = { type: 'object', properties: { y: { type: 'string', description: 'z' } }, required: ['y'] };
    const tool = { type: 'function', function: { name: 'probe', description: 'a tool', parameters } };
    try {
      const text = this.#render(messages, [tool]);
      return text === this.#render(messages) ? '' : text;
    } catch {
      return '';
    }
  }

  /** Seam all that could be read as (part of) a control token. @param {string} content */
  protect(content) {
    const core = strip(content);
    if (!core) return content;
    const edge = fold(core),
      lengths = Array.from({ length: this.#longest }, (_, n) => n + 1);
    const head =
      lengths.some((n) => along(this.#tails, [...edge.slice(0, n)].reverse())) ||
      (edge.length < this.#longest && this.#pieces.some((piece) => piece.includes(edge)));
    const tail = lengths.some((n) => along(this.#heads, edge.slice(-n)));
    let seamed = head ? this.#seam : '',
      done = 0;
    for (const { 0: c, index } of this.#candidates(core)) {
      if (!this.#match(core, index, this.#heads, fold)) continue;
      seamed += core.slice(done, index) + c + this.#seam;
      done = index + c.length;
    }
    seamed += core.slice(done) + (tail ? this.#seam : '');
    return content.replace(core, () => seamed);
  }

  /** @param {string} text */
  #candidates(text) {
    limit('product', (text.length * this.#longest) / 2);
    return text.matchAll(this.#starts);
  }

  /** Length of the longest piece there, 0: none.
   * @param {string} text @param {number} at @param {Tree | undefined} node */
  #match(text, at, node, change = (/** @type {string} */ c) => c) {
    let found = 0;
    for (let end = at; node && end < text.length; ) {
      const c = String.fromCodePoint(/** @type {number} */ (text.codePointAt(end)));
      for (const part of change(c)) node = node?.get(part);
      end += c.length;
      if (node?.has('')) found = end - at;
    }
    return found;
  }

  /** @param {Message[]} messages @param {object[]} [tools] */
  #render(messages, tools) {
    const environment = /** @type {any} */ (new Environment());
    const { variables } = this.#vocabulary;
    const globals = { ...variables, ...this.#builtins, messages, ...(tools && { tools }), add_generation_prompt: true };
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
      for (const text of this.#apart(part.replaceAll(this.#seam, ''))) {
        for (const id of Array.from(encode(text))) ids.push(id);
      }
    };
    let done = 0;
    for (const { index: at } of this.#candidates(text)) {
      const length = at < done ? 0 : this.#match(text, at, this.#exact);
      if (!length) continue;
      plain(text.slice(done, at));
      done = at + length;
      ids.push(/** @type {number} */ (control.get(text.slice(at, done))));
    }
    plain(text.slice(done));
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

/** Four random noncharacters: valid in a string, never assigned, not white space. */
function newSeam() {
  const random = crypto.getRandomValues(new Uint8Array(4));
  return String.fromCharCode(...Array.from(random, (x) => 0xfdd0 + (x % 32)));
}

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

/** The ends that Python's methods of texts look at. @type {Record<string, 'both' | 'left' | 'right'>} */
const STRIPS = { strip: 'both', lstrip: 'left', rstrip: 'right' };

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
      throw new GemmaError('template-error', `the model's chat template says: ${short(message)}`);
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
  throw new GemmaError('template-error', "the model's chat template runs away", {
    expected: `at most ${LIMITS[what]} ${what}`,
    got: value,
  });
}

// The types of this dependency do not resolve under Node's rules for modules.
/** @type {new (environment: any) => any} */
const AnyInterpreter = /** @type {any} */ (Interpreter);

/** Each value is measured once: none changes but namespaces, which must not be in others. */
class LimitedInterpreter extends AnyInterpreter {
  #start = performance.now();
  #work = 0;
  /** @type {WeakMap<object, number>} */
  #sizes = new WeakMap();
  /** sum: of the sizes of its parts so far. @type {{ node: any, sum: number }} */
  #outer = { node: {}, sum: 0 };

  /** @param {any} node @param {any} environment */
  evaluate(node, environment) {
    const outer = this.#outer;
    this.#spend(STEP);
    const frame = (this.#outer = { node, sum: 0 });
    try {
      const result = super.evaluate(node, environment);
      const size = this.#size(result, frame.sum);
      const times = multiplies(outer.node, node) ? outer.sum : 0;
      limit('product', size * times);
      if (typeof result?.value !== 'number') this.#spend(size / 256 + (size * (times + 1)) / 16);
      outer.sum += size;
      return result;
    } finally {
      this.#outer = outer;
    }
  }

  /** The filter `trim`, as Python has it. @param {any} operand @param {any} filter @param {any} environment */
  applyFilter(operand, filter, environment) {
    const trims = filter.type === 'Identifier' && filter.value === 'trim' && operand.type === 'StringValue';
    return trims ? this.#stripped(operand) : super.applyFilter(operand, filter, environment);
  }

  /** The methods `strip`, `lstrip` and `rstrip` of texts, with what is to be taken off, as Python has them.
   * @param {any} node @param {any} environment */
  evaluateCallExpression(node, environment) {
    const { callee, args } = node;
    const method = callee.type === 'MemberExpression' && !callee.computed && callee.property.value;
    if (!Object.hasOwn(STRIPS, method)) return super.evaluateCallExpression(node, environment);
    const [text, characters, ...more] = [callee.object, ...args].map((part) => this.evaluate(part, environment));
    const kinds = [text, characters ?? text, ...more].map((value) => value?.type);
    const fits = kinds.length <= 2 && kinds.every((kind) => kind === 'StringValue');
    if (!fits) throw new Error(`${method}() of ${kinds.join(', ')}`);
    return this.#stripped(text, STRIPS[method], characters?.value);
  }

  /** @param {any} text @param {'both' | 'left' | 'right'} [ends] @param {string} [characters] */
  #stripped(text, ends, characters) {
    this.#spend(text.value.length / 16);
    return new text.constructor(strip(text.value, ends, characters));
  }

  /** A function weighs as much as the `parts` it was taken from. @param {any} result @param {number} parts */
  #size(result, parts = 0) {
    if (!result) return 0; // first of nothing
    const { value, type } = result;
    if (typeof value === 'number') return Math.abs(value) * ITEM;
    const known = this.#sizes.get(result);
    if (known !== undefined) return known;
    /** @type {number} */
    let size = typeof value === 'function' ? parts : (value?.length ?? 1);
    this.#spend(size);
    if (typeof value === 'object' && value) {
      for (const [key, part] of value.entries()) {
        if (part.type === 'NamespaceValue') limit('size', NaN);
        size += ITEM + (key.length ?? 0) + (typeof part.value === 'number' ? 0 : this.#size(part));
        limit('size', size);
        this.#spend(ITEM);
      }
    }
    limit('size', size);
    if (type !== 'NamespaceValue') this.#sizes.set(result, size);
    return size;
  }

  /** @param {number} work */
  #spend(work) {
    const before = this.#work;
    limit('work', (this.#work += work));
    if (before >> 12 !== this.#work >> 12) limit('milliseconds', performance.now() - this.#start);
  }
}

/** What a node does with this part of it may take time as the product of its parts' sizes.
 * @param {any} node @param {any} part */
function multiplies({ type, callee, iterable, operator }, part) {
  return [callee, iterable, iterable?.lhs].includes(part) || /^Filter/.test(type) || /in$/.test(operator?.value);
}

/** By character; '' marks an end. @typedef {Map<string, any>} Tree */
/** @param {Iterable<string>[]} pieces */
function tree(pieces) {
  /** @type {Tree} */
  const root = new Map();
  for (const piece of pieces) {
    let node = root;
    for (const c of piece) {
      if (!node.has(c)) node.set(c, new Map());
      node = node.get(c);
    }
    node.set('', node);
  }
  return root;
}

/** @param {Tree} node @param {Iterable<string>} text */
function along(node, text) {
  for (const c of text) if (!(node = node.get(c))) return false;
  return true;
}

/** Letters that become the same in `upper` and `lower`. @param {string} text */
const fold = (text) => text.toUpperCase().toLowerCase();

/** @param {unknown} text */
const short = (text) => String(text).slice(0, 300);

/** @template T @param {() => T} f @returns {T} */
function guarded(f) {
  try {
    return f();
  } catch (error) {
    if (error instanceof GemmaError) throw error;
    throw new GemmaError('template-error', `the model's chat template failed: ${short(error)}`);
  }
}
