/* Tests hostile formats over Gemma's own vocabulary: very large, deeply nested, extremely ambiguous. Each one compiles
 * and gives its first token masks, or is rejected with a code. A limit of steps, not of time, decides. Memory stays
 * bounded, and the same engine matches a valid format afterwards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Matcher } from '../../js/engine/grammar.js';
import { constraintOf } from '../../js/engine/constraint.js';
import { Budget, Unsupported, compile, lower, toBytes } from '../../js/grammar/index.js';
import { ordered } from '../../js/grammar/ordered.js';
import { bareEngine } from './bare-engine.js';
import { MATCHER_BYTES, PROPERTIES, tryHostile } from '../lab/hostile-formats.js';
import { testModel } from './models.js';

/** Limit of CPU time for a compilation, in milliseconds. An idle machine takes 500, a busy one up to 1500. */
const MOST_CPU = 1500;
const STEPS = 20;
const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
const times = (/** @type {number} */ n, /** @type {(i: number) => any} */ make) =>
  Array.from({ length: n }, (_, i) => make(i));
const object = (/** @type {any} */ properties, /** @type {any} */ more = {}) => ({
  type: 'object',
  properties,
  ...more,
});

/** @param {number} depth @param {(inner: any) => any} around @param {any} inner */
function nested(depth, around, inner) {
  for (let i = 0; i < depth; i++) inner = around(inner);
  return inner;
}

const named = (/** @type {number} */ n, /** @type {(i: number) => any} */ make) =>
  Object.fromEntries(times(n, (i) => [`member ${i}`, make(i)]));

/** @type {Record<string, () => any>} */
const HOSTILE = {
  'a megabyte of members': () => ({ schema: object(named(16_000, (i) => ({ type: 'string', maxLength: i }))) }),
  'a megabyte of choices': () => ({ choices: times(60_000, (i) => `choice number ${i * 7919}`) }),
  'a megabyte of an enum': () => ({ schema: { enum: times(60_000, (i) => `value ${i * 7919}`) } }),
  'a megabyte of one text': () => ({ schema: { const: 'long "text" '.repeat(90_000) } }),
  'a megabyte of allOf': () => ({
    schema: { allOf: times(20_000, (i) => object({ [`a${i}`]: { type: 'integer' } })) },
  }),
  'a megabyte of anyOf': () => ({
    schema: { anyOf: times(12_000, (i) => object({ k: { const: i } }, { required: ['k'] })) },
  }),
  'a megabyte of a pattern': () => ({ schema: { type: 'string', pattern: '(a|b)?c*'.repeat(120_000) } }),
  'a megabyte of GBNF': () => ({ grammar: `root ::= ${times(30_000, (i) => `"text ${i}"`).join(' | ')}` }),
  'deep arrays': () => ({ schema: nested(5000, (items) => ({ type: 'array', items, minItems: 1 }), { type: 'null' }) }),
  'deep objects': () => ({ schema: nested(800, (a) => object({ a }, { required: ['a'] }), { type: 'null' }) }),
  'deep anyOf': () => ({ schema: nested(4000, (one) => ({ anyOf: [one, { type: 'null' }] }), {}) }),
  'deep not': () => ({ schema: nested(4001, (not) => ({ not }), { type: 'string' }) }),
  'deep groups': () => ({ regex: `${'('.repeat(30_000)}a${')'.repeat(30_000)}` }),
  'recursion through all': () => ({
    schema: {
      $defs: {
        n: {
          anyOf: [
            { type: 'array', items: { $ref: '#/$defs/n' } },
            object({ a: { $ref: '#/$defs/n' }, b: { $ref: '#/$defs/n' } }),
          ],
        },
      },
      $ref: '#/$defs/n',
    },
  }),
  'a reference to itself': () => ({ schema: { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' } }),
  'unions of unions': () => ({
    schema: {
      allOf: times(24, (i) => ({ anyOf: [object({ [`a${i}`]: { const: 1 } }), object({ [`b${i}`]: { const: 2 } })] })),
    },
  }),
  'oneOf that overlap': () => ({
    schema: { oneOf: times(40, (i) => object({ a: { minimum: i }, b: { maximum: -i } })) },
  }),
  'not of allOf': () => ({
    schema: { not: { allOf: times(30, (i) => ({ not: object({ [`a${i}`]: { enum: [1, 'x', null] } }) })) } },
  }),
  dependencies: () => ({
    schema: { dependentRequired: Object.fromEntries(times(40, (i) => [`a${i}`, [`a${(i + 1) % 40}`, `b${i}`]])) },
  }),
  'patterns of names': () => ({
    schema: { patternProperties: Object.fromEntries(times(30, (i) => [`a.{${i}}b`, { const: i }])) },
  }),
  'counted items': () => ({
    schema: { type: 'array', minItems: 999_999, maxItems: 10_000_000, items: { type: 'integer' } },
  }),
  'counted letters': () => ({
    schema: { type: 'string', minLength: 1_000_000, maxLength: 9_000_000, pattern: '^(ab|ba)*$' },
  }),
  contains: () => ({
    schema: { type: 'array', contains: { minimum: 5 }, minContains: 900, maxContains: 1000, maxItems: 5000 },
  }),
  subsets: () => ({ regex: '(a|b)*a(a|b){40}' }),
  'subsets in a string': () => ({
    schema: { type: 'string', pattern: '^(a|b)*a(a|b){30}$', not: { pattern: 'b{9}$' } },
  }),
  catastrophes: () => ({ regex: '((a*)*)*b|(a|a)*c|(a+)+d|(.*)*e' }),
  'optional by the hundred': () => ({ regex: `${'a?'.repeat(600)}${'a'.repeat(600)}` }),
  'repeats of repeats': () => ({ regex: '((((a{0,99}){0,99}){0,99}){0,99}){0,99}' }),
  'large repeats': () => ({ regex: '(ab{1,9999}c){5000,99999}' }),
  'any text at all': () => ({ regex: '[^]*' }),
  'a range of many digits': () => ({
    schema: { type: 'number', minimum: 1.2345678901234567e-300, exclusiveMaximum: 1.7e308 },
  }),
  'large multiples': () => ({
    schema: { type: 'integer', multipleOf: 3999, minimum: -1e21, maximum: 1e21, not: { multipleOf: 7 } },
  }),
  'multiples that are not numbers': () => ({ schema: { multipleOf: 1e-300 } }),
  lookaheads: () => ({ regex: `${times(25, (i) => `(?=.*${String.fromCharCode(97 + i)})`).join('')}.*` }),
  'rules of GBNF that grow': () => ({
    grammar: `root ::= r0\n${times(40, (i) => `r${i} ::= r${i + 1} r${i + 1}`).join('\n')}\nr40 ::= "a"?`,
  }),
  'one member in allOf': () => ({ schema: { allOf: times(25_000, (i) => object({ a: { minimum: i } })) } }),
  'multiples in allOf': () => ({ schema: { allOf: times(20_000, (i) => ({ multipleOf: i + 1 })) } }),
  'tuples in allOf': () => ({
    schema: { allOf: times(500, (i) => ({ prefixItems: times(100, (k) => ({ minimum: i + k })) })) },
  }),
  'properties of Unicode': () => ({ regex: '\\p{L}'.repeat(100_000) }),
  'sets without case': () => ({ regex: '[^\\p{L}\\d]'.repeat(50_000), flags: 'iu' }),
  'names and patterns': () => ({
    schema: object(
      named(5000, (i) => ({ const: i })),
      { patternProperties: Object.fromEntries(times(20, (i) => [`^m.*${i}$`, { minimum: i }])) },
    ),
  }),
  'objects in an enum': () => ({ schema: { enum: times(20_000, (i) => ({ a: i, b: [i] })) } }),
  'oneOf by value': () => ({ schema: { oneOf: times(1000, (i) => ({ const: `value ${i}` })) } }),
  'rules that use one rule': () => ({
    grammar: `root ::= ${times(20_000, (i) => `r${i}`).join('|')}\n${times(20_000, (i) => `r${i} ::= x "${i}"`).join(
      '\n',
    )}\nx ::= "a" | "b" x`,
  }),
  'alternatives in a star': () => ({ regex: `(${times(20_000, (i) => `w${i}x`).join('|')})*` }),
  'optional classes': () => ({ regex: '[a-f]?'.repeat(900) }),
  'many ranges': () => ({
    schema: object(named(3000, (i) => ({ type: 'number', minimum: 1.2345678901234567e-300 * (i + 1) }))),
  }),
  'many multiples': () => ({
    schema: object(named(8000, (i) => ({ type: 'integer', multipleOf: 3900 - (i % 3000), minimum: i }))),
  }),
  'many formats': () => ({
    schema: object(named(9000, (i) => ({ format: ['uri', 'email', 'ipv6'][i % 3], maxLength: 10 + i }))),
  }),
  'lookaheads of counts': () => ({ regex: `${times(400, (i) => `(?=.*a{${i}})`).join('')}.*` }),
  boundaries: () => ({ regex: '\\b\\w+\\b.'.repeat(40) }),
  'a count between boundaries': () => ({ regex: '.$\\p{L}{3,}[^a]{9999}\\bé\\b' }),
  'parts that are shared': () => ({ schema: { const: nested(60, (part) => [part, part], 1) } }),
  'counts of counts': () => ({ regex: '(.{0,999}a){0,999}b' }),
  'boundaries that share what follows': () => ({ regex: '\\b.'.repeat(30) }),
  'a pattern of boundaries': () => ({ schema: { type: 'string', pattern: '\\b.'.repeat(14) } }),
  'required by the thousand': () => ({ schema: { type: 'object', required: times(20_000, (i) => `r${i}`) } }),
  'choices by the megabyte': () => ({ choices: times(190_000, (i) => `choice number ${i * 7919}`) }),
  'choices that begin each other': () => ({ choices: times(2000, (i) => 'a'.repeat(i + 1)) }),
  'enums in allOf': () => ({ schema: { allOf: times(2, () => ({ enum: times(6000, (i) => i) })) } }),
  'enums in anyOf': () => ({ schema: { anyOf: times(48, (k) => ({ enum: times(10_000, (i) => i + k) })) } }),
  'items that are counted for many schemas': () => ({
    schema: { allOf: times(20, (i) => ({ contains: { const: i }, minContains: 2 })) },
  }),
  'properties in a set': () => ({ regex: `[${'\\p{L}'.repeat(60_000)}]` }),
  'braces that open': () => ({ regex: '{'.repeat(200_000) }),
  'braces that close late': () => ({ regex: `${'{'.repeat(100_000)}}` }),
  'oneOf of enums': () => ({ schema: { oneOf: times(60, (k) => ({ enum: times(200, (i) => i * 61 + k) })) } }),
  'properties that differ': () => ({ regex: PROPERTIES.map((name) => `\\p{${name}}`).join('') }),
  'goals of required names': () => ({
    schema: {
      required: times(300, (i) => `r${i}`),
      allOf: times(900, (i) => ({ additionalProperties: { minimum: i } })),
    },
  }),
  'goals of members': () => ({
    schema: { allOf: times(900, (i) => ({ properties: named(100, () => ({ minimum: i })) })) },
  }),
  'a text that is too long': () => ({ schema: { const: 'a'.repeat(40_000_000), maxLength: 5 } }),
  'a long part with a boundary': () => ({ regex: `(?:(?:(?:${'a'.repeat(50_000)})\\b){16}){16}` }),
  'a long part with a lookahead': () => ({ regex: `(?:(?:(?:${'a'.repeat(50_000)})(?=b)){16}){16}` }),
  'texts that objects share': () => ({
    schema: object(
      named(1500, (i) => object({ [`x${i}`]: { $ref: '#/$defs/e' } })),
      { $defs: { e: { enum: times(60_000, (i) => `value ${i}`) } } },
    ),
  }),
  'texts that unions share': () => ({
    schema: object(
      named(1500, (i) => ({ anyOf: [{ $ref: '#/$defs/e' }, { const: i }, { const: `w${i}` }] })),
      { $defs: { e: { enum: times(60_000, (i) => `value ${i}`) } } },
    ),
  }),
  'numbers that objects share': () => ({
    schema: object(
      named(3000, () => ({ $ref: '#/$defs/o' })),
      { $defs: { o: object({ x: { enum: times(60_000, (i) => i) } }) } },
    ),
  }),
  'members that objects share': () => ({
    schema: object(
      named(1500, () => ({ $ref: '#/$defs/o' })),
      { $defs: { o: object(named(1500, () => true)) } },
    ),
  }),
  'ways to break rules of names': () => ({
    schema: object(Object.fromEntries(times(7000, (i) => [`${i < 32 ? 'qz'[i % 2] : 'm'}${i}`, true])), {
      additionalProperties: false,
      allOf: ['q', 'z'].map((letter) => ({ not: { propertyNames: { pattern: `^[^${letter}]` } } })),
    }),
  }),
  'ambiguous GBNF': () => ({ grammar: 'root ::= root0\nroot0 ::= "a" root0 root0 | "a" root0 | "a"' }),
};

/** @param {any} format */
function compiled(format) {
  try {
    const budget = new Budget({ milliseconds: Infinity });
    return lower(ordered(compile(format, { budget }), budget), { spelling: 'shortest', budget });
  } catch (error) {
    assert.ok(error instanceof Unsupported, String(/** @type {any} */ (error).stack));
    assert.ok(['bad-format', 'format-too-complex'].includes(error.code));
    assert.ok(error.what.length > 3 && error.what.length < 600);
    return null;
  }
}

/** @param {import('../../js/engine/engine.js').Engine} engine @param {Uint8Array} bytes */
function tried(engine, bytes) {
  let matcher;
  try {
    matcher = new Matcher(engine, bytes);
    for (let i = 0; i < STEPS; i++) {
      const mask = matcher.mask();
      const at = mask.findIndex((word) => word !== 0);
      if (at < 0) break;
      matcher.accept(32 * at + 31 - Math.clz32(mask[at]));
      matcher.forced();
    }
    assert.ok(matcher.heapBytes - bytes.length <= MATCHER_BYTES, `${matcher.heapBytes} bytes`);
  } catch (error) {
    assert.equal(/** @type {any} */ (error).code, 'bad-format');
  } finally {
    matcher?.dispose();
  }
}

test('hostile formats compile or are rejected in time, and the engine stays usable', async (t) => {
  const engine = await bareEngine(await testModel('gemma-vocab-tiny'), 'simd128');
  const sound = toBytes({ choices: ['fine'] });
  const counts = { answers: 0, refusals: 0 };
  for (const [name, make] of Object.entries(HOSTILE)) {
    const format = make();
    const before = process.cpuUsage();
    const bytes = compiled(format);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < MOST_CPU * 1000, `${name}: ${(user + system) / 1000} ms of CPU time`);
    if (bytes) tried(engine, bytes);
    t.diagnostic(`${name}: ${bytes ? `${bytes.length} bytes` : 'refused'}, ${(user + system) / 1000} ms`);
    counts[bytes ? 'answers' : 'refusals']++;
    const matcher = new Matcher(engine, sound);
    assert.ok(matcher.acceptBytes(bytesOf('fine')) && matcher.finished, name);
    matcher.dispose();
  }
  assert.ok(counts.answers > 10 && counts.refusals > 5, JSON.stringify(counts));
});

test('a format with very many cases is refused for that reason, not as nested too deeply', () => {
  const values = Array.from({ length: 150_000 }, (_, i) => `c${i * 7919}`);
  for (const format of [{ choices: values }, { regex: values.join('|') }, { schema: { enum: values } }])
    assert.throws(() => toBytes(format), /too many cases/);
});

test('long lists in a schema are refused when they are read, before other work', () => {
  const names = Array.from({ length: 10_000 }, (_, i) => `n${i}`);
  for (const [schema, place] of /** @type {[any, RegExp][]} */ ([
    [{ required: names }, /\(at #\/required\)/],
    [{ dependentRequired: { a: names } }, /\(at #\/dependentRequired\/a\)/],
    [{ dependentRequired: Object.fromEntries(names.map((name) => [name, []])) }, /\(at #\/dependentRequired\/n\d+\)/],
    [{ properties: Object.fromEntries(names.map((name) => [name, true])) }, /\(at #\/properties\)/],
    [{ anyOf: names.map(() => true) }, /\(at #\/anyOf\)/],
  ]))
    assert.throws(() => toBytes({ schema }, { steps: 9000 }), place);
});

test('jump-forward bytes are searched for in a bounded number of steps, and returned in parts', async () => {
  const engine = await bareEngine(await testModel('gemma-vocab-tiny'), 'simd128');
  const matcher = new Matcher(engine, toBytes({ regex: `${'a?'.repeat(600)}${'a'.repeat(600)}` }));
  let text = '';
  for (let part = matcher.forced(); part.length && text.length < 60; part = matcher.forced()) {
    assert.ok(part.length < 300, `${part.length} jump-forward bytes at once`);
    assert.ok(matcher.acceptBytes(part));
    text += new TextDecoder().decode(part);
  }
  assert.match(text, /^a{60,}$/);
  matcher.dispose();
});

test('generated formats compile or are refused with a code, and none hangs or kills its thread', async () => {
  const { counts, failures } = await tryHostile(60, 1);
  assert.deepEqual(failures, []);
  assert.ok(
    counts.compiled > 25 && counts['format-too-complex'] > 2 && counts['bad-format'] > 2,
    JSON.stringify(counts),
  );
});

test('other calls are answered between the passes of the compiler, and an abort takes effect there', async () => {
  const vocabulary = /** @type {any} */ ({ alive() {}, idOf: () => null });
  const choices = Array.from({ length: 2000 }, (_, i) => `choice ${i * i}`);
  const args = /** @type {any} */ ({ format: { choices }, tools: null });
  /** @type {string[]} */
  const order = [];
  const breathe = () => new Promise((resolve) => setImmediate(resolve));
  const compiled = constraintOf(vocabulary, args, breathe).then(({ constraint }) => {
    order.push('compiled');
    return constraint;
  });
  setImmediate(() => order.push('another call'));
  const constraint = await compiled;
  assert.deepEqual(order, ['another call', 'compiled']);
  const at = lower(ordered(compile({ choices }), new Budget()), { spelling: 'shortest', budget: new Budget() });
  assert.deepEqual(constraint, at);
  let pauses = 0;
  const aborted = async () => {
    if (++pauses === 2) throw new Error('aborted');
  };
  await assert.rejects(constraintOf(vocabulary, args, aborted), /aborted/);
});
