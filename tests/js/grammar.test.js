/* grammar: compares the format compilers of js/grammar with the slow acceptor of tests/support and with the platform's
 * own RegExp and JSON. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Unsupported, compile, toBytes } from '../../js/grammar/index.js';
import { Languages } from '../../js/grammar/language.js';
import { numberNode } from '../../js/grammar/numbers.js';
import { ordered } from '../../js/grammar/ordered.js';
import { Budget } from '../../js/grammar/refusal.js';
import { parseRegex } from '../../js/grammar/regex-parse.js';
import { searchNode } from '../../js/grammar/regex.js';
import { accepts } from '../support/acceptor.js';
import { randoms } from '../support/random.js';

/** @param {any} format @param {string[]} good @param {string[]} bad @param {object} [options] */
function judges(format, good, bad, options) {
  const grammar = compile(format, options);
  for (const text of good) assert.equal(accepts(grammar, text), true, `${JSON.stringify(format)} takes ${text}`);
  for (const text of bad) assert.equal(accepts(grammar, text), false, `${JSON.stringify(format)} refuses ${text}`);
}

/** @param {any} format @param {RegExp} what @param {string | number} place */
function refuses(format, what, place) {
  assert.throws(
    () => compile(format),
    (error) => {
      assert.ok(error instanceof Unsupported, String(error));
      assert.match(error.what, what);
      assert.equal(error.place, place);
      return true;
    },
  );
}

const WORDS = [
  ...['', 'foo bar', 'x\n', 'a\u2028b'],
  ...'a b ab abc foo xfoo Afoo1 1234 a,b a1b2 xx é É 2020-01-01 http://x.y A_B v1.2.3 😀ab foo-bar'.split(' '),
  ...'/x/y $ref ^x zbc b,a'.split(' '),
];
const PATTERNS = String.raw`^a|b$ (^a|b)c \bfoo\b ^(?!x)[a-z]+$ ^(?=.*\d)(?=.*[a-z]).{4,8}$ a(?=b) ^\S+$ (^|,)a($|,) ^$
  \p{Lu} \P{L} [^a] .{3} \Bfoo ^(foo\b)?.*x (?!^)a [\d\-_] a??b ^(?:a|b|ab)(?:c|)$ \u0061\x62 \u{1F600}
  [\u{1F600}-\u{1F610}] (?<name>o)o ^.$ a{2,}|b{0}c ^(a?){20}a{0,20}$ [\w.]+@ \$ [$^] (?=a)b|c ^(?!.*a).*b \b
  ^\B$`.split(/\s+/);

test("patterns match as the platform's RegExp does", () => {
  for (const pattern of PATTERNS) {
    const budget = new Budget();
    const languages = new Languages(budget);
    const node = searchNode(pattern, budget);
    const own = new RegExp(pattern, 'u');
    for (const word of WORDS) assert.equal(languages.matches(node, word), own.test(word), `/${pattern}/ of '${word}'`);
  }
});

test('with the flag i, character sets match the same characters as in the platform', () => {
  const both = String.raw`k s [^k] [^s] \W \w [\W] [^\W] [a-z] [^a-z] [\0-\uffff] [\u0100-\uffff] ß ǆ İ ı µ Ω \S [^\d]`;
  const ofUnicode = String.raw`\P{Lu} \p{Lu} [^\p{Lu}] [\u{10400}-\u{10410}] [^\u{10428}]`;
  for (const flags of ['i', 'iu'])
    for (const set of `${both}${flags === 'iu' ? ` ${ofUnicode}` : ''}`.split(' ')) {
      const ours = parseRegex(set, flags, new Budget());
      assert.ok(ours.kind === 'chars', set);
      const platform = new RegExp(`^${set}$`, flags);
      const wrong = [];
      for (let code = 0; code < (flags === 'iu' ? 0x20000 : 0x10000); code++) {
        if (code >= 0xd800 && code < 0xe000) continue; // lone surrogates are not characters
        const accepted = ours.ranges.some(([lo, hi]) => lo <= code && code <= hi);
        if (accepted !== platform.test(String.fromCodePoint(code))) wrong.push(code.toString(16));
      }
      assert.deepEqual(wrong, [], `/${set}/${flags}`);
    }
  assert.throws(() => toBytes({ regex: /\bk/iu }), /\\b with the flags i and u is not supported/);
});

test('regular expressions match whole texts; unsupported ones are rejected with their position', () => {
  judges({ regex: '[a-c]+(-\\d{2})?' }, ['abc', 'a-12'], ['', 'a-1', 'xa', 'a\n']);
  judges({ regex: /yes|no/i }, ['YES', 'no', 'nO'], ['yess']);
  judges({ regex: '(a*)*b|(a+)+c' }, ['aaab', 'aac', 'b'], ['aaaa']);
  judges({ regex: '[\\w--/]' }, ['a', '-', '/'], ['.']);
  refuses({ regex: '(a)\\1' }, /back-reference \\1/, 3);
  refuses({ regex: 'x(?<=a)b' }, /lookbehind/, 1);
  refuses({ regex: '(?:a' }, /not closed/, 0);
  refuses({ regex: '\\d{3}{2}' }, /^\{ has nothing to repeat/, 5);
  refuses({ regex: 'a|*' }, /^\* has nothing to repeat/, 2);
  refuses({ regex: '\\012' }, /the escape \\0 is not supported/, 0);
});

test('ranges of numbers are enforced digit by digit', () => {
  const values = [
    0, 1, 2, 7, 9, 10, 11, 19, 20, 99, 100, 101, 250, 999, 1000, 0.1, 0.01, 0.5, 2.5, 9.99, 10.01, 12.34, 1e21, 1.5e22,
    1e-7, 2.5e-9,
  ].flatMap((value) => [value, -value]);
  const languages = new Languages(new Budget({ milliseconds: 60000, steps: 1e9 }));
  for (const lo of [-Infinity, -10.01, -2, 0, 0.5, 9, 1e-7]) {
    for (const hi of [-0.01, 0, 2.5, 10, 999, 1.5e22, Infinity]) {
      if (lo >= hi) continue;
      for (const [loOpen, hiOpen] of [
        [false, false],
        [true, true],
      ]) {
        const interval = { lo, loOpen, hi, hiOpen };
        const node = numberNode({ intervals: [interval], multiples: [], notMultiples: [] }, true, new Budget());
        for (const value of values) {
          const inside = (value > lo || (value === lo && !loOpen)) && (value < hi || (value === hi && !hiOpen));
          assert.equal(
            languages.matches(node, JSON.stringify(value)),
            inside,
            `${value} in ${JSON.stringify(interval)}`,
          );
        }
      }
    }
  }
});

test('texts to be matched may have a negative zero', () => {
  const options = { matching: true };
  judges({ schema: { type: 'number', minimum: 0, multipleOf: 2 } }, ['-0', '-0.0', '0', '2'], ['-2', '-0.1'], options);
  judges({ schema: { type: 'number', exclusiveMinimum: 0 } }, ['1'], ['-0', '0', '-1'], options);
});

test('multipleOf is exact in decimals', () => {
  judges({ schema: { type: 'number', multipleOf: 0.01 } }, ['0', '1.15', '-19.99', '4.350'], ['0.005', '1.151']);
  // A validator that divides doubles rejects -3.3 as a multiple of 0.1 (docs/schemas.md).
  judges({ schema: { type: 'number', multipleOf: 0.1 } }, ['-3.3', '0.3'], ['-3.33']);
  judges({ schema: { type: 'integer', multipleOf: 7, minimum: 10 } }, ['14', '700'], ['7', '15', '0', '-14']);
  judges({ schema: { type: 'integer' } }, ['-5', '0'], ['1.0', '1e2', '01', '-']);
  judges({ schema: { type: 'integer' } }, ['1.0', '1e+21', '-5.00'], ['1.5', '1e-1'], { matching: true });
});

test('members of an object may have any order, and each occurs once', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' }, b: { enum: ['x', null] } }, required: ['b'] };
  judges(
    { schema },
    ['{"a":1,"b":"x"}', '{"b":null,"a":1}', '{"b":null,"c":[{}]}'],
    ['{"a":1}', '{"b":"x","b":"x"}', '{"a":"1","b":null}', '{ "b":null}', '{"b":null,}', '[]'],
  );
  judges(
    { schema: { ...schema, additionalProperties: false }, whitespace: 'pretty' },
    ['{\n  "a": 1,\n  "b": "x"\n}'],
    ['{"b":null}', '{\n  "b": null,\n  "c": 1\n}'],
  );
  judges({ schema, whitespace: 'any' }, [' {"b"\t:\nnull } '], ['{"b":nul l}']);
});

test('$ref may be recursive; references that never end are rejected', () => {
  const tree = { $ref: '#/$defs/tree', $defs: { tree: { type: 'array', items: { $ref: '#/$defs/tree' } } } };
  judges({ schema: tree }, ['[]', '[[],[[]]]'], ['[1]', '[[]']);
  refuses({ schema: { $ref: '#' } }, /\$ref points to itself/, '');
  refuses({ schema: { type: 'object', required: ['a'], properties: { a: { $ref: '#' } } } }, /no value can match/, '');
  refuses({ schema: { properties: { a: { $ref: 'other.json' } } } }, /points outside the schema/, '/properties/a/$ref');
  refuses({ schema: { properties: { 'a/b': { format: 'regex' } } } }, /format regex/, '/properties/a~1b/format');
});

test("grammars in llama.cpp's form (GBNF) are supported", () => {
  const list = `# a list
root  ::= item ("," ws item)*   # one line
ws ::= [ \\t]*
item ::=
  "\\"" [^"\\\\]{1,3} "\\""
  | digits
digits ::= [0-9]{2} | "\\x41" | [\\u0416-\\u0418]`;
  judges({ grammar: list }, ['"ab"', '12, "x",A', 'Ж'], ['1', '"abcd"', '12,', '""']);
  judges({ grammar: 'root ::= "(" root? ")" | [a-é]' }, ['(())', 'é', '((x))'], ['(', '']);
  assert.ok(accepts(ordered(compile({ grammar: 'root ::= __proto__\n__proto__ ::= "a"' })), 'a'));
  refuses({ grammar: 'root ::= x' }, /the rule x is missing/, 9);
  refuses({ grammar: 'root ::= "a' }, /not closed/, 9);
  refuses({ grammar: 'root ::= <think>' }, /the vocabulary has no token/, 9);
  const grammar = compile(
    { grammar: 'root ::= <think> <[7]>' },
    { tokenOf: (text) => (text === '<think>' ? 3 : undefined) },
  );
  assert.deepEqual(grammar.rules.root, { sequence: [{ token: 3 }, { token: 7 }] });
  refuses({ grammar: `root ::= <[${2 ** 32 + 7}]>` }, /the vocabulary has no token/, 9);
  // The time to parse must not grow exponentially with the number of #, or quadratically with that of spaces.
  judges({ grammar: `root ::= "a"{,2}\n${'#'.repeat(99)}\nx ::= "b"` }, ['', 'aa'], ['aaa']);
  refuses({ grammar: `root ::= "a"{${' '.repeat(500_000)}` }, /malformed/, 12);
});

test('choices and any JSON are supported; malformed formats are rejected', () => {
  judges({ choices: ['yes', 'no', 'no way'] }, ['yes', 'no way'], ['', 'no w', 'yesno']);
  assert.ok(toBytes({ choices: ['a', 'b'].map((end) => 'long'.repeat(9000) + end) }));
  judges('json', ['{"a":[1,2.5e3,"\\u00e9",null]}', 'true'], ['{a:1}', "'x'", '[1,]']);
  for (const format of [{ choices: [] }, { regex: 'a', choices: ['b'] }, {}, 'xml', { schema: 7 }, { grammar: 1 }]) {
    refuses(format, /must /, '');
  }
  refuses({ schema: { nullable: true } }, /no keyword of JSON Schema/, '');
});

test('numbers in answers are finite and limited in digits; texts to be matched may have any number', () => {
  const held = (/** @type {any} */ schema) => {
    const grammar = ordered(compile({ schema }));
    return (/** @type {string} */ text) => accepts(grammar, text);
  };
  const number = held({ type: 'number' });
  const integer = held({ type: 'integer' });
  for (const text of ['0', '-0.5', '3.14159265358979', '123456789012345', '1e307', '9.99e-307', '-1.5E+20'])
    assert.ok(number(text), text);
  for (const text of ['1e308', '764e717', '1234567890123456', '1234567.890123456', '0.1234567890123456', '1e0001']) {
    assert.ok(!number(text), text);
  }
  assert.ok(integer('9999999999999999') && !integer('10000000000000000') && !integer('1.0'));
  const large = held({ type: 'integer', minimum: 1e20 });
  const narrow = held({ exclusiveMinimum: 1e-20, exclusiveMaximum: 2e-20 });
  assert.ok(large('100000000000000000000') && !large(`1${'0'.repeat(30)}`));
  assert.ok(narrow('0.000000000000000000015'));
  const judged = compile({ schema: { type: 'number' } }, { matching: true });
  for (const text of ['764e717', '12345678901234567890.5']) assert.ok(accepts(judged, text), text);
});

test('bounds of the format apply only where the schema has none', () => {
  const bounds = { maxLength: 3, maxItems: 2, maxProperties: 1 };
  const held = (/** @type {any} */ schema) => ordered(compile({ schema, ...bounds }));
  const all = held(true);
  for (const text of ['"abc"', '[1,2]', '{"a":"abc"}', '[["abc"]]']) assert.ok(accepts(all, text), text);
  for (const text of ['"abcd"', '[1,2,3]', '{"a":1,"b":2}', '{"abcd":1}', '["abcd"]'])
    assert.ok(!accepts(all, text), text);
  assert.ok(
    accepts(held({ type: 'string', maxLength: 5 }), '"abcde"') && accepts(held({ const: 'abcdef' }), '"abcdef"'),
  );
  assert.ok(accepts(held({ allOf: [{ pattern: 'ab' }, { pattern: 'bcd' }] }), '"abcd"'));
  assert.ok(accepts(held({ type: 'array', minItems: 4, items: { const: 1 } }), '[1,1,1,1]'));
  assert.ok(accepts(held({ required: ['longer', 'names'], type: 'object' }), '{"longer":1,"names":1}'));
});

test('malformed keywords are rejected with an error that names them', () => {
  for (const [key, value] of Object.entries({
    pattern: 5,
    format: {},
    items: 5,
    prefixItems: {},
    additionalItems: 5,
    uniqueItems: 'yes',
    required: true,
    minimum: true,
    multipleOf: false,
  })) {
    refuses(
      { schema: { properties: { a: { [key]: value } } } },
      new RegExp(`^${key} must be a`),
      `/properties/a/${key}`,
    );
  }
  judges({ schema: { type: 'object', properties: { a: { required: false } } } }, ['{}', '{"a":1}'], ['[]']);
});

test('an array that cannot have minItems items is rejected', () => {
  const never = { allOf: [{ type: 'integer', minimum: 5, maximum: 11, multipleOf: 4 }, { multipleOf: 6 }] };
  const schema = { type: 'array', prefixItems: [true], items: never };
  judges({ schema }, ['[]', '[1]'], ['[1,8]']);
  refuses({ schema: { ...schema, minItems: 2 } }, /no value can match/, '');
});

test('counts of 2 ** 32 and more do not wrap', () => {
  const bytes = (/** @type {any} */ format) => toBytes(format);
  const free = bytes({ schema: { type: 'string' } });
  assert.notDeepEqual(bytes({ schema: { type: 'string', maxLength: 2 ** 32 - 2 } }), free);
  const endless = bytes({ regex: '(?:ab){99,}' });
  for (const max of [2 ** 32 - 1, 2 ** 32, 2 ** 40]) {
    assert.deepEqual(bytes({ regex: `(?:ab){99,${max}}` }), endless, String(max));
  }
  for (const format of [
    { schema: { type: 'array', minItems: 2 ** 32 + 40 } },
    { schema: { type: 'string', minLength: 2 ** 32 - 1 } },
    { schema: { type: 'object', minProperties: 2 ** 32 } },
    { regex: '(?:ab){4294967326}' },
  ]) {
    assert.throws(() => bytes(format), { code: 'format-too-complex' }, JSON.stringify(format));
  }
});

test('numbers in answers are within their bounds when parsed', () => {
  const random = randoms(5);
  const ajv = new Ajv2020({ strict: false });
  const tie = 2 ** 53;
  const some = [0, 1, 1.0000000000000002, 0.1, 0.30000000000000004, tie, tie + 2, 1e21, 1e307, 1e308, Number.MAX_VALUE];
  const bound = () => {
    const value = random(2) ? some[random(some.length)] : (random(2 ** 31) / 7) * 10 ** (random(600) - 310);
    return (random(2) ? -1 : 1) * Math.min(random(4) ? value : value * (1 + 2 ** -52), Number.MAX_VALUE);
  };
  /** @param {number} value */
  const near = (value) => {
    const exact = BigInt(Math.trunc(value));
    const text = exact === 0n && value < 0 ? '-0' : String(exact);
    const part = /\.(\d+)$/.exec(String(value))?.[1] ?? '';
    return [
      ...[-2n, -1n, 1n, 2n].map((step) => String(exact + step)),
      ...['', '0', '00', '1', '01', '001', '9', '99', '00000000000001'].map((end) => `${text}.${part}${end}`),
      text.replace(/\d/g, '9'),
      `${text.replace(/\d/g, '9')}9`,
      part ? `${text}.${part.replace(/.$/, (digit) => String(Math.max(0, Number(digit) - 1)))}99` : text,
    ];
  };
  const counts = { taken: 0, refused: 0, schemas: 0 };
  for (let i = 0; i < 400; i++) {
    const bounds = [bound(), bound()].sort((a, b) => a - b);
    const open = [random(2), random(2)];
    const schema = {
      type: random(3) ? 'number' : 'integer',
      ...(random(3) && { [open[0] ? 'exclusiveMinimum' : 'minimum']: bounds[0] }),
      ...(random(3) && { [open[1] ? 'exclusiveMaximum' : 'maximum']: bounds[1] }),
    };
    let grammar;
    try {
      grammar = compile({ schema });
    } catch (error) {
      assert.match(String(error), /can match, because|too many/);
      continue;
    }
    counts.schemas++;
    const valid = ajv.compile(schema);
    for (const text of bounds.flatMap(near)) {
      if (!accepts(grammar, text)) counts.refused++;
      else {
        counts.taken++;
        assert.ok(Number.isFinite(JSON.parse(text)) && valid(JSON.parse(text)), `${JSON.stringify(schema)}: ${text}`);
      }
    }
  }
  assert.ok(counts.schemas > 200 && counts.taken > 1000 && counts.refused > 1000, JSON.stringify(counts));
  const none = { type: 'number', exclusiveMinimum: 1, exclusiveMaximum: 1.0000000000000002 };
  refuses({ schema: none }, /no value can match/, '');
});

test('a schema that needs too much work is refused at a place of the schema', () => {
  const schema = { properties: { a: { type: 'string' } } };
  assert.ok(compile({ schema }, { steps: 1000 }));
  for (let steps = 0; steps < 1000; steps += 3) {
    try {
      compile({ schema }, { steps });
    } catch (error) {
      assert.equal(typeof (/** @type {any} */ (error).place), 'string');
    }
  }
});

test('a pattern that needs too much work is reported as too complex, not as malformed', () => {
  assert.throws(() => compile({ schema: { pattern: 'a?b'.repeat(200_000) } }), { code: 'format-too-complex' });
});
