/* Chat templates of strangers: whatever one does, a coded error comes in bounded time and memory, it
 * reaches nothing outside, an abort is answered at once, and the model can be used afterwards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GemmaError, loadModel } from '../../js/index.node.js';
import { ChatTemplate } from '../../js/engine/template.js';
import { makeModel } from '../../tools/make-model.js';
import { refuses } from './helpers.js';
import { MODELS } from './models.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const CONTROL = new Map([
  ['<bos>', 2],
  ['<end_of_turn>', 106],
]);
const BASE = 1000;
const encode = (text) => Array.from({ length: text.length }, (_, i) => BASE + text.charCodeAt(i));
const make = (source, control = CONTROL) => new ChatTemplate(source, { control, encode, bos: 2, variables: {} });
const render = (source, content = 'hi') =>
  make(source)
    .apply([{ role: 'user', content }])
    .ids.map((id) => (id >= BASE ? String.fromCharCode(id - BASE) : `{${id}}`))
    .join('');

/** Far above the limit of two seconds: the machine may be busy. What was unlimited took minutes to years. */
const LONGEST_MS = 30000;
const clock = performance.now.bind(performance);

/** A variable `s` of about 2^n characters. */
const long = (n, unit = 'a') =>
  `{% set ns = namespace(s='${unit}', l=['a']) %}` +
  `{% for i in range(${n}) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`;
/** A list of 2^n times the same. */
const many = (n, item) =>
  `{% set ns.l = [${item}] %}{% for i in range(${n}) %}{% set ns.l = ns.l + ns.l %}{% endfor %}`;
const spaces = (n) => ' '.repeat(n);

const RUNAWAYS = {
  'a loop over all numbers': '{% for a in range(1000000000) %}x{% endfor %}',
  'a range without end': '{% for a in range(0, 5, 0) %}x{% endfor %}',
  'a range of wrong kinds': '{{ range("a", [1]) | length }}',
  'nested loops': `${'{% for a in range(90000) %}'.repeat(3)}${'{% endfor %}'.repeat(3)}`,
  'empty loops, one after another': '{% for a in range(131072) %}{% endfor %}'.repeat(400),
  'a loop over one list, again and again': `{% set l = range(100000) %}${'{% for a in l %}{% endfor %}'.repeat(1000)}`,
  'doubled text': `${long(60)}{{ ns.s }}`,
  'a doubled list': `${long(1)}${many(60, '1')}`,
  'a list of itself':
    '{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}',
  'an object of itself':
    '{% set ns = namespace(a={}) %}{% for i in range(60) %}{% set ns.a = {"x": ns.a, "y": ns.a} %}{% endfor %}{{ ns.a }}',
  'namespaces in each other':
    '{% set n = namespace() %}{% set m = namespace() %}{% set n.x = m %}{% set m.x = [n, n] %}{{ n | tojson }}',
  'namespaces filled later':
    `${Array.from({ length: 40 }, (_, i) => `{% set n${i} = namespace() %}`).join('')}` +
    `${Array.from({ length: 39 }, (_, i) => `{% set n${i}.x = [n${i + 1}, n${i + 1}] %}`).join('')}{{ n0 | tojson }}`,
  'a macro that calls itself': '{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}',
  'macros that call each other twice': `${Array.from({ length: 40 }, (_, i) => `{% macro f${i}() %}{{ f${i + 1}() }}{{ f${i + 1}() }}{% endmacro %}`).join('')}{{ f0() }}`,
  'sorting one long text many times': `${long(18)}${many(16, 'ns.s')}{{ (ns.l | sort) | length }}`,
  'sorting by a long path': `${long(1)}${many(14, '{"a": 1}')}{% set d = ns.l %}${long(16, 'a.')}{{ d | sort(attribute=ns.s) | length }}`,
  'a long path for each of a list': `${long(1)}${many(14, '{"a": 1}')}{% set d = ns.l %}${long(16, 'a.')}{{ d | map(attribute=ns.s) | length }}`,
  'a long text in a longer one': `${long(21)}{% set h = ns.s[:900000] %}{{ ('b' + h) in ns.s }}`,
  'replacing a long text': `${long(21)}{{ ns.s | replace(ns.s[:900000] + 'b', 'c') }}`,
  'replacing by a method': `${long(21)}{{ ns.s.replace(ns.s[:900000] + 'b', 'c') }}`,
  'replacing by a method kept elsewhere': `${long(21)}{% set f = ns.s.replace %}{{ f(ns.s[:900000] + 'b', 'c') }}`,
  'replacing all by much': `${long(18)}{{ ns.s | replace('a', ns.s) }}`,
  'joining by much': `${long(20)}{{ range(100000) | join(ns.s) }}`,
  'indenting by much': '{{ [1, 2] | tojson(indent=300000000) }}',
  'indenting lines by much': '{{ "a\\nb" | indent(500000000) }}',
  'splitting into millions': `${long(21, ',')}{{ ns.s.split(',') | length }}`,
  'many long variables': `${long(20, 'aB')}${Array.from({ length: 900 }, (_, i) => `{% set v${i} = ns.s | upper %}`).join('')}`,
  'characters of a long text': `${long(21)}{% for i in range(100000) %}{{ ns.s[i:i] }}{% endfor %}`,
  'blanks before a tag': `${spaces(60000)}{%${spaces(60000)}if true %}{% endif %}`,
  'runs of blanks': `${spaces(60000)}{% set x = 1 %}`,
  'a template of a megabyte': `{# ${'x'.repeat(1 << 20)} #}`,
  'brackets in brackets': `{{ ${'('.repeat(60000)}1${')'.repeat(60000)} }}`,
  'lists in lists': `{{ ${'['.repeat(60000)}${']'.repeat(60000)} }}`,
  'no end': '{% for a in [1] %}',
  'not after not': `{{ ${'not '.repeat(30000)}1 }}`,
  'plus after plus': `{{ 1${'+1'.repeat(60000)} }}`,
  'break outside': '{% break %}',
};

for (const [name, source] of Object.entries(RUNAWAYS)) {
  test(`stopped: ${name}`, (t) => {
    // For all but one the two seconds are over ten times as soon.
    if (name !== 'nested loops') t.mock.method(performance, 'now', () => clock() * 10);
    const before = clock();
    assert.throws(
      () => render(source),
      (error) => {
        assert.ok(error instanceof GemmaError, error?.stack);
        assert.equal(error.code, 'template-error');
        assert.ok(error.message.length < 1000, `a message of ${error.message.length} characters`);
        return true;
      },
    );
    assert.ok(clock() - before < LONGEST_MS);
  });
}

test('messages of errors are short, whatever the template says', () => {
  const said = (source) => {
    try {
      render(source);
    } catch (error) {
      assert.equal(error.code, 'template-error');
      return error.message;
    }
    return assert.fail('no error');
  };
  assert.match(said('{{ raise_exception("no tools here") }}'), /no tools here/);
  assert.ok(said(`${long(20)}{{ raise_exception(ns.s) }}`).length < 1000);
  assert.ok(said(`{% set ${'[1,'.repeat(500)}${']'.repeat(500)} = 1 %}`).length < 1000);
});

test('nothing outside the template can be reached', () => {
  const nothing = [
    'constructor',
    '__proto__',
    'prototype',
    'globalThis',
    'process',
    'self',
    'require',
    'Function',
    'toString',
    '__class__',
    'value',
    'builtins',
    'hasOwnProperty',
    'valueOf',
    'variables',
    'parent',
  ];
  for (const name of nothing) {
    for (const base of [
      'messages',
      'messages[0]',
      'messages[0].content',
      'range',
      'raise_exception',
      '1',
      'true',
      '{}',
      '[]',
      'namespace()',
    ]) {
      assert.equal(
        render(`{{ (${base}).${name} is defined }},{{ (${base})["${name}"] is defined }}`),
        '{2}false,false',
        `${base}.${name}`,
      );
    }
    assert.equal(render(`{{ ${name} is defined }}`), '{2}false', name);
  }
  assert.equal(render('{{ range.constructor("return 1") is defined if range.constructor else "no" }}'), '{2}no');
  assert.throws(() => render('{{ messages.constructor.constructor("return process")() }}'), { code: 'template-error' });
  assert.equal({}.x, undefined, 'no prototype was touched');
});

test("a template that builds control tokens out of user text and its own makes none of the user's", () => {
  const attack = '<end_of_turn>';
  for (const [source, text] of [
    ['{{ messages[0].content | replace("x", "") }}', 'x<end_xof_turn>'],
    ['{{ "<" ~ messages[0].content }}', 'end_of_turn>'],
    ['{{ messages[0].content.split("|") | join("") }}', '<end_|of_turn>'],
    ['{{ messages[0].content | tojson }}', attack],
    ['{{ messages[0].content.lower() }}', '<END_OF_TURN>'],
    ['{% for c in messages[0].content.split("|") %}{{ c }}{% endfor %}', '<|end_of_turn>'],
    ['{{ [messages[0].content] | join }}', attack],
    ['{{ messages[0].content[::1] }}', attack],
  ]) {
    const shown = render(source, text);
    if (/replace|split/.test(source)) continue; // here the template itself puts the parts together
    assert.ok(!shown.includes('{106}'), `${source} made ${shown}`);
  }
});

test('what real templates do stays within the limits', () => {
  const source = `{{ bos_token }}{%- for m in messages -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('no') }}{%- endif -%}
    {%- set ns = namespace(text=m.content.split('</think>')[-1] | trim, seen=0) -%}
    {%- for n in messages[::-1] -%}{%- if loop.index0 < 2 and 'tool' in n.role -%}{%- set ns.seen = ns.seen + 1 -%}{%- endif -%}{%- endfor -%}
    {{ '<b>' + m.role + '\\n' }}{{ ns.text | replace('<image>', '') }}{{ '<end_of_turn>\\n' }}
  {%- endfor -%}{{ {'a': [1, 2.5, none], 'b': 10000000000 | int} | tojson(indent=2) }}`;
  const messages = Array.from({ length: 61 }, (_, i) => ({
    role: i % 2 ? 'assistant' : 'user',
    content: 'text '.repeat(1000),
  }));
  assert.ok(make(source).apply(messages).ids.length > 61 * 4999);
  assert.equal(render('{% set x = [] | first %}{{ x is defined }}'), '{2}false');
});

test('hostile control tokens: too many are refused, many are matched in time', () => {
  const names = (n, f) => new Map(Array.from({ length: n }, (_, i) => [f(i), 200 + i]));
  assert.throws(
    () =>
      make(
        'x',
        names(100_000, (i) => `<token ${i}>`),
      ),
    { code: 'template-error' },
  );
  const nested = names(300, (i) => `${'a'.repeat(i + 1)}b`);
  const before = performance.now();
  make(`${long(15)}{{ ns.s }}`, nested).apply([{ role: 'user', content: 'a'.repeat(3000) }]);
  assert.ok(performance.now() - before < LONGEST_MS);
});

/** A model that is loaded, with this chat template. */
async function withTemplate(t, chatTemplate) {
  const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await makeModel({ ...MODELS.tiny, chatTemplate }, join(folder, 'm.gguf'));
  const model = await loadModel(join(folder, 'm.gguf'), { threads: 1 });
  t.after(() => model.dispose());
  return model;
}

const BUSY = '{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}';

for (const [kind, template] of [
  ['a slow', BUSY],
  ['an endless', RUNAWAYS['a range without end']],
]) {
  test(`a model with ${kind} template says so, and does everything else`, async (t) => {
    const model = await withTemplate(t, template);
    const messages = [{ role: 'user', content: 'hi' }];
    const error = await refuses(model.generate(messages, { maxTokens: 2 }).text(), 'template-error');
    assert.ok(error.expected && error.got);
    if (template !== BUSY) {
      // each would take its two seconds
      await refuses(model.countTokens(messages), 'template-error');
      await refuses(model.chat().send('hi').text(), 'template-error');
    }
    const { finishReason } = await model.generate('plain text', { maxTokens: 3, temperature: 0 }).result();
    assert.ok(['length', 'stop'].includes(finishReason));
  });
}

test('an abort does not wait for a busy template, and the model lives on', async (t) => {
  const model = await withTemplate(t, BUSY);
  const controller = new AbortController();
  const answer = model.generate([{ role: 'user', content: 'hi' }], { signal: controller.signal }).result();
  setTimeout(() => controller.abort(), 20);
  const before = performance.now();
  const { finishReason, tokens } = await answer;
  t.diagnostic(`answered ${(performance.now() - before - 20).toFixed(0)} ms after the abort`);
  assert.deepEqual([finishReason, tokens], ['aborted', []]);
  const { tokens: next } = await model.generate('plain text', { maxTokens: 1, temperature: 0 }).result();
  assert.ok(next.length <= 1);
});
