/*
 * index: the door of the grammar compilers. A format (any JSON, a JSON schema, a regular expression, a GBNF grammar, a
 * list of choices) becomes a grammar (nodes.js) that lower.js turns into the engine's automaton; what cannot be held is
 * refused by an `Unsupported`, in bounded time.
 */
import { lower } from './lower.js';
import { NOTHING, choice, hasHalfPair, literal } from './nodes.js';
import { wholeNode } from './regex.js';
import { Budget, Unsupported } from './refusal.js';
import { gbnfGrammar } from './gbnf.js';
import { schemaGrammar } from './schema.js';

export { lower } from './lower.js';
export { Unsupported } from './refusal.js';

/** @typedef {import('./nodes.js').Grammar} Grammar */
/** @typedef {'compact' | 'pretty' | 'any'} Whitespace */
/** What an answer can be held to.
 * @typedef {'json' | { json: true, whitespace?: Whitespace } | { schema: any, whitespace?: Whitespace }
 *   | { regex: string | RegExp, flags?: string } | { grammar: string } | { choices: string[] }} Format */

/** Bytes of one format's text. */
const MOST_TEXT = 4 << 20;

/** `matching`: judge a given text as the format's specification does, instead of the narrower shape that answers are
 * held to; `draft` of schemas that do not say theirs; `formats`: whether `format` is held, whatever the draft says;
 * `tokenOf`: the id of a token by its text, for grammars that name tokens.
 * @typedef {import('./refusal.js').ClockOptions & { matching?: boolean, draft?: number, formats?: boolean,
 *   tokenOf?: (text: string) => number | null | undefined }} Options */

/** @param {Format} format @param {Options} [options] @returns {Grammar} */
export function compile(format, options = {}) {
  try {
    return compiled(format, options, new Budget(options));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new Unsupported('too large: parts too deep within each other', '');
  }
}

/** A format as the bytes that the engine reads, or an `Unsupported`, in a bounded number of steps.
 * @param {Format} format @param {Options & { spelling?: 'any' | 'shortest' }} [options] */
export function toBytes(format, options = {}) {
  const { matching = false, spelling = matching ? 'any' : 'shortest', milliseconds, alive } = options;
  return lower(compile(format, options), { spelling, milliseconds, alive });
}

/** @param {any} format @param {Options} options @param {Budget} budget @returns {Grammar} */
function compiled(format, options, budget) {
  if (format === 'json') return schemaGrammar(true, options, budget);
  const kinds = ['json', 'schema', 'regex', 'grammar', 'choices'].filter((kind) => format?.[kind] !== undefined);
  if (kinds.length !== 1) {
    throw new Unsupported("a format: expected 'json' or one of schema, regex, grammar, choices", '');
  }
  const { whitespace } = format;
  if (kinds[0] === 'json') return schemaGrammar(true, { ...options, whitespace }, budget);
  if (kinds[0] === 'schema') return schemaGrammar(format.schema, { ...options, whitespace }, budget);
  if (kinds[0] === 'regex') return regexGrammar(format.regex, format.flags, budget);
  if (kinds[0] === 'grammar') return gbnfGrammar(text(format.grammar, 'grammar'), budget, options.tokenOf);
  return choicesGrammar(format.choices);
}

/** @param {any} value @param {string} what @returns {string} */
function text(value, what) {
  if (typeof value !== 'string') throw new Unsupported(`${what}: expected a string`, '');
  if (value.length > MOST_TEXT) throw new Unsupported(`${what}: too large`, '');
  return value;
}

/** The whole text is the expression. @param {string | RegExp} regex @param {string | undefined} flags
 * @param {Budget} budget @returns {Grammar} */
function regexGrammar(regex, flags, budget) {
  const source = regex instanceof RegExp ? regex.source : text(regex, 'regex');
  const start = wholeNode(source, flags ?? (regex instanceof RegExp ? regex.flags : ''), budget);
  if (start === NOTHING) throw new Unsupported('nothing can fit: the format contradicts itself', 0);
  return { rules: { start }, start: 'start' };
}

/** @param {any} choices @returns {Grammar} */
function choicesGrammar(choices) {
  const fine = Array.isArray(choices) && choices.length && choices.every((one) => typeof one === 'string');
  if (!fine) throw new Unsupported('choices: expected a list of strings that is not empty', '');
  if (choices.some(hasHalfPair)) throw new Unsupported('choices: half of a surrogate pair', '');
  return { rules: { start: choice(choices.map((one) => literal(one))) }, start: 'start' };
}
