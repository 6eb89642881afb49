/* Tests partial values of incomplete JSON: each prefix of a text has a value, which never contradicts the complete
 * value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partialJson } from '../../js/tool-calling/partial.js';

const WHOLE = [
  {
    name: 'A "quoted" \\ name\n',
    list: [1, -2.5, 3e10, true, false, null, []],
    in: { deep: { er: ['\ud83d\ude00', 'שלום', '\u0001'] } },
  },
  [[], {}, [[0]], ''],
  'text',
  true,
  null,
  -0.5,
  { '': '', 'a,b:"{': ['}', ']'] },
  { '\\': '\\\\"' },
];

/** Returns whether the value of an incomplete JSON text agrees with the complete value. @param {any} part
 * @param {any} whole @returns {boolean} */
function within(part, whole) {
  if (typeof part === 'string') return typeof whole === 'string' && whole.startsWith(part);
  if (Array.isArray(part))
    return Array.isArray(whole) && part.length <= whole.length && part.every((v, i) => within(v, whole[i]));
  if (typeof part !== 'object' || part === null) return Object.is(part, whole);
  const names = Object.keys(part);
  const all = Object.keys(whole);
  return names.every((name, i) => all[i] === name && within(part[name], whole[name]));
}

/** @param {string} c */
const escaped = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** @param {string} text */
function grow(text) {
  return Array.from({ length: text.length + 1 }, (_, n) => partialJson(text.slice(0, n)));
}

test('each prefix of a JSON text gives a part of the value; the parts grow, and the last one is the value', () => {
  for (const whole of WHOLE) {
    const text = JSON.stringify(whole);
    for (const spelt of [text, JSON.stringify(whole, null, 2), text.replace(/[^ -~]/g, escaped)]) {
      const parts = grow(`${spelt} `);
      assert.deepEqual(parts.at(-1), whole);
      parts.forEach((part, n) => {
        const here = `${spelt.slice(0, n)} gives ${JSON.stringify(part)}`;
        const before = parts[n - 1];
        if (part === undefined) return assert.equal(before, undefined, here);
        assert.ok(within(part, whole), here);
        assert.deepEqual(JSON.parse(JSON.stringify(part)), part);
        assert.ok(before === undefined || within(before, part), `an earlier part of the value is lost: ${here}`);
      });
    }
  }
});

test('hides unfinished numbers, words and keys; shows partial strings', () => {
  for (const [text, value] of /** @type {[string, unknown][]} */ ([
    ['{"a":12', {}],
    ['{"a":12,', { a: 12 }],
    ['{"a":tru', {}],
    ['{"a":true', { a: true }],
    ['{"ab', {}],
    ['{"ab"', {}],
    ['{"ab":', {}],
    ['{"ab":"x', { ab: 'x' }],
    ['{"ab":"x\\', { ab: 'x' }],
    ['{"ab":"x\\u00e', { ab: 'x' }],
    ['{"ab":"\\\\', { ab: '\\' }],
    ['{"ab":"\\ud83d', { ab: '' }],
    ['{"ab":"\\ud83d\\ude00', { ab: '\ud83d\ude00' }],
    ['[1,2', [1]],
    ['[[', [[]]],
    ['', undefined],
    ['-', undefined],
    ['12', undefined],
    ['"', ''],
    ['  ', undefined],
  ]))
    assert.deepEqual(partialJson(text), value, text);
});

test('accepts a key like __proto__ and deep nesting', () => {
  const value = partialJson('{"__proto__":{"polluted":1},"b":2,');
  assert.deepEqual(Object.keys(value), ['__proto__', 'b']);
  assert.equal(/** @type {any} */ ({}).polluted, undefined);
  let depth = 0;
  for (let node = partialJson('['.repeat(100000)); node; node = node[0]) depth++;
  assert.equal(depth, 100000);
});

test('invalid JSON gives undefined, or the value before the error', () => {
  for (const text of ['Hello', '}', ',', ':', '\\', 'nul', '1x']) assert.equal(partialJson(text), undefined, text);
  assert.deepEqual(partialJson('{"a":1} and {"b":2}'), { a: 1 });
  assert.deepEqual(partialJson('{"a":1,oops'), { a: 1 });
});
