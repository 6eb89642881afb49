/*
 * schemas: counts the JSON schemas that the engine supports, and checks that it accepts their valid instances only.
 * Prints a table for the JSON-Schema-Test-Suite (tests/vectors/schema-suite.md), or for a file with one case of
 * MaskBench per line: { name, schema, tests: [{ valid, data }] }. Checks instances as compact and as indented text.
 *
 *   node tools/check/schemas.js [--model FILE.gguf] [--cases FILE.jsonl] [--write | --check]
 *
 * Only the vocabulary of the model is read. The default is the storyteller. Exits with status 1 if the engine accepts
 * an invalid instance or rejects a valid one. --write: writes the sums for the JSON-Schema-Test-Suite into
 * docs/schemas.md. --check: exits with status 1 only if that table is stale.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parseExactly, stringifyExactly } from '../../js/cli/exact-json.js';
import '../../js/index.node.js';
import { openHeader } from '../../js/model.js';
import { keep } from '../../tests/lab/tables.js';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';

/** @typedef {{ name: string, schema: any, tests: { valid: boolean, data: any }[], draft?: number,
 *   formats?: boolean }} Case */
/** @typedef {{ schemas: number, held: number, instances: number, wrong: string[], reasons: Map<string, number>,
 *   slowest: number }} Row */

/** @returns {Map<string, Case[]>} cases by file */
function suiteCases() {
  const packed = readFileSync(at('tests', 'vectors', 'schema-suite.json.gz'));
  const { suite } = JSON.parse(gunzipSync(packed).toString());
  return new Map(
    suite.map((/** @type {any} */ { file, draft, format, groups }) => [
      file,
      groups.map((/** @type {any} */ { description, schema, tests }) => ({
        name: description,
        schema,
        tests,
        draft,
        formats: format || undefined,
      })),
    ]),
  );
}

/** @param {string} path @returns {Map<string, Case[]>} */
function fileCases(path) {
  /** @type {Map<string, Case[]>} */
  const all = new Map();
  for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
    const one = /** @type {Case} */ (parseExactly(line, path));
    const group = one.name.replace(/(---|_).*/s, '');
    all.set(group, [...(all.get(group) ?? []), one]);
  }
  return all;
}

/** Returns the reason of a schema's rejection without details, so that similar reasons can be counted.
 * @param {string} reason */
const kindOf = (reason) =>
  reason
    .replace(/ \(at .*/s, '')
    .replace(/: .*/s, '')
    .replace(/ \S*[/#"\d]\S*/g, ' …');

/** @param {import('../../js/model.js').HeaderModel} model @param {Case[]} cases @returns {Promise<Row>} */
async function judge(model, cases) {
  /** @type {Row} */
  const row = { schemas: cases.length, held: 0, instances: 0, wrong: [], reasons: new Map(), slowest: 0 };
  for (const { name, schema, tests, draft, formats } of cases) {
    const texts = tests.flatMap(({ data }) => [stringifyExactly(data), stringifyExactly(data, 2)]);
    const found = await model.call('match', { format: { schema }, texts, draft, formats, masks: false });
    row.slowest = Math.max(row.slowest, found.first);
    if (!found.compiled) {
      const kind = kindOf(found.reason ?? '');
      row.reasons.set(kind, (row.reasons.get(kind) ?? 0) + 1);
      continue;
    }
    row.held++;
    row.instances += texts.length;
    texts.forEach((text, i) => {
      if (found.verdicts[i].accepted !== tests[i >> 1].valid) row.wrong.push(`${name}: ${text.slice(0, 200)}`);
    });
  }
  return row;
}

/** @returns {Row} */
const nothing = () => ({ schemas: 0, held: 0, instances: 0, wrong: [], reasons: new Map(), slowest: 0 });

/** Adds a row to `sum`. @param {Row} sum @param {Row} row @param {string} name of the group, for the list of wrong verdicts */
function add(sum, row, name) {
  (sum.schemas += row.schemas), (sum.held += row.held), (sum.instances += row.instances);
  sum.wrong.push(...row.wrong.map((one) => `${name}: ${one}`));
  sum.slowest = Math.max(sum.slowest, row.slowest);
  for (const [reason, count] of row.reasons) sum.reasons.set(reason, (sum.reasons.get(reason) ?? 0) + count);
}

/** Returns the Markdown row of the counts of schemas. @param {string} name @param {Row} row */
const line = (name, { schemas, held, instances, wrong }) =>
  `| ${name} | ${schemas} | ${held} (${((100 * held) / schemas).toFixed(1)} %) | ${instances.toLocaleString('en')} | ${wrong.length} |`;

/** Prints the table of all groups. Returns the number of wrong verdicts, and the sums of each draft as rows.
 * @param {string} title @param {Map<string, Case[]>} groups @param {import('../../js/model.js').HeaderModel} model */
async function table(title, groups, model) {
  const sum = nothing();
  /** @type {Map<string, Row>} */
  const kinds = new Map();
  console.log(`\n${title}\n\n| group | schemas | supported | texts checked | wrong |\n| :-- | --: | --: | --: | --: |`);
  for (const [name, cases] of groups) {
    const row = await judge(model, cases);
    console.log(line(name, row));
    const [{ draft, formats }] = cases;
    const kind = `draft ${draft === 2020 ? '2020-12' : draft}, ${formats ? 'formats' : 'required'}`;
    kinds.set(kind, kinds.get(kind) ?? nothing());
    for (const whole of [sum, /** @type {Row} */ (kinds.get(kind))]) add(whole, row, name);
  }
  console.log(line('all', sum));
  console.log(
    `\nNot supported: ${[...sum.reasons]
      .sort((a, b) => b[1] - a[1])
      .map(([why, count]) => `${count} ${why}`)
      .join('; ')}.`,
  );
  console.log(`Slowest to compile or reject: ${sum.slowest.toFixed(0)} ms.`);
  for (const wrong of sum.wrong) console.log(`wrong verdict: ${wrong}`);
  return { wrong: sum.wrong.length, rows: [...kinds].map(([kind, row]) => line(kind, row)) };
}

await cli(async () => {
  const storyteller = at('models', 'storyteller', 'storyteller.gguf');
  const { values } = parseOptions({ model: storyteller, cases: '', write: false, check: false });
  const { cases, write, check } = values;
  if (cases && (write || check)) throw new Trouble('--cases cannot be combined with --write or --check.');
  const model = await openHeader(values.model, {});
  const { wrong, rows } = cases
    ? await table(cases, fileCases(cases), model)
    : await table('JSON-Schema-Test-Suite', suiteCases(), model);
  await model.dispose();
  if (write) keep('schemas.md', 'schema-suite', rows, 1);
  const document = readFileSync(at('docs', 'schemas.md'), 'utf8');
  const stale = rows.filter((row) => !document.includes(`\n${row}\n`));
  if (check && stale.length) throw new Trouble('docs/schemas.md is stale. Run node tools/check/schemas.js --write.');
  if (wrong && !write && !check) process.exitCode = 1;
});
