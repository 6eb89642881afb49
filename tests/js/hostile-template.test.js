/* Tests untrusted chat templates: a hostile one fails with a coded error in bounded time and memory, accesses nothing
 * outside the interpreter, can be aborted immediately, and leaves the model usable. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Template } from '@huggingface/jinja';
import { ModelError } from '../../js/index.node.js';
import { ChatTemplate } from '../../js/engine/template.js';
import { randoms } from '../support/random.js';
import { open, refuses } from './helpers.js';
import { MODELS } from './models.js';

const CONTROL = new Map([
  ['<bos>', 2],
  ['<end_of_turn>', 106],
]);
const BASE = 1000;
const encode = (/** @type {string} */ text) => Array.from({ length: text.length }, (_, i) => BASE + text.charCodeAt(i));
const make = (/** @type {string} */ source, control = CONTROL) =>
  new ChatTemplate(source, { control, encode, bos: 2, variables: {} });
const users = (/** @type {string[]} */ contents) => contents.map((content) => ({ role: 'user', content }));
const render = (/** @type {string} */ source) =>
  make(source)
    .apply(users(['hi']))
    .ids.map((id) => (id >= BASE ? String.fromCharCode(id - BASE) : `{${id}}`))
    .join('');

/** Time limit of a test in milliseconds, far above the engine's two seconds, because the machine may be busy. Without
 * the engine's limit, these templates would run for minutes to years. */
const LONGEST_MS = 30000;
const clock = performance.now.bind(performance);
/** Slows the engine's clock, so that its limit of two seconds does not stop these templates on a busy machine.
 * @param {import('node:test').TestContext} t */
const slow = (t) => t.mock.method(performance, 'now', () => clock() / 10);

/** Returns a template that sets `ns.s` to 2^n repetitions of `unit`. @param {number} n */
const long = (n, unit = 'a') =>
  `{% set ns = namespace(s='${unit}', l=['a']) %}` +
  `{% for i in range(${n}) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`;
/** Returns a template that sets `ns.l` to a list of 2^n equal items. @param {number} n @param {string} item */
const many = (n, item) =>
  `{% set ns.l = [${item}] %}{% for i in range(${n}) %}{% set ns.l = ns.l + ns.l %}{% endfor %}`;
const spaces = (/** @type {number} */ n) => ' '.repeat(n);

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
  test(`a runaway template is stopped: ${name}`, (t) => {
    // Lets the clock run ten times as fast, so that the engine's limit of two seconds passes sooner. The test
    // of a model with a slow template, below, uses the real clock.
    t.mock.method(performance, 'now', () => clock() * 10);
    const before = clock();
    assert.throws(
      () => render(source),
      (error) => {
        assert.ok(error instanceof ModelError, Object(error).stack);
        assert.equal(error.code, 'template-error');
        assert.ok(error.message.length < 1000, `a message of ${error.message.length} characters`);
        return true;
      },
    );
    assert.ok(clock() - before < LONGEST_MS);
  });
}

test('error messages are short, whatever the template says', () => {
  const said = (/** @type {string} */ source) => {
    try {
      render(source);
    } catch (error) {
      const { code, message } = Object(error);
      assert.equal(code, 'template-error');
      return message;
    }
    return assert.fail('no error');
  };
  assert.match(said('{{ raise_exception("no tools here") }}'), /no tools here/);
  assert.ok(said(`${long(20)}{{ raise_exception(ns.s) }}`).length < 1000);
  assert.ok(said(`{% set ${'[1,'.repeat(500)}${']'.repeat(500)} = 1 %}`).length < 1000);
});

test('a template cannot access anything outside the interpreter', () => {
  const nothing = `constructor __proto__ prototype globalThis process self require Function toString __class__ value
    builtins hasOwnProperty valueOf variables parent`.split(/\s+/);
  const bases = 'messages messages[0] messages[0].content range raise_exception 1 true {} [] namespace()'.split(' ');
  for (const name of nothing) {
    for (const base of bases) {
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
  assert.equal(Object({}).x, undefined, 'Object.prototype is unchanged');
});

const NAMES = ['<bos>', '<eos>', '<end_of_turn>', '[INST]'];
const FOUR = new Map(NAMES.map((name, i) => [name, i]));
/** The template that written() used last, kept because parsing takes longer than rendering. */
const last = { source: '', template: /** @type {ChatTemplate | null} */ (null) };
/** Returns the text that a chat template writes, and the control tokens in this text. @param {string} source
 * @param {...string} contents of the user's messages */
function written(source, ...contents) {
  if (last.source !== source || !last.template)
    last.template = new ChatTemplate(source, { control: FOUR, encode, bos: null, variables: { bos_token: '<bos>' } });
  last.source = source;
  const { ids } = last.template.apply(users(contents));
  const text = ids.map((id) => NAMES[id] ?? String.fromCharCode(id - BASE)).join('');
  return { text, control: ids.filter((id) => id < BASE).map((id) => NAMES[id]) };
}

const TAKEN_APART = [
  'c',
  'c | trim',
  'c.strip("x")',
  'c.lstrip("<")',
  'c | replace("x", "")',
  'c.replace("x", "")',
  'c | replace("x", "<")',
  'c.replace("|", c)',
  'c | replace("", "")',
  'c | replace("x", "", count=1)',
  'c.replace("x", "", 1)',
  'c.split("|") | join',
  'c.split("x") | join("")',
  'c.split("x", 1) | join("")',
  'c.split() | join("")',
  'c.split("|") | join("<")',
  'c.split("|")[-1]',
  'c.split("|")[0] ~ c.split("|")[-1]',
  'c[::-1]',
  'c[1:]',
  'c[:-1]',
  'c[1:-1]',
  'c[::2]',
  'c[0] ~ c[1:]',
  'c[:3] ~ c[3:]',
  'c | lower',
  'c.upper()',
  'c | upper | lower',
  'c.title()',
  'c.capitalize()',
  'c | indent',
  'c | indent(2, true)',
  'c | string',
  'c | safe',
  'c | tojson',
  '[c] | tojson',
  'c | join("")',
  'c | join("x")',
  '[c] | join',
  '[c, c] | join("e")',
  '["<", c, ">"] | join',
  '["<" + c, c + ">"] | join("of")',
  '"<" + c + ">"',
  '"<" ~ c ~ ">"',
  '"[" ~ c',
  'c ~ "]"',
  '"<end_" ~ c',
  'c ~ "of_turn>"',
  '"<b" ~ c ~ "s>"',
  'c + c',
  'c.split("|")[::-1] | join',
  '(c.split("x") | first) ~ (c.split("x") | last)',
  '{"a": c}.a',
  '{"a": c}["a"]',
  '({c: 1}.keys() | list) | join',
  '({c: 1} | items | first | first)',
  '({c: 1} | dictsort | first)[0]',
  '{"a": c}.get("a")',
  'c | default("<")',
  'f.t',
  '(c ~ "x").split("x") | join',
  '("x" ~ c) | replace("x", "")',
  '("x" ~ c)[1:]',
  '(("x" ~ c) | upper) | lower',
  'c.split("|") | sort | join',
  'c.split("|") | unique | join',
  'c.split("|") | reverse | join',
  'm | map(attribute="content") | join',
  'm | string',
  'm | tojson',
  '["", "eos>"] | join(x="|", separator=c)',
  '["", "eos>"] | join(*[c])',
  '["", "eos>"] | join(**{"separator": c})',
  '"|eos>".replace("|", c)',
  '"|eos>" | replace("|", c)',
  '"a|eos>".replace(*["a|", c])',
  '"<|s>".replace("|", c, 1)',
  '(c ~ "|eos>").split("|") | join',
  '"|" | replace("|", c) ~ "eos>"',
  'show(c)',
  'show(c.split("|"))',
  'twice(c)',
  'letters',
  'block',
  'filtered',
  'up(c)',
  '(c | int) ~ ">"',
  '"<end_of_turn" ~ ">"[(c | length):] ~ c',
];
const AROUND =
  '{% macro show(x) %}{{ x if x is string else x | join }}{% endmacro %}{% macro twice(x) %}<{{ x }}{{ show(x) }}>{% endmacro %}' +
  '{% set m = messages %}{% set c = m[0].content %}{% set f = namespace(t=c) %}{% set up = c.lower %}{% macro up(x) %}{{ x.lower() }}{% endmacro %}' +
  '{% set letters %}{% for a in c.split("|") %}{% for b in range(a | length) %}{{ a[b] }}{% endfor %}{% endfor %}{% endset %}' +
  '{% set block %}<{{ c }}{% if c %}{{ c[1:] }}{% endif %}{% endset %}{% set filtered %}{% filter replace("x", "") %}{{ c }}{% endfilter %}{% endset %}' +
  '<eos>[E]<end_of_turn>{{ bos_token }}';

/** Yields texts for attacks: names of control tokens, whole, in parts, reversed, and with other characters inserted.
 * @param {() => number} random */
function* attacks(random) {
  for (const name of NAMES) {
    yield name;
    yield [...name].reverse().join('');
    yield name.toUpperCase();
    for (const more of ['x', '|', ' ', '']) {
      const at = 1 + Math.floor(random() * (name.length - 1));
      const end = name.slice(at);
      yield name.slice(0, at) + more + end;
      yield end + more + name.slice(0, at);
      yield `x${name}${more}<${name.slice(0, at)}`;
      yield [...name].join(more || 'x');
    }
  }
  yield* ['<', '>', 'end_of_turn', 'of_turn>', 'os>', 'o', '|', 'x', ' <bos> ', '\ufdd0<bos>\ufdd1', '\ufdd0', '7'];
}

test('no text of a message becomes a control token, whatever a template does with it', () => {
  const random = randoms(7);
  for (const expression of TAKEN_APART) {
    const source = AROUND.replace('[E]', () => `{{ ${expression} }}`);
    const library = new Template(source);
    for (const content of attacks(random)) {
      const { text, control } = written(source, content);
      assert.deepEqual(control, ['<eos>', '<end_of_turn>', '<bos>'], `${expression} of ${content}`);
      if (/strip\("/.test(expression)) continue; // The reference library's strip() ignores its argument.
      const expected = library.render({ messages: users([content]), bos_token: '<bos>' });
      assert.equal(text, expected, `${expression} of ${content}`);
    }
  }
});

/** Returns a random template expression of the messages' texts `c` and `d` and of the template's own texts.
 * @returns {string} @param {() => number} random @param {number} depth */
function expression(random, depth) {
  /** @template T @param {T[]} list */
  const pick = (list) => list[Math.floor(random() * list.length)];
  const own = () =>
    `'${pick(['<eos>', '<', 'eos>', '<end_', 'of_turn>', '[INST]', '>', 'x', '|', 'e', '', '<bos>|<eos>'])}'`;
  if (depth === 0) return pick(['c', 'd', 'c', 'd', own()]);
  const e = () => expression(random, depth - 1);
  const from = Math.floor(random() * 4) - 2;
  return pick([
    () => `(${e()} ~ ${e()})`,
    () => `(${e()} + ${own()})`,
    () => `(${own()} + ${e()})`,
    () => `(${e()} | trim)`,
    () => `${e()}.strip()`,
    () => `${e()}.lstrip()`,
    () => `(${e()} | replace(${own()}, ${e()}))`,
    () => `${e()}.replace(${e()}, ${own()})`,
    () => `(${e()}.split('|') | join(${e()}))`,
    () => `(${e()}.split('|') | first)`,
    () => `${e()}.split(' ')[-1]`,
    () => `([${e()}, ${e()}, ${own()}] | join(${e()}))`,
    () => `([${e()}, ${e()}] | join)`,
    () => `${e()}[::-1]`,
    () => `${e()}[${from}:]`,
    () => `${e()}[:${from}]`,
    () => `${e()}[1:4]`,
    () => `(${e()} | upper)`,
    () => `${e()}.lower()`,
    () => `(${e()} | tojson)`,
    () => `(${e()} if ${own()} else ${e()})`,
    () => `{'a': ${e()}, 'b': ${own()}}['${pick(['a', 'b'])}']`,
    () => `show(${e()})`,
    () => `wrap(${e()}, ${e()})`,
    () => `([${e()}, ${e()}] | reverse | join)`,
    () => `(${e()} | indent)`,
    () => `({${own()}: ${e()}}.items() | first | join)`,
  ])();
}

test('random templates write the same control tokens if the messages have private-use characters instead', (t) => {
  let decided = 0;
  let refused = 0;
  const random = randoms(11);
  // Replaces a text's ASCII characters by private-use characters, which no string operation treats specially, and back.
  // The reference library renders each template with both texts.
  const twins = (/** @type {string} */ text) =>
    text.replace(/[!-~]/g, (/** @type {string} */ c) => String.fromCharCode(0xe000 + c.charCodeAt(0)));
  const back = (/** @type {string} */ text) =>
    text.replace(/[\ue000-\ue0ff]/g, (/** @type {string} */ c) => String.fromCharCode(c.charCodeAt(0) - 0xe000));
  const names = new RegExp(NAMES.map((name) => name.replace('[', '\\[')).join('|'), 'g');
  const texts = [...attacks(random)];
  for (let n = 0; n < 1500; n++) {
    const source =
      "{% macro show(x) %}{{ x }}{% endmacro %}{% macro wrap(x, y='<') %}{% set z %}{{ x }}{{ '<' }}{% endset %}{% for i in [z, y] %}{{ i }}{% endfor %}{% endmacro %}" +
      `{% set c = messages[0].content %}{% set d = messages[1].content %}{{ ${expression(random, 1 + (n % 4))} }}`;
    const contents = [0, 1].map(() => texts[Math.floor(random() * texts.length)]);
    const library = new Template(source);
    let text;
    let twin;
    try {
      [text, twin] = [contents, contents.map(twins)].map((list) => library.render({ messages: users(list) }));
    } catch {
      continue; // The reference library's replace and split reject empty texts.
    }
    try {
      const { control, text: ours } = written(source, ...contents);
      assert.equal(ours, text, source);
      if (back(twin) !== text) continue;
      decided++;
      assert.deepEqual(control, twin.match(names) ?? [], `${source} of ${JSON.stringify(contents)}`);
    } catch (error) {
      if (
        !/cannot be distinguished|because messages contain names|assembles a control token/.test(Object(error).message)
      )
        throw error;
      refused++;
    }
  }
  t.diagnostic(`${decided} decided, ${refused} refused`);
  assert.ok(decided > 1000 && refused < 200, `${decided} decided, ${refused} refused`);
});

test('control tokens that a template writes itself stay control tokens, whatever it does with them', () => {
  const all = ['<eos>', '<end_of_turn>'];
  const c = 'messages[0].content';
  for (const [source, control] of /** @type {[string, string[]][]} */ ([
    [`{{ '<eos>' + ${c} ~ '<end_of_turn>' }}`, all],
    [`{{ ('  <eos>' + ${c} + '<end_of_turn>\n') | trim }}`, all],
    [`{{ ['<eos>', ${c}, ''] | join('<end_of_turn>') }}`, ['<eos>', '<end_of_turn>', '<end_of_turn>']],
    [`{{ 'a|b'.replace('a', '<eos>').replace('b', '<end_of_turn>') }}`, all],
    [`{{ ${c} | replace('x', '<eos>') }}<end_of_turn>`, all],
    [`{{ ('<eos>' + ${c} + '|<end_of_turn>').split('|') | join('/') }}`, all],
    [`{{ ('<EOS>' | lower) ~ ${c} ~ '>nrut_fo_dne<'[::-1] }}`, all],
    [`{% macro say(x, end='<end_of_turn>') %}<eos>{{ x }}{{ end }}{% endmacro %}{{ say(${c}) | trim }}`, all],
    [`{% set s %}<eos>{{ ${c} }}<end_of_turn>{% endset %}{{ s.strip() }}`, all],
    [`{% filter trim %} <eos>{{ ${c} }}<end_of_turn>{% endfilter %}`, all],
    [
      `{% set n = namespace(s='') %}{% for m in messages %}{% set n.s = n.s ~ '<eos>' ~ m.content ~ '<end_of_turn>' %}{% endfor %}{{ n.s }}`,
      all,
    ],
    [
      `{{ {'user': '<eos>'}[messages[0].role] }}{% for k in [1] %}{{ ${c} }}{% else %}{% endfor %}{{ '<end_of_' ~ 'turn' + '>' }}`,
      all,
    ],
    [`{% for t in ['<eos>', ${c}, '<end_of_turn>'][::-1] | reverse %}{{ t }}{% endfor %}`, all],
    [`{{ '[' ~ 'INST]' ~ ${c} }}`, ['[INST]']],
    [`{{ '<eos>[x]<end_of_turn>'.replace('[x]', ${c}) }}`, all],
    [`{{ '<eos>[x]<end_of_turn>' | replace('[x]', ${c}) }}`, all],
    [`{{ '<eos>' if 'x' in ${c} }}{{ ${c} }}<end_of_turn>`, all],
    [`{{ {'a': '<eos>'} | items | first | last }}{{ ${c} }}<end_of_turn>`, all],
    ["{{ '<' ~ messages[0].role.replace('user', 'eos') ~ '>' }}<end_of_turn>", all],
  ])) {
    assert.deepEqual(written(source, 'x<bos>').control, control, source);
  }
});

test('a template that may have mixed its control tokens with text of messages is rejected', () => {
  for (const change of [
    's | upper',
    's[::-1]',
    's[2:]',
    's | tojson',
    '[s] | tojson',
    's.title()',
    's | indent',
    's.replace("x", "y", 1)',
    's.replace("", "")',
    's | join("")',
  ]) {
    assert.throws(
      () => written(`{% set s = '<eos>' ~ messages[0].content %}{{ ${change} }}`, 'x'),
      {
        code: 'template-error',
        message: /changes text with both control tokens and messages.*Send the prompt as a string/,
      },
      change,
    );
    assert.deepEqual(written(`{% set s = '<e' ~ messages[0].content %}{{ ${change} }}`, 'os>').control, [], change);
  }
});

test('a template that copies names of control tokens from messages is rejected', () => {
  const copies = [
    '{{ c | replace("[INST]", "[INST]") }}',
    '{{ c.split("<eos>") | join("<eos>") }}',
    '{{ "<eos>" if "<eos>" in c }}',
    '{% for part in c.split("<eos>") %}{{ part }}{% if not loop.last %}<eos>{% endif %}{% endfor %}',
    '{{ {"<eos>": "<eos>"}[c[1:6]] }}',
  ];
  for (const source of copies) {
    const whole = `{% set c = messages[0].content %}${source}<end_of_turn>`;
    assert.throws(
      () => written(whole, 'a<eos>b[INST]'),
      { code: 'template-error', message: /because messages contain names of control tokens. Change these names/ },
      source,
    );
    assert.deepEqual(written(whole, 'a<eo s>b[ INST]').control, ['<end_of_turn>'], source);
  }
});

/** Templates that compose a control token out of parts that a message's text selects. Each template writes `<eos>` for
 * one of the texts in ATTACKS. */
const SPELLS = [
  "{% set e = {'&lt;': '<', '&gt;': '>', 'eos': 'eos'} %}{% for w in c.split('|') %}{{ e[w] }}{% endfor %}",
  "{% set e = {'&lt;': '<', '&gt;': '>', 'eos': 'eos'} %}{% for w in c.split('|') %}{{ e.get(w) }}{% endfor %}",
  "{% set e = {'&lt;': ['<'], '&gt;': ['>'], 'eos': ['eos']} %}{% for w in c.split('|') %}{{ e[w][0] }}{% endfor %}",
  "{% set e = {'&lt;': '<', '&gt;': '>', 'eos': 'eos'} %}{% set n = namespace(s='') %}{% for w in c.split('|') %}{% set n.s = n.s ~ e[w] %}{% endfor %}{{ n.s }}",
  "{% set e = {'&lt;': '<', '&gt;': '>', 'eos': 'eos'} %}{% set n = namespace(l=[]) %}{% for w in c.split('|') %}{% set n.l = n.l + [e[w]] %}{% endfor %}{{ n.l | join }}",
  "{% for w in c.split('|') %}{% if w == '&lt;' %}<{% elif w == '&gt;' %}>{% else %}eos{% endif %}{% endfor %}",
  "{% for w in c.split('|') %}{{ '<' if w == '&lt;' else ('>' if w == '&gt;' else 'eos') }}{% endfor %}",
  "{% for w in c.split('|') %}{{ (w == '&lt;' and '<') or (w == '&gt;' and '>') or 'eos' }}{% endfor %}",
  "{% set n = namespace(s='') %}{% for w in c.split('|') %}{% if w == '&lt;' %}{% set n.s = n.s ~ '<' %}{% elif w == '&gt;' %}{% set n.s = n.s ~ '>' %}{% else %}{% set n.s = n.s ~ 'eos' %}{% endif %}{% endfor %}{{ n.s }}",
  "{% macro lt() %}<{% endmacro %}{% macro gt() %}>{% endmacro %}{% macro eos() %}eos{% endmacro %}{% set e = {'&lt;': lt, '&gt;': gt, 'eos': eos} %}{% for w in c.split('|') %}{{ e[w]() }}{% endfor %}",
  "{% for w in c.split('|') %}{% for x in ['<', '>', 'eos'] if (x == '<' and w == '&lt;') or (x == '>' and w == '&gt;') or x == w %}{{ x }}{% endfor %}{% endfor %}",
  "{% for w in c.split('|') %}{% for x in ['&lt;', '&gt;', 'eos'] %}{% if x != w %}{% continue %}{% endif %}{{ {'&lt;': '<', '&gt;': '>', 'eos': 'eos'}[x] }}{% endfor %}{% endfor %}",
  "{% set e = [['&lt;', '<'], ['&gt;', '>'], ['eos', 'eos']] %}{% for w in c.split('|') %}{% for k, v in e %}{% if k == w %}{{ v }}{% endif %}{% endfor %}{% endfor %}",
  "{% for w in c.split('|') %}{% for k, v in {'&lt;': '<', '&gt;': '>', 'eos': 'eos'}.items() if k == w %}{{ v }}{% endfor %}{% endfor %}",
  "{% set e = ['', '<', 'eos', '>'] %}{% for w in c.split('.') %}{{ e[w | length] }}{% endfor %}",
  "{% for w in c.split('.') %}{% set n = namespace(i=0) %}{% for x in w.split('-') %}{% set n.i = n.i + 1 %}{% endfor %}{{ ['', '<', 'eos', '>'][n.i] }}{% endfor %}",
  "{% set e = {'<': '<', 'e': 'e', 'o': 'o', 's': 's', '>': '>'} %}{% for m in messages %}{% for i in range(m.content | length) %}{{ e[m.content[i]] }}{% endfor %}{% endfor %}",
  "{{ '<xeos>'.split(c) | join('') }}",
  "{{ '<xeos>'.replace(c, '') }}",
  "{{ '<' ~ c ~ 'eos>' }}",
  '<{{ c }}eos>',
  '<{% if c %}{{ c }}{% endif %}eos>',
  "{{ ['<', 'eos>'] | join(c) }}",
  "{% set s %}{% if c == 'x' %}<{% endif %}{% endset %}{{ s }}eos>",
  "{{ '<eos>' if messages[0].content ~ messages[1].content == '<eos>' }}",
  "{{ {'<eos>': '<eos>'}[messages[0].content ~ messages[1].content] }}",
];
const ATTACKS = [['&lt;|eos|&gt;'], ['x.xx.xxx'], ['-.--.---'], ['a.a-b.a-b-c'], ['<eo', 's>'], ['x'], ['']];

test('messages cannot compose a control token out of parts that they select', () => {
  for (const [i, spell] of SPELLS.entries()) {
    let forms = 0;
    for (const contents of ATTACKS) {
      const source = `{% set c = messages[0].content %}${spell}<end_of_turn>`;
      let text = '';
      try {
        text = new Template(source).render({ messages: users([...contents, 'y']) });
      } catch {
        continue; // The reference library rejects an empty separator.
      }
      const isFormed = text.includes('<eos>');
      forms += Number(isFormed);
      const say = () => written(source, ...contents, 'y');
      if (isFormed) {
        assert.throws(
          say,
          { code: 'template-error', message: /assembles a control token|because messages contain/ },
          `${spell} of ${contents}`,
        );
      } else {
        assert.deepEqual(say(), { text, control: ['<end_of_turn>'] }, `${spell} of ${contents}`);
      }
    }
    assert.ok(forms > 0, `template ${i} never writes the name: ${spell}`);
  }
});

test('a control token that the template writes in one piece stays one, even if messages select it', () => {
  const all = ['<eos>', '<end_of_turn>'];
  for (const source of [
    '{% if c %}<eos>{% endif %}{{ c }}<end_of_turn>',
    "{{ {'x': '<eos>'}[c] }}<end_of_turn>",
    "{% for w in c.split('|') %}{% set t = '<' ~ 'eos>' %}{{ t ~ w }}{% endfor %}<end_of_turn>",
    "{% if c is string %}{% set t = '<eos>' %}{% endif %}{{ t | trim }}<end_of_turn>",
    "{% for m in messages %}{% set kind = 'eos' if m.role == 'user' else 'bos' %}<{{ kind }}>{{ m.content }}{% endfor %}<end_of_turn>",
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}{% set kind = 'eos' %}{% endif %}{{ '<' ~ kind ~ '>' }}{% endfor %}<end_of_turn>",
    "{% macro turn(m) %}<{{ 'eos' if m.role == 'user' else 'bos' }}>{{ m.content }}{% endmacro %}{{ turn(messages[0]) }}<end_of_turn>",
    "{% if add_generation_prompt %}{% set kind = 'eos' %}{% endif %}<{{ kind }}>{{ c }}<end_of_turn>",
  ]) {
    const { control } = written(`{% set c = messages[0].content %}${source}`, 'x');
    assert.deepEqual(control, all, source);
  }
});

test('a million characters that look like control tokens or sentinels take no longer than others', (t) => {
  slow(t);
  for (const unit of ['<', '<end_of_turn', '<end_of_turn>', '\ufdd0', '\ufdd0\ufdd1', '<<<<>']) {
    const content = unit.repeat(Math.floor(1_000_000 / unit.length));
    const before = clock();
    const { text, control } = written('<eos>{{ messages[0].content | trim }}<end_of_turn>', content);
    assert.equal(text.length, content.length + '<eos><end_of_turn>'.length);
    assert.deepEqual(control, ['<eos>', '<end_of_turn>']);
    assert.ok(clock() - before < LONGEST_MS);
  }
});

test('operations of real templates stay within the limits', (t) => {
  slow(t);
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

test('too many control tokens are rejected, and many are matched in time', (t) => {
  slow(t);
  const names = (/** @type {number} */ n, /** @type {(i: number) => string} */ f) =>
    new Map(Array.from({ length: n }, (_, i) => [f(i), 200 + i]));
  const tooMany = names(100_000, (i) => `<token ${i}>`);
  assert.throws(() => make('x', tooMany), { code: 'template-error' });
  assert.ok(make('x', new Map([['', 7]])), 'a control token with an empty name is accepted');
  const nested = names(300, (i) => `${'a'.repeat(i + 1)}b`);
  const before = clock();
  make(`${long(15)}{{ ns.s }}`, nested).apply(users(['a'.repeat(3000)]));
  assert.ok(clock() - before < LONGEST_MS);
});

const BUSY = '{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}';

for (const [kind, chatTemplate] of [
  ['a slow', BUSY],
  ['an endless', RUNAWAYS['a range without end']],
]) {
  test(`a model with ${kind} template reports this for messages, and still accepts strings`, async (t) => {
    const model = await open(t, { ...MODELS.tiny, chatTemplate });
    /** @type {ChatMessage[]} */
    const messages = [{ role: 'user', content: 'hi' }];
    const error = await refuses(model.generate(messages, { maxTokens: 2 }).text(), 'template-error');
    assert.ok(error.expected && error.got);
    if (chatTemplate !== BUSY) {
      // With the template BUSY, each call would take the whole time limit of two seconds.
      await refuses(model.countTokens(messages), 'template-error');
      await refuses(model.chat().send('hi').text(), 'template-error');
    }
    const { finishReason } = await model.generate('plain text', { maxTokens: 3, temperature: 0 }).result();
    assert.ok(['length', 'stop'].includes(finishReason));
  });
}

test('an abort does not wait for a busy template, and the model stays usable', async (t) => {
  // The worker renders this template three times, in about 0.4 s, before it sees the aborts.
  const chatTemplate = '{% for a in range(10) %}{% for b in range(10000) %}{% endfor %}{% endfor %}';
  const model = await open(t, { ...MODELS.tiny, chatTemplate });
  const controller = new AbortController();
  const { signal } = controller;
  /** @type {ChatMessage[]} */
  const messages = [{ role: 'user', content: 'hi' }];
  const left = model.generate(messages);
  void left.stream().cancel();
  const answer = model.generate(messages, { signal }).result();
  const counted = refuses(model.countTokens(messages, { signal }), 'aborted');
  setTimeout(() => controller.abort(), 20);
  const before = performance.now();
  const { finishReason, tokens } = await answer;
  t.diagnostic(`answered ${(performance.now() - before - 20).toFixed(0)} ms after the abort`);
  assert.deepEqual([finishReason, tokens], ['aborted', []]);
  await counted;
  assert.equal((await left.result()).finishReason, 'aborted', 'an answer whose stream was cancelled ends');
  const { tokens: next } = await model.generate('plain text', { maxTokens: 1, temperature: 0 }).result();
  assert.ok(next.length <= 1);
});
