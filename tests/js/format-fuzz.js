/**
 * format-fuzz: builds formats from random parts (schemas, regular expressions, GBNF), most of them nearly valid. Each
 * one is rejected with an error that names the part, or compiles to bytes that the engine accepts or rejects with
 * `bad-format`. Masks allow only tokens that the matcher accepts. Stops at the first failure. format-fuzz.test.js runs
 * some seeds, this command runs for some minutes:
 *
 *   node tests/js/format-fuzz.js [MINUTES] [SEED]
 */
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { Matcher } from '../../js/engine/grammar.js';
import { Unsupported, toBytes } from '../../js/grammar/index.js';
import { bareEngine } from './bare-engine.js';
import { testModel } from './models.js';
import { randoms } from '../support/random.js';
import { randomSchema } from '../support/keyword-schemas.js';

/** @typedef {(n: number) => number} Random */

const REGEX = [
  ...String.raw`a b é 😀 . \d \w \s \b \p{L} \u0041 \x \1 [a-c] [^a] [b-a] [] [^] ( ) (?: (?= (?!`.split(' '),
  ...String.raw`(?<= (?<n> | * + ? {2} {1,3} {3,} {9999} { } ^ $ / \/ \- - " \\`.split(' '),
  '\n',
];
const GBNF = [
  'root ::= ',
  'x ::= ',
  'x',
  'y',
  'root',
  '"a"',
  '"\\n"',
  '"',
  '[a-z]',
  '[^"]',
  '[',
  '(',
  ')',
  '|',
  '*',
  '+',
  '?',
  '{2}',
  '{1,}',
  '{,3}',
  ' ',
  '\n',
  '# note\n',
  '<[7]>',
  '!<[7]>',
  '.',
  '::=',
  '\\',
  '"\\u00e9"',
  '"\\x41"',
];
const WORDS = `type enum const minimum maxLength pattern format items prefixItems properties required anyOf allOf
  oneOf not if then else $ref $defs additionalProperties patternProperties contains minContains
  uniqueItems dependentSchemas propertyNames unevaluatedProperties multipleOf minItems maxProperties
  $id $anchor`.split(/\s+/);
/** @type {unknown[]} */
const VALUES = [
  null,
  true,
  false,
  0,
  -1,
  1e300,
  1.5,
  NaN,
  '',
  'string',
  'object',
  'integer',
  '#',
  '#/$defs/a',
  '#x',
  'a*',
  '(',
  'date',
  'regex',
  [],
  {},
  [[]],
  [{}],
  ['a'],
  ['string', 'null'],
  { a: {} },
  { '': true },
  '\ud800',
  2 ** 53,
  '__proto__',
  { __proto__: null, constructor: 1 },
];

/** @param {Random} random @param {string[]} pieces */
const glued = (random, pieces) => Array.from({ length: 1 + random(12) }, () => pieces[random(pieces.length)]).join('');

/** @param {Random} random @param {number} depth @returns {any} */
function schemaOf(random, depth) {
  if (random(3) === 0) return randomSchema(random, 2);
  /** @type {Record<string, any>} */
  const schema = random(2) ? randomSchema(random, 1) : {};
  if (typeof schema !== 'object') return schema;
  for (let n = random(4); n >= 0; n--) {
    const value = depth && random(2) ? schemaOf(random, depth - 1) : VALUES[random(VALUES.length)];
    const word = WORDS[random(WORDS.length)];
    const form = random(4);
    schema[word] = form === 0 ? [value, value] : form === 1 ? { a: value, $ref: value } : value;
  }
  return schema;
}

/** @param {Random} random @returns {any} */
function formatOf(random) {
  const kind = random(8);
  if (kind < 2) return { regex: glued(random, REGEX), flags: ['', 'u', 'i', 's', 'm', 'v', 'zz'][random(7)] };
  if (kind < 4) return { grammar: `${random(3) ? 'root ::= ' : ''}${glued(random, GBNF)}` };
  if (kind === 4) return VALUES[random(VALUES.length)];
  if (kind === 5)
    return { choices: [glued(random, REGEX), glued(random, GBNF), VALUES[random(VALUES.length)]].slice(random(3)) };
  return { schema: schemaOf(random, 3), whitespace: ['compact', 'pretty', 'any'][random(3)] };
}

/** @param {Matcher} matcher @param {Random} random */
function follow(matcher, random) {
  for (let step = 0; step < 4; step++) {
    const mask = matcher.mask();
    const words = [...mask.keys()].filter((i) => mask[i]);
    assert.ok(words.length || matcher.finished || matcher.complete, 'no token is allowed, but the text is incomplete');
    if (!words.length) return;
    const at = words[random(words.length)];
    const id = 32 * at + 31 - Math.clz32(mask[at]);
    assert.ok(matcher.allows(id) && matcher.accept(id), `the matcher rejects token ${id}, which the mask allows`);
    if (matcher.ended) return;
    matcher.forced();
  }
}

/** @param {any} engine @param {number} seed @returns {'taken' | 'refused'} */
function tryOne(engine, seed) {
  const random = randoms(seed);
  const format = formatOf(random);
  const said = () => `seed ${seed}: ${JSON.stringify(format)}`;
  const start = performance.now();
  let bytes;
  try {
    bytes = toBytes(format, { matching: random(2) === 0 });
  } catch (error) {
    assert.ok(error instanceof Unsupported, `${said()}: ${/** @type {Error} */ (error).stack}`);
    assert.ok(typeof error.what === 'string' && error.what.length > 2 && error.place !== undefined, said());
    return 'refused';
  } finally {
    assert.ok(performance.now() - start < 30_000, said());
  }
  let matcher;
  try {
    matcher = new Matcher(engine, bytes);
    follow(matcher, random);
  } catch (error) {
    assert.equal(/** @type {any} */ (error).code, 'bad-format', `${said()}: ${/** @type {Error} */ (error).stack}`);
  } finally {
    matcher?.dispose();
  }
  return 'taken';
}

/** Tries formats of consecutive seeds while `more` returns true for their number. Throws at the first failure.
 * @param {number} first seed @param {(n: number) => boolean} more */
export async function fuzzFormats(first, more) {
  const engine = await bareEngine(await testModel('tiny'));
  const counts = { taken: 0, refused: 0 };
  for (let n = 0; more(n); n++) counts[tryOne(engine, first + n)]++;
  return counts;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [minutes = '1', seed = '1'] = process.argv.slice(2);
  const end = performance.now() + 60_000 * Number(minutes);
  console.log(JSON.stringify(await fuzzFormats(Number(seed), () => performance.now() < end)));
}
