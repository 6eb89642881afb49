/* interpreter: runs Jinja templates with limits on work, time and size, and records which characters of a text the
 * template wrote. Only these may form control tokens (template.js).
 *
 * A text counts as the template's only if this file knows every operation that made it, otherwise as message text.
 *
 * Message text can also select text of the template: by a key, a condition, the length of a loop. Selected text gets
 * sentinels at both ends, which no control token may cross. Otherwise a message could spell a control token, letter by
 * letter. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { badArguments, messagesTooLong, overLimit, tokensMixed } from './errors.js';
import { strip } from './strip.js';

/** Limits on evaluating a template. The keys name the limits in errors. The characters of a value include those of its
 * parts. A number n counts as |n| items of ITEM characters, because a template can make lists of n items. The steps of
 * one operation are the product of its operands' sizes. */
const LIMITS = {
  milliseconds: 2000,
  steps: 1 << 27,
  'characters of text': 1 << 22,
  'steps of one operation': 1 << 26,
  'list items': 1 << 17,
  'characters of template': 1 << 17,
  'spaces in a row': 500,
  'characters of control tokens': 1 << 19,
};
const STEP = 64;
const ITEM = 8;

/** Letters of an origin string, which has one letter per UTF-16 unit of a text. x: text of messages or tools; o: text
 * of the template; s, e, t: text of the template with a sentinel (template.js) before it, after it, or both. */
const OWN = 'o';
const OTHER = 'x';
/** Origin string of an empty text that comes from messages or tools. */
const EMPTY = '-';
/** @type {Record<string, string>} */
const SENTINEL_BEFORE = { o: 's', e: 't' };
/** @type {Record<string, string>} */
const SENTINEL_AFTER = { o: 'e', s: 't' };
/** Matches the types of syntax nodes whose result depends only on their operands. */
const OF_OPERANDS = /Literal$|^(Binary|Unary|Member|Call|Filter)Expression$|^FilterStatement$/;

/** @type {Record<string, 'both' | 'left' | 'right'>} */
const STRIPS = { strip: 'both', lstrip: 'left', rstrip: 'right' };

/** Throws `template-error` if a value exceeds its limit. @param {keyof typeof LIMITS} what @param {number} value */
export function limit(what, value) {
  if (value <= LIMITS[what]) return; // false for NaN
  throw overLimit(value, what, LIMITS[what]);
}

// Cast, because the types of @huggingface/jinja do not resolve under Node's module resolution.
/** @type {new (environment: any) => any} */
const AnyInterpreter = /** @type {any} */ (Interpreter);

/** The imported Jinja interpreter with limits. For each text, records which characters the template wrote and which
 * come from messages or tools (the origin string). Caches the size of each value that is not a namespace. That is safe:
 * only namespaces can change, and no value may contain a namespace. */
class TracingInterpreter extends AnyInterpreter {
  #start = performance.now();
  #work = 0;
  /** @type {WeakMap<object, number>} */
  #sizes = new WeakMap();
  /** The syntax node that encloses the current one. sum: total size of its parts evaluated so far; operands: their
   * values.
   * @type {{ node: any, sum: number, operands: any[] }} */
  #outer = { node: {}, sum: 0, operands: [] };
  /** Values that contain no text of messages or tools. @type {WeakSet<object>} */
  #own = new WeakSet();
  /** Origin strings of the texts that are not in #own; '' if a text contains nothing of the template.
   * @type {WeakMap<object, string>} */
  #origins = new WeakMap();
  /** For each method that a template looked up, its name and the value that it belongs to.
   * @type {WeakMap<object, { of: any, name: string }>} */
  #methods = new WeakMap();
  /** Objects with a key that contains the name of a control token. They are recorded because, unlike for values, it is
   * not known whether a key is text of a message or of the template.
   * @type {WeakSet<object>} */
  #named = new WeakSet();
  /** The messages and tools of the caller, and all their parts. @type {WeakSet<object>} */
  #given = new WeakSet();
  /** Number of enclosing conditions and loops that depend on messages or tools. */
  #decided = 0;
  /** Whether the template compared the name of a control token with message text that contains one. */
  compares = false;
  /** Texts that are new in the value whose size was computed last. @type {any[]} */
  #fresh = [];
  /** The innermost loop. origins: origin strings of the texts that it wrote; decided: whether message text decides how
   * often it runs. */
  #loop = { node: /** @type {any} */ ({}), origins: /** @type {string[]} */ ([]), decided: false };
  #Text;
  #names;

  /** @param {any} environment @param {Iterable<any>} own values of the environment that count as the template's
   * @param {(text: string) => boolean} names returns whether a text contains the name of a control token */
  constructor(environment, own, names) {
    super(environment);
    this.#names = names;
    for (const value of own) this.#own.add(value);
    for (const value of environment.variables.values()) this.#give(value);
    try {
      for (const value of environment.variables.values()) this.#size(value);
    } catch {
      throw messagesTooLong(LIMITS['characters of text']);
    }
    this.#Text = super.evaluateBlock([], environment).constructor;
  }

  /** @param {any} program */
  trace(program) {
    const text = this.run(program);
    const origin = this.#originOf(text);
    return { parts: runs(text.value, origin), origin, compares: this.compares };
  }

  /** @param {any} value */
  #give(value) {
    if (this.#own.has(value) || typeof value.value !== 'object' || !value.value) return;
    this.#given.add(value);
    for (const part of value.value.values()) this.#give(part);
  }

  /** @param {any} node @param {any} environment */
  evaluate(node, environment) {
    const outer = this.#outer;
    this.#spend(STEP);
    const frame = (this.#outer = { node, sum: 0, operands: [] });
    try {
      let result = super.evaluate(node, environment);
      const { type, value } = outer.node ?? {};
      this.#fresh = [];
      const size = this.#size(result, frame.sum);
      const times = multiplies(outer.node, node) ? outer.sum : 0;
      limit('steps of one operation', size * times);
      if (typeof result?.value !== 'number') this.#spend(size / 256 + (size * (times + 1)) / 16);
      if (!node) this.#own.add(result); // There is no syntax node for an omitted part of a slice or a missing `else`.
      if (result && OF_OPERANDS.test(node?.type)) result = this.#record(node, frame.operands, result);
      if (this.#decided && type === 'Set' && value === node) result = this.#selected(result);
      if (type === 'For') this.#enter(outer.node, node, result);
      outer.sum += size;
      if (OF_OPERANDS.test(outer.node?.type)) outer.operands.push(result);
      return result;
    } finally {
      this.#outer = outer;
    }
  }

  /** Records whether message text decides how often a loop runs. The lists of messages, tools and content parts do
   * not count, because the caller determines their lengths. @param {any} loop @param {any} node @param {any} result */
  #enter({ iterable }, node, result) {
    if (![iterable, iterable.lhs, iterable.test].includes(node) || this.#own.has(result)) return;
    const items = Array.isArray(result?.value) && node !== iterable.test ? result.value : [null];
    this.#loop.decided ||= !items.every(
      (/** @type {any} */ item) => this.#own.has(item) || item?.type === 'ObjectValue',
    );
  }

  /** Records the origin of a result and returns it. Throws `template-error` if control tokens and message text may mix.
   * @param {any} node @param {any[]} operands @param {any} result */
  #record(node, operands, result) {
    if (result.type === 'FunctionValue' && node.type === 'MemberExpression') {
      const [of] = operands;
      const name = node.computed ? operands[1].value : node.property.value;
      if (of.builtins.get(name) === result) this.#methods.set(result, { of, name });
    }
    if (operands.every((value) => this.#own.has(value))) {
      for (const value of [result, ...this.#fresh]) this.#own.add(value);
      return result;
    }
    if (/^(and|or)$/.test(node.operator?.value)) return this.#own.has(operands[0]) ? result : this.#selected(result);
    if (node.type === 'ObjectLiteral' && operands.some((value) => this.#holdsName(value))) this.#named.add(result);
    const subjects = operands.map((value) => this.#methods.get(value)?.of ?? value);
    const texts = subjects.filter(({ type }) => type === 'StringValue');
    const joins = /^[+~]$/.test(node.operator?.value);
    const isNamed = operands.some((value) => this.#holdsName(value));
    if (isNamed && !joins && texts.some((text) => this.#hasName(text, 1))) this.compares = true;
    const unknown = this.#fresh.filter((text) => !this.#knows(text));
    if (unknown.length && this.#follow(node, operands, result)) return result;
    const isOwn = subjects.every((value) => this.#own.has(value) || /^[oset]+$/.test(this.#origins.get(value) ?? ''));
    if (!unknown.length || !(isNamed || (isOwn && unknown.some(({ value }) => this.#names(value))))) {
      return this.#selects(node, operands) ? this.#selected(result) : result;
    }
    throw tokensMixed();
  }

  /** Returns whether message text selects the result of an operation, for example as a key. Returns false for
   * macros, which record the origins of their texts themselves. @param {any} node @param {any[]} operands */
  #selects({ type }, operands) {
    if (type === 'MemberExpression') return !operands.slice(1).every((key) => this.#own.has(key));
    const callee = operands.at(-1);
    return /^Filter/.test(type) || (type === 'CallExpression' && (this.#methods.has(callee) || this.#own.has(callee)));
  }

  /** Calls f, which depends on a condition. If message text decides the condition, the result and assignments of f
   * count as selected by message text. @template T @param {any} decision @param {() => T} f */
  #decide(decision, f) {
    if (this.#own.has(decision)) return f();
    this.#decided++;
    try {
      return this.#selected(f());
    } finally {
      this.#decided--;
    }
  }

  /** Returns a copy of a value whose choice depended on the text of a message: each string in the copy has a sentinel at
   * its start and at its end. Does not copy namespaces, but changes them in place. @param {any} value @returns {any} */
  #selected(value) {
    this.#spend(ITEM);
    if (!value || this.#given.has(value)) return value;
    const { value: inner, type, constructor } = value;
    if (type === 'StringValue') {
      const origin = this.#originOf(value);
      if (!/[^x-]/.test(origin || OWN)) return value;
      this.#spend(inner.length / 16);
      const copy = new constructor(inner);
      this.#know(copy, cut(origin));
      return copy;
    }
    if (typeof inner === 'function') {
      const { constructor: Fn } = value;
      return new Fn((/** @type {any[]} */ ...args) => this.#decide(null, () => inner(...args)));
    }
    if (typeof inner !== 'object' || !inner) return this.#own.has(value) ? new constructor(inner) : value;
    /** @type {[any, any][]} */
    const parts = Array.from(inner.entries(), ([key, part]) => [key, this.#selected(part)]);
    if (type === 'NamespaceValue') {
      for (const [key, part] of parts) inner.set(key, part);
      return value;
    }
    const isSame = parts.every(([key, part]) => part === (Array.isArray(inner) ? inner[key] : inner.get(key)));
    if (isSame && !this.#own.has(value)) return value;
    const copy = new constructor(Array.isArray(inner) ? parts.map(([, part]) => part) : new Map(parts));
    if (this.#named.has(value)) this.#named.add(copy);
    return copy;
  }

  /** Records the origin of the result of an operation that this class can follow, such as `+` or replace(). Returns
   * false for other operations.
   * @param {any} node @param {any[]} operands @param {any} result */
  #follow({ type, operator, filter }, operands, result) {
    if (type === 'BinaryExpression' && /^[+~]$/.test(operator.value)) {
      return this.#know(result, glued(operands.map((value) => this.#originOf(value))));
    }
    const method = type === 'CallExpression' ? this.#methods.get(operands.at(-1)) : undefined;
    const name = filter ? (filter.value ?? filter.callee.value) : method?.name;
    if (!name) return false;
    const [text, ...more] = filter ? operands : [method?.of, ...operands.slice(0, -1)];
    if (name === 'join' && text.type === 'ArrayValue' && more.length < 2) {
      const origins = text.value.map((/** @type {any} */ one) => (one.value == null ? '' : this.#originOf(one)));
      return this.#know(result, glued(origins, more.length ? this.#originOf(more[0]) : ''));
    }
    if (text.type !== 'StringValue') return false;
    const origin = this.#originOf(text);
    const from = more[0]?.value;
    if (name === 'split') {
      let at = 0;
      for (const part of result.value) {
        at = text.value.indexOf(part.value, at);
        this.#know(part, cut(origin, at, at + part.value.length));
        at += part.value.length + (from ?? '').length;
      }
      return true;
    }
    // With a third argument, replace() replaces only some occurrences, so its result is not followed.
    if (name !== 'replace' || more.length !== 2 || !from) return false;
    const parts = text.value.split(from);
    if (parts.join(more[1].value) !== result.value) return false;
    let at = 0;
    const origins = parts.map((/** @type {string} */ part) => {
      const its = cut(origin, at, at + part.length);
      at += part.length + from.length;
      return its;
    });
    return this.#know(result, glued(origins, this.#originOf(more[1])));
  }

  /** @param {object} text */
  #knows(text) {
    return this.#own.has(text) || this.#origins.has(text);
  }

  /** Records an origin. If its length does not fit the text, the text counts as message text.
   * @param {any} text @param {string} origin */
  #know(text, origin) {
    const fits = origin.length === text.value.length;
    if (fits && !/[^o]/.test(origin)) this.#own.add(text);
    else this.#origins.set(text, fits && /[^x]/.test(origin) ? origin : '');
    return true;
  }

  /** @param {any} value @param {string} [written] */
  #originOf(value, written = String(value.value)) {
    if (this.#own.has(value)) return OWN.repeat(written.length);
    return this.#origins.get(value) || OTHER.repeat(written.length) || EMPTY;
  }

  /** Returns whether a value contains the name of a control token in text of the template.
   * @param {any} value @returns {boolean} */
  #holdsName(value) {
    const inner = value?.value;
    this.#spend(ITEM + (inner?.length ?? 0));
    if (typeof inner === 'function') return this.#holdsName(this.#methods.get(value)?.of);
    if (this.#named.has(value)) return true;
    if (typeof inner === 'object' && inner) return [...inner.values()].some((part) => this.#holdsName(part));
    if (typeof inner !== 'string' || !this.#knows(value)) return false;
    return this.#hasName(value, 0);
  }

  /** Returns whether a text contains the name of a control token in the parts that come from the template (which: 0) or
   * from messages (1).
   * @param {any} text @param {number} which */
  #hasName(text, which) {
    return runs(text.value, this.#originOf(text)).some((part, i) => i % 2 === which && this.#names(part));
  }

  /** Overrides the Jinja library's method to record the origins of the written texts. @param {any[]} statements
   * @param {any} environment */
  evaluateBlock(statements, environment) {
    const loop = this.#loop;
    const isBody = statements === loop.node.body || statements === loop.node.defaultBlock;
    const { type, body } = this.#outer.node ?? {};
    if (isBody && loop.decided) this.#decided++;
    try {
      let text = '';
      const origins = [];
      for (const statement of statements) {
        const value = this.evaluate(statement, environment);
        if (value.type === 'NullValue' || value.type === 'UndefinedValue') {
          if (!/^(Set|Macro|Comment)$/.test(statement.type) && !this.#own.has(value)) origins.push(EMPTY);
          continue;
        }
        const written = value.toString();
        text += written;
        origins.push(this.#originOf(value, written));
      }
      const result = new this.#Text(text);
      const isKept = this.#decided > 0 && type === 'Set' && body === statements;
      const origin = (isBody && loop.decided) || isKept ? cut(glued(origins)) : glued(origins);
      this.#know(result, origin);
      if (isBody) loop.origins.push(origin);
      return result;
    } finally {
      if (isBody && loop.decided) this.#decided--;
    }
  }

  /** @param {any} node @param {any} environment */
  evaluateFor(node, environment) {
    const outer = this.#loop;
    const loop = (this.#loop = { node, origins: [], decided: jumps(node.body) });
    try {
      const result = super.evaluateFor(node, environment);
      const origin = glued(loop.origins);
      this.#know(result, loop.decided ? cut(origin) : origin);
      return result;
    } finally {
      this.#loop = outer;
    }
  }

  /** @param {any} node @param {any} environment */
  evaluateIf({ test, body, alternate }, environment) {
    const decision = this.evaluate(test, environment);
    return this.#decide(decision, () => this.evaluateBlock(decision.__bool__().value ? body : alternate, environment));
  }

  /** @param {any} node @param {any} environment */
  evaluateTernaryExpression({ condition, trueExpr, falseExpr }, environment) {
    const decision = this.evaluate(condition, environment);
    return this.#decide(decision, () => this.evaluate(decision.__bool__().value ? trueExpr : falseExpr, environment));
  }

  /** @param {any} node @param {any} environment */
  evaluateSelectExpression({ lhs, test }, environment) {
    const decision = this.evaluate(test, environment);
    return this.#decide(decision, () => this.evaluate(decision.__bool__().value ? lhs : undefined, environment));
  }

  /** @param {any} node @param {any} environment */
  evaluateMacro(node, environment) {
    const result = super.evaluateMacro(node, environment);
    const name = node.name.value;
    if (this.#decided) environment.setVariable(name, this.#selected(environment.lookupVariable(name)));
    return result;
  }

  /** Implements the filter `trim` as Python does. @param {any} operand @param {any} filter @param {any} environment */
  applyFilter(operand, filter, environment) {
    this.#outer.operands = [operand];
    const trims = filter.type === 'Identifier' && filter.value === 'trim' && operand.type === 'StringValue';
    return trims ? this.#stripped(operand) : super.applyFilter(operand, filter, environment);
  }

  /** Implements `strip`, `lstrip` and `rstrip` as Python does. @param {any} node @param {any} environment */
  evaluateCallExpression(node, environment) {
    const { callee, args } = node;
    const method = callee.type === 'MemberExpression' && !callee.computed && callee.property.value;
    if (!Object.hasOwn(STRIPS, method)) return super.evaluateCallExpression(node, environment);
    const [text, characters, ...more] = [callee.object, ...args].map((part) => this.evaluate(part, environment));
    const kinds = [text, characters ?? text, ...more].map((value) => value?.type);
    const fits = kinds.length <= 2 && kinds.every((kind) => kind === 'StringValue');
    if (!fits) throw badArguments(method, kinds);
    return this.#stripped(text, STRIPS[method], characters?.value);
  }

  /** @param {any} text @param {'both' | 'left' | 'right'} [ends] @param {string} [characters] */
  #stripped(text, ends, characters) {
    this.#spend(text.value.length / 16);
    const result = new text.constructor(strip(text.value, ends, characters));
    const { length } = result.value;
    const start = ends === 'right' ? 0 : text.value.length - strip(text.value, 'left', characters).length;
    this.#know(result, cut(this.#originOf(text), start, start + length));
    return result;
  }

  /** Returns the size of a value with its parts. The size of a function is that of its operands. @param {any} result
   * @param {number} parts size of the operands */
  #size(result, parts = 0) {
    if (!result) return 0; // Jinja's filter `first` returns undefined for an empty list.
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
        if (part.type === 'NamespaceValue') limit('characters of text', Infinity);
        size += ITEM + (key.length ?? 0) + (typeof part.value === 'number' ? 0 : this.#size(part));
        limit('characters of text', size);
        this.#spend(ITEM);
      }
    }
    limit('characters of text', size);
    if (type !== 'NamespaceValue') this.#sizes.set(result, size);
    return size;
  }

  /** Counts work. Throws `template-error` if the limit on work or time is exceeded. @param {number} work */
  #spend(work) {
    const before = this.#work;
    limit('steps', (this.#work += work));
    if (before >> 12 !== this.#work >> 12) limit('milliseconds', performance.now() - this.#start);
  }
}

/** Parses a template. Throws `template-error` if it is too long. @param {string} source */
export function compiled(source) {
  limit('characters of template', source.length);
  // Limits runs of white space, for which the lexer takes quadratic time.
  limit('spaces in a row', source.match(/\s{500,}/)?.[0].length ?? 0);
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
}

/** Renders a template. The result has `parts`, runs of text that come alternately from the template (the first run,
 * which may be empty) and from messages; `origin`, the origin string of the whole text; and `compares` of
 * TracingInterpreter. Throws `template-error`.
 * @param {any} program
 * @param {{ own: Record<string, unknown>, given: Record<string, unknown> & { messages: { role: string }[] },
 *   names: (text: string) => boolean }} of own, given: variables of the template and of the caller; names: returns
 *   whether a text contains the name of a control token. Roles count as text of the template, since only a few are
 *   valid. */
export function traced(program, { own, given, names }) {
  const environment = /** @type {any} */ (new Environment());
  for (const [name, value] of Object.entries({ ...own, ...given })) environment.set(name, value);
  const of = (/** @type {string} */ name) => environment.lookupVariable(name);
  const roles = of('messages').value.map((/** @type {any} */ { value }) => value.get('role'));
  return new TracingInterpreter(environment, [...Object.keys(own).map(of), ...roles], names).trace(program);
}

/** Splits a text into runs, alternately of the template and of messages. @param {string} text @param {string} origin */
function runs(text, origin) {
  const parts = [];
  for (let at = 0, end; at < text.length || !parts.length; at = end) {
    end = origin.indexOf(OTHER, at);
    if (parts.length % 2) for (end = at; origin[end] === OTHER; ) end++;
    if (end < 0) end = text.length;
    parts.push(text.slice(at, end));
  }
  return parts;
}

/** Returns whether an origin string has a sentinel inside, that is, not only at its ends. @param {string} origin */
export const hasSentinel = (origin) => /.[st]|[et]./.test(origin);

/** Adds a sentinel at the start of a non-empty origin string. @param {string} origin */
const sentinelBefore = (origin) => (SENTINEL_BEFORE[origin[0]] ?? origin[0]) + origin.slice(1);

/** Adds a sentinel at the end of a non-empty origin string. @param {string} origin */
const sentinelAfter = (origin) => origin.slice(0, -1) + (SENTINEL_AFTER[origin.slice(-1)] ?? origin.slice(-1));

/** Returns a slice of an origin string, with sentinels where it was cut. Without `from` and `to`, returns the whole
 * string with sentinels at both ends.
 * @param {string} origin @param {number} [from] @param {number} [to] */
function cut(origin, from = -1, to = origin.length + 1) {
  const part = origin === EMPTY ? '' : origin.slice(Math.max(from, 0), to);
  if (!part) return EMPTY;
  const all = from ? sentinelBefore(part) : part;
  return to === origin.length ? all : sentinelAfter(all);
}

/** Returns the origin string of joined texts. An empty text from a message leaves a sentinel, because another
 * message could have text there. @param {string[]} origins @param {string} [between] */
function glued(origins, between = '') {
  let all = '';
  let isCut = false;
  for (const [i, origin] of origins.entries()) {
    for (const part of i ? [between, origin] : [origin]) {
      if (part === EMPTY) isCut = true;
      if (!part || part === EMPTY) continue;
      all += isCut ? sentinelBefore(part) : part;
      isCut = false;
    }
  }
  if (!isCut) return all;
  return all ? sentinelAfter(all) : EMPTY;
}

/** @type {WeakMap<object, boolean>} */
const jumping = new WeakMap();

/** Returns whether a loop contains `break` or `continue`, which decide whether the text after them is written.
 * @param {any} node @returns {boolean} */
function jumps(node) {
  if (typeof node !== 'object' || !node) return false;
  const known = jumping.get(node) ?? (/^(Break|Continue)$/.test(node.type) || Object.values(node).some(jumps));
  jumping.set(node, known);
  return known;
}

/** Returns whether evaluating a node may take time proportional to the product of the sizes of its operands, of which
 * `part` is one.
 * @param {any} node @param {any} part */
function multiplies({ type, callee, iterable, operator }, part) {
  return [callee, iterable, iterable?.lhs].includes(part) || /^Filter/.test(type) || /in$/.test(operator?.value);
}
