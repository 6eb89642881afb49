/* Tests that each instance of the JSON-Schema-Test-Suite is judged correctly, as compact and as indented text, or that
 * its schema is rejected with an error that names the keyword and its path (tests/vectors/schema-suite.md). */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Unsupported, compile } from '../../js/grammar/index.js';
import { accepts } from '../support/acceptor.js';

const packed = readFileSync(new URL('../vectors/schema-suite.json.gz', import.meta.url));
/** @typedef {{ draft: number, format?: string, file: string, groups: any[] }} Part */
/** @type {{ suite: Part[] }} */
const { suite } = JSON.parse(gunzipSync(packed).toString());

/** Messages about keywords that no automaton can check while it reads forward: comparisons between items, other
 * documents, and dynamic references whose target depends on the path. */
const BEYOND =
  /uniqueItems|points outside the schema|resolves to different schemas|dialect .* is not supported|can match, because/;
/** Tests of the suite to skip: they need tables of internationalised domain names, or leap seconds in other time
 * zones. */
const KNOWN_WRONG = /A-label|leap second/;

/** @param {Part} part */
function judge({ draft, format, file, groups }) {
  const found = { groups: 0, accepted: 0, beyond: 0, refused: /** @type {string[]} */ ([]) };
  for (const { schema, description, tests } of groups) {
    found.groups++;
    let grammar;
    try {
      grammar = compile(
        { schema },
        { matching: true, draft, formats: Boolean(format) || undefined, milliseconds: 20000 },
      );
    } catch (error) {
      assert.ok(error instanceof Unsupported, `${file}: ${description}: ${error}`);
      assert.ok(error.what && (error.place === '' || String(error.place).startsWith('/')), `${error.place}`);
      if (BEYOND.test(error.what)) found.beyond++;
      else found.refused.push(`${description}: ${error.what}`);
      continue;
    }
    found.accepted++;
    for (const { data, valid, description: name } of tests) {
      if (format && KNOWN_WRONG.test(`${description} ${name}`)) continue;
      for (const text of [JSON.stringify(data), JSON.stringify(data, null, 2)]) {
        assert.equal(accepts(grammar, text), valid, `${file}: ${description}: ${name}: ${text}`);
      }
    }
  }
  return found;
}

for (const draft of [2020, 7]) {
  test(`the required tests of draft ${draft} are judged correctly`, () => {
    const all = suite.filter((part) => part.draft === draft && !part.format).map(judge);
    const sum = (/** @type {'groups' | 'accepted' | 'beyond'} */ key) =>
      all.reduce((total, one) => total + one[key], 0);
    const share = sum('accepted') / (sum('groups') - sum('beyond'));
    assert.ok(sum('groups') > 200, 'the suite has been read');
    assert.ok(share >= 0.97, `${share}: refused: ${all.flatMap((one) => one.refused).join('; ')}`);
  });

  test(`the format tests of draft ${draft} are judged correctly`, () => {
    const all = suite.filter((part) => part.draft === draft && part.format).map(judge);
    const refused = all.flatMap((one) => one.refused);
    assert.ok(all.length >= 15);
    assert.deepEqual(
      refused.filter((one) => !/format (regex|idn-)/.test(one)),
      [],
    );
  });
}

test('docs/schemas.md has the results that the engine gives', () => {
  const script = fileURLToPath(new URL('../../tools/check/schemas.js', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});
