/* match: the command that judges texts by a format, token by token, as answers are held to it; one line of JSON a case
 * with --cases. */
import { readFile } from 'node:fs/promises';
import { maskTimes } from '../matches.js';
import { openHeader } from '../model.js';
import { UsageError } from './flags.js';
import { parseExactly, stringifyExactly } from './exact-json.js';
import { print, using } from './output.js';
/** @import { HeaderModel } from '../model.js' */
/** @import { Values } from './flags.js' */

/** @typedef {{ name?: string, schema: any, tests?: { valid: boolean, data: any }[] }} Case */

const FORMATS = ['schema', 'regex', 'grammar', 'choices'];

/** @param {Values} values @returns {Promise<any>} */
export async function formatOf(values) {
  const named = FORMATS.filter((name) => values[name] !== undefined);
  if (named.length !== 1) throw new UsageError(`expected one of ${FORMATS.map((name) => `--${name}`).join(', ')}`);
  if (values.schema) return { schema: parseExactly(await readFile(values.schema, 'utf8'), values.schema) };
  if (values.grammar) return { grammar: await readFile(values.grammar, 'utf8') };
  return values.regex ? { regex: values.regex } : { choices: values.choices.split(',') };
}

/** @param {HeaderModel} model @param {Case} one @param {number} [draft] */
async function judge(model, { schema, tests = [] }, draft) {
  const texts = tests.flatMap(({ data }) => [stringifyExactly(data), stringifyExactly(data, 2)]);
  const { compiled, reason, verdicts, times, first } = await model.call('match', { format: { schema }, texts, draft });
  if (!compiled) return { compiled, reason, accepted: 0, refused: 0, wrong: 0, times, first };
  let accepted = 0, wrong = 0;
  tests.forEach(({ valid }, i) => {
    const both = [verdicts[2 * i], verdicts[2 * i + 1]].map((verdict) => verdict.accepted);
    if (both[0]) accepted++;
    if (both[0] !== valid || both[1] !== valid) wrong++;
  });
  return { compiled, accepted, refused: tests.length - accepted, wrong, times, first };
}

/** @param {HeaderModel} model @param {string} path @param {number} [draft] */
async function judgeAll(model, path, draft) {
  const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line.trim());
  const sum = { cases: 0, compiled: 0, accepted: 0, refused: 0, wrong: 0 };
  /** @type {number[]} */
  const all = [], firsts = [];
  for (const [i, line] of lines.entries()) {
    const one = /** @type {Case} */ (parseExactly(line, `${path}, line ${i + 1}`));
    const { times, first, ...result } = await judge(model, one, draft);
    sum.cases++;
    if (result.compiled) sum.compiled++, all.push(...times), firsts.push(first);
    for (const key of /** @type {const} */ (['accepted', 'refused', 'wrong'])) sum[key] += result[key];
    const masks = maskTimes(times, first);
    process.stdout.write(`${JSON.stringify({ name: one.name ?? `line ${i + 1}`, ...result, masks })}\n`);
  }
  const { p50, p99 } = maskTimes(firsts, 0);
  const masks = { ...maskTimes(all, 0), first: { p50, p99 } };
  process.stdout.write(`${JSON.stringify({ summary: true, ...sum, masks })}\n`);
}

/** @param {Values} values */
export async function match(values) {
  const draft = values.draft === undefined ? undefined : Number(values.draft);
  if (values.cases) return using(openHeader, values, (model) => judgeAll(model, values.cases, draft));
  if (values.text === undefined) throw new UsageError('match needs --text FILE or --cases FILE');
  const format = await formatOf(values), text = await readFile(values.text, 'utf8');
  const found = await using(openHeader, values, (model) => model.call('match', { format, texts: [text], draft }));
  const { compiled, reason, verdicts: [verdict = { accepted: false }], times, first } = found;
  print(values, { compiled, reason, ...verdict, masks: maskTimes(times, first) });
}
