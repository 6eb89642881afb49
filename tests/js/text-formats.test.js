/* text-formats: random texts of each JSON Schema format, as answers may write them. ajv-formats and the package's check
 * of complete values accept all of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import ajvFormats from 'ajv-formats/dist/formats.js';
import { compile } from '../../js/grammar/index.js';
import { Languages } from '../../js/grammar/language.js';
import { Budget } from '../../js/grammar/refusal.js';
import { regular } from '../../js/grammar/regular.js';
import { FORMATS, formatNode } from '../../js/grammar/text-formats.js';
import { randoms } from '../support/random.js';

const TEXTS = 400;
const validators = /** @type {Record<string, any>} */ (/** @type {any} */ (ajvFormats).fullFormats);

/** @param {any} format @param {string} text */
function isValid(format, text) {
  const judge = format.validate ?? format;
  return judge instanceof RegExp ? judge.test(text) : judge(text);
}

/** @param {import('../../js/grammar/regular.js').Dfa} dfa @param {(n: number) => number} random */
function walk({ start, edges, accept }, random) {
  let state = start;
  let text = '';
  for (let n = 0; n < 300; n++) {
    const list = edges[state];
    if (accept[state] && (!list.length || random(n > 40 ? 2 : 6) === 0)) return text;
    const [lo, hi, to] = list[random(list.length)];
    const point = lo + random(hi - lo + 1);
    text += String.fromCodePoint(point >= 0xd800 && point < 0xe000 ? lo : point);
    state = to;
  }
  return null;
}

test('texts that answers may write are valid according to ajv-formats and to the check of complete values', () => {
  const random = randoms(11);
  const languages = new Languages(new Budget({ milliseconds: 60000, steps: 1e9 }));
  let judged = 0;
  for (const name of Object.keys(FORMATS)) {
    const [narrow, wide] = [true, false].map((is) => formatNode(name, new Budget(), '', is));
    assert.ok(narrow && wide);
    const dfa = regular(narrow, { regularRule: () => assert.fail('a rule'), spend() {} });
    const texts = Array.from({ length: TEXTS }, () => walk(dfa, random)).filter((text) => text !== null);
    assert.ok(texts.length > TEXTS / 2, `${name}: ${texts.length} texts`);
    for (const text of texts) {
      if (/time/.test(name))
        assert.ok(!/[tz]/.test(text), `${name}: Date.parse and SQL read capital letters only: ${text}`);
      if (validators[name]) assert.ok(isValid(validators[name], text), `${name}: ${JSON.stringify(text)}`);
      if (narrow !== wide && text.length < 60)
        assert.ok(languages.matches(wide, text), `${name}: ${JSON.stringify(text)}`);
    }
    judged += Number(name in validators);
  }
  assert.ok(judged >= 13, `${judged} formats have a validator`);
});

test('compiling a cached format counts as the same work', () => {
  const spent = () => {
    const budget = new Budget();
    compile({ schema: { format: 'iri' } }, { budget });
    return new Budget().left - budget.left;
  };
  assert.equal(spent(), spent());
  assert.ok(spent() > 1000);
});
