/* interpreter: runs Jinja with limits on work, time and size, and records for every character of a text whether the
 * template wrote it. Only such characters may form control tokens (template.js).
 *
 * Recording errs on one side: a text is taken for a message's unless each step that made it is known here. */
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
const STEP = 64;
const ITEM = 8;

/** The origin of a character: the template, or data from outside. An origin string has one of them per UTF-16 unit. */
const OWN = 'o';
const OTHER = 'x';
/** Nodes whose result depends on nothing but their operands. */
const OF_OPERANDS = /Literal$|^(Binary|Unary|Member|Call|Filter)Expression$|^FilterStatement$/;

/** The ends that Python's methods of texts look at. @type {Record<string, 'both' | 'left' | 'right'>} */
const STRIPS = { strip: 'both', lstrip: 'left', rstrip: 'right' };

/** @param {keyof typeof LIMITS} what @param {number} value */
export function limit(what, value) {
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
class TracingInterpreter extends AnyInterpreter {
  #start = performance.now();
  #work = 0;
  /** @type {WeakMap<object, number>} */
  #sizes = new WeakMap();
  /** sum: of the sizes of its parts so far; operands: their values.
   * @type {{ node: any, sum: number, operands: any[] }} */
  #outer = { node: {}, sum: 0, operands: [] };
  /** Values of any type that hold nothing from outside. @type {WeakSet<object>} */
  #own = new WeakSet();
  /** Origins of other texts; '' if all of it comes from outside. @type {WeakMap<object, string>} */
  #origins = new WeakMap();
  /** Methods, with the value that they belong to. @type {WeakMap<object, { of: any, name: string }>} */
  #methods = new WeakMap();
  /** Objects with control tokens among their keys, which have no origins. @type {WeakSet<object>} */
  #named = new WeakSet();
  /** Texts that were first seen in the value measured last. @type {any[]} */
  #fresh = [];
  /** The innermost loop, and the origins of what it has written. */
  #loop = { node: /** @type {any} */ ({}), origin: '' };
  #Text;
  #names;

  /** @param {any} environment @param {Iterable<any>} own values in it that come with the template
   * @param {(text: string) => boolean} names whether a text holds the name of a control token */
  constructor(environment, own, names) {
    super(environment);
    this.#names = names;
    for (const value of own) this.#own.add(value);
    try {
      for (const value of environment.variables.values()) this.#size(value);
    } catch {
      throw new GemmaError(
        'template-error',
        `The messages and tools are too large for a chat template, which takes ${
          LIMITS.size
        } characters in all. Send fewer or shorter messages.`,
      );
    }
    this.#Text = super.evaluateBlock([], environment).constructor;
  }

  /** Returns the text that a program writes in runs (below). @param {any} program */
  trace(program) {
    const text = this.run(program);
    return runs(text.value, this.#originOf(text));
  }

  /** @param {any} node @param {any} environment */
  evaluate(node, environment) {
    const outer = this.#outer;
    this.#spend(STEP);
    const frame = (this.#outer = { node, sum: 0, operands: [] });
    try {
      const result = super.evaluate(node, environment);
      this.#fresh = [];
      const size = this.#size(result, frame.sum);
      const times = multiplies(outer.node, node) ? outer.sum : 0;
      limit('product', size * times);
      if (typeof result?.value !== 'number') this.#spend(size / 256 + (size * (times + 1)) / 16);
      if (!node) this.#own.add(result); // a part of a slice that was left out
      if (result && OF_OPERANDS.test(node?.type)) this.#record(node, frame.operands, result);
      outer.sum += size;
      if (OF_OPERANDS.test(outer.node?.type)) outer.operands.push(result);
      return result;
    } finally {
      this.#outer = outer;
    }
  }

  /** Records what is known of the origins of a result. @param {any} node @param {any[]} operands @param {any} result */
  #record(node, operands, result) {
    if (result.type === 'FunctionValue' && node.type === 'MemberExpression') {
      const [of] = operands;
      const name = node.computed ? operands[1].value : node.property.value;
      if (of.builtins.get(name) === result) this.#methods.set(result, { of, name });
    }
    if (operands.every((value) => this.#own.has(value))) {
      for (const value of [result, ...this.#fresh]) this.#own.add(value);
      return;
    }
    if (node.type === 'ObjectLiteral' && operands.some((value) => this.#holdsName(value))) this.#named.add(result);
    const unknown = this.#fresh.filter((text) => !this.#knows(text));
    if (!unknown.length || this.#follow(node, operands, result)) return;
    if (!operands.some((value) => this.#holdsName(value))) return;
    throw new GemmaError(
      'template-error',
      "The model's chat template changes a text that holds both control tokens and text" +
        ' of messages in a way that may mix them. Send the prompt as a string, or use a file with another chat template.',
    );
  }

  /** Records the origins of what known operations make of texts; false for others.
   * @param {any} node @param {any[]} operands @param {any} result */
  #follow({ type, operator, filter }, operands, result) {
    if (type === 'BinaryExpression' && /^[+~]$/.test(operator.value)) {
      return this.#know(result, operands.map((value) => this.#originOf(value)).join(''));
    }
    const method = type === 'CallExpression' ? this.#methods.get(operands.at(-1)) : undefined;
    const name = filter ? (filter.value ?? filter.callee.value) : method?.name;
    if (!name) return false;
    const [text, ...more] = filter ? operands : [method?.of, ...operands.slice(0, -1)];
    if (name === 'join' && text.type === 'ArrayValue' && more.length < 2) {
      const origins = text.value.map((/** @type {any} */ one) => (one.value == null ? '' : this.#originOf(one)));
      return this.#know(result, origins.join(more.length ? this.#originOf(more[0]) : ''));
    }
    if (text.type !== 'StringValue') return false;
    const origin = this.#originOf(text);
    const from = more[0]?.value;
    if (name === 'split') {
      let at = 0;
      for (const part of result.value) {
        at = text.value.indexOf(part.value, at);
        this.#know(part, origin.slice(at, at + part.value.length));
        at += part.value.length + (from ?? '').length;
      }
      return true;
    }
    // With a count only some are replaced.
    if (name !== 'replace' || more.length !== 2 || !from) return false;
    const parts = text.value.split(from);
    if (parts.join(more[1].value) !== result.value) return false;
    let at = 0;
    return this.#know(
      result,
      parts
        .map((/** @type {string} */ part) => {
          const its = origin.slice(at, at + part.length);
          at += part.length + from.length;
          return its;
        })
        .join(this.#originOf(more[1])),
    );
  }

  /** @param {object} text */
  #knows(text) {
    return this.#own.has(text) || this.#origins.has(text);
  }

  /** Records origins, unless they cannot be those of this text. @param {any} text @param {string} origin */
  #know(text, origin) {
    const fits = origin.length === text.value.length;
    if (fits && !origin.includes(OTHER)) this.#own.add(text);
    else this.#origins.set(text, fits && origin.includes(OWN) ? origin : '');
    return true;
  }

  /** @param {any} value @param {string} [written] */
  #originOf(value, written = String(value.value)) {
    return this.#origins.get(value) || (this.#own.has(value) ? OWN : OTHER).repeat(written.length);
  }

  /** Whether the template wrote the name of a control token somewhere in a value.
   * @param {any} value @returns {boolean} */
  #holdsName(value) {
    const inner = value?.value;
    this.#spend(ITEM + (inner?.length ?? 0));
    if (typeof inner === 'function') return this.#holdsName(this.#methods.get(value)?.of);
    if (this.#named.has(value)) return true;
    if (typeof inner === 'object' && inner) return [...inner.values()].some((part) => this.#holdsName(part));
    if (typeof inner !== 'string' || !this.#knows(value)) return false;
    return runs(inner, this.#originOf(value)).some((part, i) => i % 2 === 0 && this.#names(part));
  }

  /** The same as the library's, with origins. @param {any[]} statements @param {any} environment */
  evaluateBlock(statements, environment) {
    let text = '';
    let origin = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, environment);
      if (value.type === 'NullValue' || value.type === 'UndefinedValue') continue;
      const written = value.toString();
      text += written;
      origin += this.#originOf(value, written);
    }
    const result = new this.#Text(text);
    const { node } = this.#loop;
    this.#know(result, origin);
    if (statements === node.body || statements === node.defaultBlock) this.#loop.origin += origin;
    return result;
  }

  /** @param {any} node @param {any} environment */
  evaluateFor(node, environment) {
    const outer = this.#loop;
    const loop = (this.#loop = { node, origin: '' });
    try {
      const result = super.evaluateFor(node, environment);
      this.#know(result, loop.origin);
      return result;
    } finally {
      this.#loop = outer;
    }
  }

  /** The filter `trim`, as Python has it. @param {any} operand @param {any} filter @param {any} environment */
  applyFilter(operand, filter, environment) {
    this.#outer.operands = [operand];
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
    const result = new text.constructor(strip(text.value, ends, characters));
    const { length } = result.value;
    const start = ends === 'right' ? 0 : text.value.length - strip(text.value, 'left', characters).length;
    this.#know(result, this.#originOf(text).slice(start, start + length));
    return result;
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
    if (type === 'StringValue') this.#fresh.push(result);
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

/** Returns the program that a template is. @param {string} source */
export function compiled(source) {
  limit('characters of template', source.length);
  // The lexer looks at each of them again from all before it.
  limit('blanks', source.match(/\s{500,}/)?.[0].length ?? 0);
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
}

/** Returns what a template writes, in runs: by turns its own text, the first one maybe empty, and text from outside.
 * @param {any} program
 * @param {{ own: Record<string, unknown>, given: Record<string, unknown> & { messages: { role: string }[] },
 *   names: (text: string) => boolean }} of own and given: variables; names: whether a text holds the name of a control
 *   token. Roles of messages count as the template's: they are one of a few words. */
export function traced(program, { own, given, names }) {
  const environment = /** @type {any} */ (new Environment());
  for (const [name, value] of Object.entries({ ...own, ...given })) environment.set(name, value);
  const of = (/** @type {string} */ name) => environment.lookupVariable(name);
  const roles = of('messages').value.map((/** @type {any} */ { value }) => value.get('role'));
  return new TracingInterpreter(environment, [...Object.keys(own).map(of), ...roles], names).trace(program);
}

/** Parts a text where its origin changes. @param {string} text @param {string} origin */
function runs(text, origin) {
  const parts = [];
  for (let at = 0, end; at < text.length || !parts.length; at = end) {
    end = origin.indexOf(parts.length % 2 ? OWN : OTHER, at);
    if (end < 0) end = text.length;
    parts.push(text.slice(at, end));
  }
  return parts;
}

/** What a node does with this part of it may take time as the product of its parts' sizes.
 * @param {any} node @param {any} part */
function multiplies({ type, callee, iterable, operator }, part) {
  return [callee, iterable, iterable?.lhs].includes(part) || /^Filter/.test(type) || /in$/.test(operator?.value);
}
