/* matches: tests model.debug.matches() and the `match` command with the storyteller model's vocabulary, and statements
 * of docs/schemas.md. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compile } from '../../js/grammar/index.js';
import { FORMATS, REFUSED } from '../../js/grammar/text-formats.js';
import { parseExactly, stringifyExactly } from '../../js/cli/exact-json.js';
import '../../js/index.node.js';
import { openHeader } from '../../js/model.js';
import { STORYTELLER } from './models.js';

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const model = await openHeader(STORYTELLER, {});
const folder = mkdtempSync(join(tmpdir(), 'matches-'));
after(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true });
});

const schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 5 }, age: { type: 'integer', minimum: 0 } },
  required: ['name'],
  additionalProperties: false,
};

test('a text is accepted, or rejected at the offset of its first error', async () => {
  const fine = await model.debug.matches({ schema }, ' { "age": 7, "name": "Lily" } ');
  assert.equal(fine.accepted, true);
  assert.equal(fine.compiled, true);
  assert.ok(fine.masks.count > 5 && fine.masks.first > 0);
  const early = await model.debug.matches({ schema }, '{"name":"Lily"');
  assert.deepEqual([early.accepted, early.refusedAt], [false, 14]);
  const wrong = await model.debug.matches({ schema }, '{"name":"Lily","pet":1}');
  assert.equal(wrong.accepted, false);
  assert.ok(Number(wrong.refusedAt) <= 17, `refused at ${wrong.refusedAt}`);
  assert.equal((await model.debug.matches({ choices: ['é yes', 'no'] }, 'é yes')).accepted, true);
  assert.equal((await model.debug.matches({ regex: '[a-z]+😀' }, 'story😀')).accepted, true);
});

test('a regular expression keeps its flags', async () => {
  const accepts = async (/** @type {RegExp} */ regex, /** @type {string} */ text) =>
    (await model.debug.matches({ regex }, text)).accepted;
  assert.deepEqual([await accepts(/yes/i, 'YES'), await accepts(/yes/, 'YES')], [true, false]);
  assert.deepEqual([await accepts(/a.b/s, 'a\nb'), await accepts(/a.b/, 'a\nb')], [true, false]);
  assert.equal(await accepts(/yes/dgy, 'yes'), true); // the flags d, g and y do not change which whole texts match
});

test('a format that can constrain answers can also be matched', async () => {
  // With a maximum length, the automaton of all email addresses of the RFC has too many states. The automaton of the
  // subset that constrains answers is small enough.
  const format = { schema: { format: 'email', maxLength: 50, propertyNames: { format: 'email', maxLength: 50 } } };
  const fine = await model.debug.matches(format, ' "lily@example.org"');
  assert.deepEqual([fine.compiled, fine.accepted], [true, true]);
  assert.equal((await model.debug.matches(format, '"lily"')).accepted, false);
  assert.equal((await model.debug.matches(format, `"${'a'.repeat(40)}@example.org"`)).accepted, false);
  // Even with the subset of email addresses that constrains answers, four `email` formats take more than half of the
  // work allowed for a compilation.
  const several = { schema: { prefixItems: [40, 41, 42, 43].map((maxLength) => ({ format: 'email', maxLength })) } };
  assert.equal((await model.debug.matches(several, '["lily@example.org"]')).accepted, true);
  assert.equal(
    (await model.debug.matches({ choices: Array.from({ length: 200_000 }, (_, i) => `c ${i * 7919}`) }, 'c 0'))
      .compiled,
    false,
  );
});

/* Members of an object can come in any order and can be missing, so an object can end in more than 512 different
 * states. */
test('a text is matched even if an object can end in very many states', async () => {
  const whole = { type: 'integer', minimum: 0 };
  const some = { type: 'string', minLength: 1 };
  const one = (/** @type {string} */ kind) => ({ enum: [kind] });
  const named = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } };
  const sent = {
    allOf: [
      named,
      {
        required: ['by', 'to'],
        properties: { by: some, to: some },
        oneOf: [
          {
            required: ['kind', 'grams', 'code'],
            properties: { kind: one('box'), grams: whole, code: { type: 'string', pattern: '^[0-7]{3,4}$' } },
          },
          {
            required: ['kind', 'grams', 'code', 'stamps'],
            properties: {
              kind: one('bag'),
              grams: whole,
              code: { type: 'string', pattern: '^[0-4]?[0-7]{3}$' },
              stamps: whole,
            },
          },
          { required: ['kind'], properties: { kind: one('tube') } },
        ],
      },
    ],
  };
  const lost = { allOf: [named, { required: ['kind'], properties: { kind: one('lost') } }] };
  const kept = {
    allOf: [named, { required: ['kind'], not: sent, properties: { kind: { enum: ['box', 'bag', 'tube', 'lost'] } } }],
  };
  const list = (/** @type {object[]} */ ...items) => ({ type: 'array', minItems: 1, items: { anyOf: items } });
  const parcels = { oneOf: [list(sent, lost), list(kept, lost)] };
  const format = { schema: { type: 'object', properties: { parcels } } };
  const text = (/** @type {string} */ code) =>
    JSON.stringify({
      parcels: [
        { name: 'books', kind: 'box', by: 'Ana', to: 'Bo', grams: 900, code },
        { name: 'maps', kind: 'tube', by: 'Cy', to: 'Di' },
      ],
    });
  assert.equal((await model.debug.matches(format, text('644'))).accepted, true);
  assert.equal((await model.debug.matches(format, text('9'))).accepted, false);
});

test('reports a constraint that it does not enforce', async () => {
  const { compiled, reason, accepted } = await model.debug.matches(
    { schema: { properties: { a: { format: 'regex' } } } },
    '{}',
  );
  assert.deepEqual([compiled, accepted], [false, false]);
  assert.match(String(reason), /format regex.*#\/properties\/a\/format/);
  await assert.rejects(model.debug.matches(/** @type {any} */ ({ scheme: {} }), '{}'), { code: 'bad-option' });
});

/** @param {string[]} args */
const run = (...args) =>
  execFileSync(process.execPath, [here('../../js/cli.js'), 'match', STORYTELLER, ...args], { encoding: 'utf8' });
/** @param {string} name @param {string} text */
function file(name, text) {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

test('the match command judges one text, and a file of cases', () => {
  const path = file('schema.json', JSON.stringify(schema));
  const one = JSON.parse(run('--schema', path, '--text', file('text.json', '{"name":"Tom"}\n'), '--json'));
  assert.deepEqual([one.compiled, one.accepted], [true, true]);
  assert.doesNotMatch(run('--regex', 'ab', '--text', file('ab.txt', 'ab')), /undefined/);
  const accepts = (/** @type {string[]} */ ...shape) => JSON.parse(run(...shape, '--json')).accepted;
  const [none, ab] = [file('none.txt', ''), file('ab.txt', 'ab')];
  assert.deepEqual(
    [none, ab].map((text) => accepts('--regex', '', '--text', text)),
    [true, false],
  );
  assert.deepEqual(
    ['ab,c', 'a,b'].map((list) => accepts('--choices', list, '--text', ab)),
    [true, false],
  );
  const cases = [
    {
      name: 'right',
      schema,
      tests: [
        { valid: true, data: { name: 'Tom', age: 3 } },
        { valid: false, data: [] },
      ],
    },
    { name: 'mislabelled', schema, tests: [{ valid: true, data: 1 }] },
    { name: 'refused', schema: { uniqueItems: true }, tests: [{ valid: true, data: [] }] },
  ];
  const big =
    '{"name":"large","schema":{"maximum":9223372036854775807},"tests":[' +
    '{"valid":true,"data":9223372036854775807},{"valid":false,"data":9223372036854775808}]}';
  const text = [...cases.map((each) => JSON.stringify(each)), big].join('\n');
  const lines = run('--cases', file('cases.jsonl', text))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ name, compiled, accepted, refused, wrong }) => [name, compiled, accepted, refused, wrong]),
    [
      ['right', true, 1, 1, 0],
      ['mislabelled', true, 0, 1, 1],
      ['refused', false, 0, 0, 0],
      ['large', true, 1, 1, 0],
      [undefined, 3, 2, 3, 1],
    ],
  );
  assert.match(lines[2].reason, /uniqueItems/);
});

test('JSON keeps the digits of large integers', () => {
  const text = '{"a":[12345678901234567890,-1.5e3,"12345678901234567890\\u0000"],"b":9007199254740991}';
  assert.equal(stringifyExactly(parseExactly(text, 'x')), text.replace('-1.5e3', '-1500'));
  assert.throws(() => parseExactly('{', 'x'), { code: 'bad-format' });
});

test('docs/schemas.md lists the supported keywords and formats', () => {
  const docs = readFileSync(here('../../docs/schemas.md'), 'utf8');
  const list = (/** @type {RegExp} */ part) =>
    [...(part.exec(docs)?.[1] ?? '').matchAll(/`([^`\s]+)`/g)].map(([, name]) => name);
  assert.deepEqual(list(/\*\*Formats\*\*:([^.]*)\./s).sort(), Object.keys(FORMATS).sort());
  assert.deepEqual(list(/\nRefused: (`regex`[^.]*)\./s).sort(), Object.keys(REFUSED).sort());
  const keywords = [...docs.split('**Formats**')[0].matchAll(/^\| (`[^|]*) \|/gm)]
    .flatMap(([, names]) => [...names.matchAll(/`([$\w]+)`/g)])
    .map(([, name]) => name);
  /** Values of keywords. Other keywords get the value 2 if their name tells that it is a number, otherwise {}.
   * @type {Record<string, unknown>} */
  const values = {
    ...{ const: 1, enum: [1], required: ['a'], type: 'object', $ref: '#/$defs/a', $dynamicRef: '#a' },
    ...{ allOf: [{}], anyOf: [{}], oneOf: [{}], prefixItems: [{}], not: { type: 'null' } },
    ...{ $id: 'a', $anchor: 'a', $dynamicAnchor: 'a', pattern: 'a' },
  };
  for (const name of keywords.filter((each) => !/^(uniqueItems|integer|format|definitions|\$defs)$/.test(each))) {
    const given = values[name] ?? (/^(min|max|exclusive|multiple)/.test(name) ? 2 : {});
    compile({ schema: { $defs: { a: { $dynamicAnchor: 'a' } }, [name]: given } }, { matching: true });
  }
  assert.throws(() => compile({ schema: { uniqueItems: true } }), { name: 'Unsupported' });
});
