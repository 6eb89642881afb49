/*
 * index: entry of the grammar compilers. A format (any JSON, a JSON schema, a regular expression, a GBNF grammar, a
 * list of choices) becomes a grammar (nodes.js), which lower.js turns into the engine's automaton. Formats that cannot
 * be enforced are rejected with `Unsupported`, in bounded time.
 */
import { lower } from './lower.js';
import { NOTHING, choice, hasHalfPair, literal } from './nodes.js';
import { wholeNode } from './regex.js';
import { contradiction, loneSurrogate, mustBe, noFormat, tooLong } from './errors.js';
import { Budget, Unsupported, bounded } from './refusal.js';
import { gbnfGrammar } from './gbnf.js';
import { schemaGrammar } from './schema.js';
/** @import { PostedFormat as Format } from '../protocol.js' */

export { Budget, Unsupported, lower };

/** @import { Grammar } from './nodes.js' */
/** @import { Limits } from './refusal.js' */

/** Maximum number of characters in the text of a format. */
const MOST_TEXT = 4 << 20;

/** Options of a compilation. `matching`: accept every text that the format's specification accepts, instead of the
 * narrower constraint for answers; `draft`: draft of schemas without `$schema`; `formats`: whether to enforce the
 * keyword `format`, whatever the draft says; `tokenOf`: returns the id of a token by its text.
 * @typedef {Limits & { matching?: boolean, draft?: number, formats?: boolean, budget?: Budget,
 *   tokenOf?: (text: string) => number | null | undefined }} Options */

/** Compiles a format to a grammar. Throws `Unsupported` if the format cannot be enforced. @param {Format} format
 * @param {Options} [options]
 * @returns {Grammar} */
export function compile(format, options = {}) {
  return bounded(() => compiled(format, options, options.budget ?? new Budget(options)));
}

/** Compiles a format to the bytes of the engine's automaton. Throws `Unsupported` if the format cannot be enforced.
 * @param {Format} format @param {Options & { spelling?: 'any' | 'shortest' }} [options] */
export function toBytes(format, options = {}) {
  const { matching = false, spelling = matching ? 'any' : 'shortest', budget = new Budget(options) } = options;
  return lower(compile(format, { ...options, budget }), { spelling, budget });
}

/** @param {any} format @param {Options} options @param {Budget} budget @returns {Grammar} */
function compiled(format, options, budget) {
  if (format === 'json') return schemaGrammar(true, options, budget);
  const kinds = ['schema', 'regex', 'grammar', 'choices'].filter((kind) => format?.[kind] !== undefined);
  if (kinds.length !== 1) throw noFormat();
  if (kinds[0] === 'schema') {
    const { schema, whitespace, ...bounds } = format;
    return schemaGrammar(schema, { ...options, whitespace, bounds }, budget);
  }
  if (kinds[0] === 'regex') return regexGrammar(format.regex, format.flags, budget);
  if (kinds[0] === 'grammar') return gbnfGrammar(text(format.grammar, 'grammar'), budget, options.tokenOf);
  return choicesGrammar(format.choices, budget);
}

/** @param {any} value @param {string} what @returns {string} */
function text(value, what) {
  if (typeof value !== 'string') throw mustBe(what, 'a string');
  if (value.length > MOST_TEXT) throw tooLong(what, MOST_TEXT);
  return value;
}

/** @param {string | RegExp} regex @param {string | undefined} flags @param {Budget} budget @returns {Grammar} */
function regexGrammar(regex, flags, budget) {
  const source = regex instanceof RegExp ? regex.source : text(regex, 'regex');
  const start = wholeNode(source, flags ?? (regex instanceof RegExp ? regex.flags : ''), budget);
  if (start === NOTHING) throw contradiction('text', 0);
  return { rules: { start }, start: 'start' };
}

/** @param {any} choices @param {Budget} budget @returns {Grammar} */
function choicesGrammar(choices, budget) {
  const fine = Array.isArray(choices) && choices.length && choices.every((one) => typeof one === 'string');
  if (!fine) throw mustBe('choices', 'a non-empty array of strings');
  for (const one of choices) budget.spend('', 1 + one.length / 16);
  if (choices.some(hasHalfPair)) throw loneSurrogate('a choice');
  return { rules: { start: choice(choices.map((one) => literal(one))) }, start: 'start' };
}
