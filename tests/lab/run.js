/* run: runs fault-injection and soak tests (cases.js); lists them without arguments.
 *   node tests/lab/run.js [CASE…] [--count N] [--seed 1] [--side node,chromium] [--first 0] [--kind PATTERN] [--write]
 * --count: number of runs, or of the things that the list names; --first: number of the first run, to repeat one;
 * --kind: only faults whose name matches; --write: writes the results into the documents. */
import { parseArgs } from 'node:util';
import { closeAll } from '../support/closing.js';
import { CASES } from './cases.js';
import { RULES } from './rules.js';
import { keep } from './tables.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string' },
    seed: { type: 'string', default: '1' },
    side: { type: 'string' },
    first: { type: 'string', default: '0' },
    kind: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const unknown = positionals.filter((name) => !Object.hasOwn(CASES, name));
if (unknown.length) throw new Error(`No such case: ${unknown}. There are: ${Object.keys(CASES).join(', ')}.`);
if (!positionals.length) {
  for (const [name, { sides, inject, rules, count, unit = 'runs' }] of Object.entries(CASES)) {
    console.log(`${name}: ${count} ${unit}; ${sides.join(', ')}; breaks ${inject}`);
    for (const [rule, words] of Object.entries(RULES)) if (rules.includes(rule)) console.log(`  ${words}`);
  }
}
for (const name of positionals) {
  const one = CASES[name];
  const { run } = await import(`./${one.module ?? name}.js`);
  for (const side of values.side?.split(',') ?? one.sides) {
    if (!one.sides.includes(side)) throw new Error(`${name} does not run in ${side}, but in ${one.sides.join(', ')}.`);
    const missing = side === 'webkit' && (await import('../e2e/webkit.js')).noWebKit();
    if (missing) {
      console.log(`${name} in webkit is skipped: ${missing}`);
      continue;
    }
    const began = performance.now();
    const asked = { count: Number(values.count ?? one.count), seed: Number(values.seed), first: Number(values.first) };
    /** @type {(() => unknown)[]} */
    const ends = [];
    const after = (/** @type {() => unknown} */ end) => void ends.unshift(end);
    /** @type {Promise<import('./cases.js').Result>} */
    const running = run({ side, ...asked, kind: values.kind ?? one.kind ?? '', after, ...one.options }).catch(
      (/** @type {Error} */ cause) => {
        throw new Error(`${name} in ${side} broke a rule: ${JSON.stringify(asked)}`, { cause });
      },
    );
    await closeAll([() => running, () => closeAll(ends)]);
    const { counts, broken = [], rows, table = one.table } = await running;
    const seconds = Math.round((performance.now() - began) / 1000);
    console.log(JSON.stringify({ case: name, side, ...asked, seconds, ...counts, broken: broken.length }));
    for (const line of broken) console.log(line);
    if (broken.length) process.exitCode = 1;
    if (values.write && table && rows)
      keep(
        table[0],
        table[1],
        rows.map((row) => `| ${row.join(' | ')} |`),
        table[2],
      );
  }
}
