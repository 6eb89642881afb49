/* match: the command `gemma-wasm match`, which checks texts against a constraint, token by token, as if a model
 * generated them. With --cases, writes a line of JSON for each case. */
import { maskTimes, matchOf } from '../matches.js';
import { openHeader } from '../model.js';
import { incomplete, wrongValue } from './errors.js';
import { parseExactly, stringifyExactly } from './exact-json.js';
import { readText } from './flags.js';
import { FORMAT, formatOf } from './format.js';
import { print, using } from './output.js';
/** @import { HeaderModel } from '../model.js' */
/** @import { Values } from './flags.js' */

/** @typedef {{ name?: string, schema: any, tests?: { valid: boolean, data: any }[] }} Case */

/** Flags of `gemma-wasm match`. */
export const MATCH = `${FORMAT} text cases draft json`;
const DRAFTS = ['4', '6', '7', '2019', '2020'];

/** Checks the values of one case against its schema, each as compact and as indented JSON. @param {HeaderModel} model
 * @param {Case} one
 * @param {number} [draft] version of JSON Schema */
async function judge(model, { schema, tests = [] }, draft) {
  const texts = tests.flatMap(({ data }) => [stringifyExactly(data), stringifyExactly(data, 2)]);
  const { compiled, reason, verdicts, times, first } = await model.call('match', { format: { schema }, texts, draft });
  if (!compiled) return { compiled, reason, accepted: 0, refused: 0, wrong: 0, times, first };
  let accepted = 0;
  let wrong = 0;
  tests.forEach(({ valid }, i) => {
    const both = [verdicts[2 * i], verdicts[2 * i + 1]].map((verdict) => verdict.accepted);
    if (both[0]) accepted++;
    if (both[0] !== valid || both[1] !== valid) wrong++;
  });
  return { compiled, accepted, refused: tests.length - accepted, wrong, times, first };
}

/** @param {HeaderModel} model @param {string} path @param {number} [draft] */
async function judgeAll(model, path, draft) {
  const lines = (await readText(path)).split('\n').filter((line) => line.trim());
  const sum = { cases: 0, compiled: 0, accepted: 0, refused: 0, wrong: 0 };
  /** @type {number[]} */
  const all = [];
  const firsts = [];
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

/** Runs `gemma-wasm match`. @param {Values} values */
export async function match(values) {
  const { cases, draft: named } = values;
  const draft = named === undefined ? undefined : Number(named);
  if (draft !== undefined && !DRAFTS.includes(named)) throw wrongValue('draft', `one of ${DRAFTS.join(', ')}`, named);
  if (cases !== undefined) return using(openHeader, values, (model) => judgeAll(model, cases, draft));
  if (values.text === undefined) throw incomplete('match', '--text FILE or --cases FILE');
  const format = await formatOf(values, parseExactly);
  if (!format) throw incomplete('match', `one of --${FORMAT.replaceAll(' ', ', --')}`);
  const text = await readText(values.text);
  const found = await using(openHeader, values, (model) => model.call('match', { format, texts: [text], draft }));
  print(values, matchOf(found));
}
