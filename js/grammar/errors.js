/* errors: the errors of this folder. Their messages are clauses: engine/errors.js puts them into sentences. */
import { TooComplex, Unsupported } from './refusal.js';

/** Where the error is: a JSON pointer in a schema, or an offset in an expression or grammar.
 * @typedef {string | number} Place */

/* Errors of any format */

/** @param {string} what @param {string} expected @param {Place} [place] */
export const mustBe = (what, expected, place) => new Unsupported(`${what} must be ${expected}`, place);

export const noFormat = () => new Unsupported("it must be 'json', or an object with schema, regex, grammar or choices");

/** @param {string} what @param {number} most */
export const tooLong = (what, most) => new TooComplex(`${what} has more than ${most} characters`);

/** @param {string} parts @param {Place} [place] */
export const tooDeep = (parts, place) => new TooComplex(`${parts} are nested too deeply`, place);

/** @param {string} what @param {Place} [place] */
export const loneSurrogate = (what, place) =>
  new Unsupported(`${what} has a lone surrogate, which UTF-8 cannot encode`, place);

export const noText = () => new Unsupported('no text can match');

/** @param {'text' | 'value'} what @param {Place} [place] */
export const contradiction = (what, place) =>
  new Unsupported(`no ${what} can match, because the format contradicts itself`, place);

/* Errors of regular expressions and grammars */

/** @param {string} what @param {Place} place */
export const notClosed = (what, place) => new Unsupported(`${what} is not closed`, place);

/** @param {string} what @param {Place} place */
export const unsupported = (what, place) => new Unsupported(`${what} is not supported`, place);

/** @param {string} letter @param {Place} place */
export const unknownEscape = (letter, place) => unsupported(`the escape \\${letter}`, place);

/** @param {Place} place */
export const rangeReversed = (place) => new Unsupported('a range ends before it begins', place);

/* Errors of regular expressions */

/** @param {string} name @param {Place} place */
export const unknownProperty = (name, place) =>
  new Unsupported(`this platform does not support the property \\p{${name}}`, place);

/** @param {Place} place */
export const assertionRepeated = (place) => new Unsupported('an assertion cannot be repeated', place);

/** @param {string} text @param {Place} place */
export const countsReversed = (text, place) => new Unsupported(`the minimum of ${text} exceeds its maximum`, place);

/** @param {string} text @param {Place} place */
export const nothingToRepeat = (text, place) => new Unsupported(`${text} has nothing to repeat`, place);

/** @param {Place} place */
export const lookbehind = (place) => new Unsupported('lookbehinds are not supported', place);

/** @param {string} letter @param {Place} place */
export const unknownGroup = (letter, place) =>
  new Unsupported(`groups of the kind (?${letter} are not supported`, place);

/** @param {Place} place */
export const notOpened = (place) => new Unsupported('a ")" has no "("', place);

/** @param {Place} place */
export const namedReference = (place) => new Unsupported('named back-references are not supported', place);

/** @param {Place} place */
export const endsInEscape = (place) => new Unsupported('the expression ends with a backslash', place);

/** @param {string} letter @param {Place} place */
export const escapeIncomplete = (letter, place) => new Unsupported(`the escape \\${letter} is incomplete`, place);

/** @param {Place} place */
export const propertyMissing = (place) => new Unsupported('a {property} is missing after \\p', place);

export const tooManyBefore = () => new TooComplex('too many parts precede an assertion such as $, \\b or (?=)', 0);

/** @param {number} most */
export const tooManyCopies = (most) =>
  new TooComplex(`an assertion such as ^, $ or \\b is repeated more than ${most} times`, 0);

/* Errors of grammars */

/** @param {string} name @param {Place} place */
export const ruleMissing = (name, place) => new Unsupported(`the rule ${name} is missing`, place);

/** @param {Place} place */
export const nameMissing = (place) => new Unsupported('the name of a rule is missing', place);

/** @param {string} name @param {Place} place */
export const definitionMissing = (name, place) => new Unsupported(`::= is missing after ${name}`, place);

/** @param {string} name @param {Place} place */
export const definedTwice = (name, place) => new Unsupported(`the rule ${name} is defined twice`, place);

/** @param {Place} place */
export const ruleGoesOn = (place) => new Unsupported('a rule must end at the end of a line', place);

/** @param {Place} place */
export const badCounts = (place) => new Unsupported('{m,n} is malformed', place);

/** @param {Place} place */
export const badOrder = (place) => new Unsupported('n must be at least m in {m,n}', place);

/** @param {Place} place */
export const negatedToken = (place) => new Unsupported('negated tokens are not supported', place);

/** @param {string} name @param {Place} place */
export const unknownToken = (name, place) => new Unsupported(`the vocabulary has no token <${name}>`, place);

/* Errors of keywords in schemas */

/** @param {string} fault from keywordFault() @param {Place} [place] */
export const badKeywords = (fault, place) => new Unsupported(fault, place);

/** @param {Place} [place] */
export const notSchema = (place) => mustBe('a schema', 'an object or a boolean', place);

/** @param {unknown} name @param {Place} place */
export const notType = (name, place) => new Unsupported(`${JSON.stringify(name)} is not a type of JSON Schema`, place);

/** @param {string} name @param {string} reason @param {Place} place */
export const unsupportedFormat = (name, reason, place) =>
  new Unsupported(`the format ${name} is not supported: ${reason}`, place);

/** @param {Place} place */
export const uniqueItems = (place) =>
  new Unsupported('uniqueItems is not supported, because items cannot be compared', place);

/** @param {string} key @param {Place} place */
export const notWithin = (key, place) =>
  new Unsupported(`${key} is not supported within \`not\`, \`oneOf\` or \`if\``, place);

/** The error for a pattern in a schema. @param {string} text @param {Unsupported} fault @param {Place} place */
export const inPattern = (text, { code, what }, place) =>
  Object.assign(new Unsupported(`in the pattern ${text}, ${what}`, place), { code });

/** @param {Place} place */
export const tooManyBranches = (place) =>
  new Unsupported('unevaluatedItems or unevaluatedProperties depends on too many branches', place);

/* Errors of references in schemas */

/** @param {string} name @param {Place} place */
export const unknownDialect = (name, place) => unsupported(`the dialect ${name} of $schema`, place);

/** @param {string} reference keyword and value @param {Place} place */
export const manyTargets = (reference, place) =>
  new Unsupported(`${reference} resolves to different schemas, depending on the references that lead to it`, place);

/** @param {string} reference @param {Place} place */
export const noAnchor = (reference, place) => new Unsupported(`the schema has no anchor for ${reference}`, place);

/** @param {string} reference @param {Place} place */
export const outside = (reference, place) =>
  new Unsupported(`${reference} points outside the schema, and other documents are not fetched`, place);

/** @param {string} text @param {string} what @param {Place} place */
export const badTarget = (text, what, place) => new Unsupported(`$ref ${text} points to ${what}`, place);

/** @param {string} fragment @param {Place} place */
export const badFragment = (fragment, place) =>
  new Unsupported(`the fragment ${fragment} of $ref has an invalid percent-encoding`, place);

/** @param {Place} place */
export const circular = (place) => new Unsupported('a $ref points to itself', place);

/* Errors of schemas that exceed limits */

/** @param {number} divisor */
export const tooManyDigits = (divisor) => new TooComplex(`multipleOf ${divisor} has too many digits`);

export const tooManyDigitsInAll = () => new TooComplex('a range or multipleOf has too many digits');

export const tooManySchemas = () => new TooComplex('one value must match too many schemas');

/** @param {Place} place */
export const tooManyAlternatives = (place) => new TooComplex('too many alternatives overlap', place);

export const tooManyPatterns = () => new TooComplex('too many patterns of patternProperties overlap');

export const tooManyCounts = () => new TooComplex('counting the items that match `contains` needs too many states');

export const tooManyViolations = () => new TooComplex('a negated schema can be violated in too many ways');

/* Errors of automata */

/** @param {string} what */
const notCombined = (what) =>
  new Unsupported(`${what} cannot be combined with other conditions (allOf, not, lookaheads)`);

/** @param {string} name */
export const recursive = (name) => notCombined(`the rule ${name} is recursive, so it`);

export const notRegular = () => notCombined('a token, JSON string or object');

export const tooManyStates = () =>
  new TooComplex('the combined conditions (allOf, not, ranges, lookaheads) need too many states');

/** @param {string} name */
export const unknownRule = (name) => new Unsupported(`there is no rule ${name}`);

/** @param {string} name */
export const leftRecursive = (name) => new Unsupported(`the rule ${name} is left-recursive`);

/** @param {number} times */
export const tooManyRepeats = (times) => new TooComplex(`a part is repeated too many times (${times})`);

/** @param {number} length @param {number} most */
export const tooLongText = (length, most) => new TooComplex(`a text has ${length} characters, more than ${most}`);

/** @param {number} most */
export const tooManyEncodings = (most) =>
  new TooComplex(`its characters have more than ${most} encodings (UTF-8 or escapes)`);

export const stringInString = () => new Unsupported('a JSON string cannot contain another JSON string');

export const emptyValue = () => new Unsupported('the value of a property may be empty, which is not JSON');
