/* run: the laboratory as a whole (laboratory.js), or a single run again.
 *   node tests/lab/run.js [--side node|chromium|firefox|webkit] [--runs 2000] [--seed 1] [--first 0] [--kind TEXT] [--save FILE]
 *     [--add FILE]… [--usual] [--write]
 * --kind: only kinds whose name has that in it; --save: what was found, to --add it to another run; --write: a table of
 * what was tried, how often, and what held: of Node in docs/reports/faults.md, of browsers in docs/reports/lost.md; --usual: with the
 * package's own settings (Node), where it counts how long a caller is told nothing */
import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { keep } from './tables.js';
import { testModel } from '../js/models.js';
import { KINDS } from './faults.js';
import { experiment, longer } from './laboratory.js';
import { browserPlace } from './place-browser.js';
import { NodePlace } from './place-node.js';
import { keepTable, linesOf, tableOf, waitsOf } from './table.js';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
    first: { type: 'string', default: '0' },
    side: { type: 'string', default: 'node' },
    kind: { type: 'string' },
    usual: { type: 'boolean' },
    write: { type: 'boolean' },
    save: { type: 'string' },
    add: { type: 'string', multiple: true, default: [] },
  },
});
if (values.kind) KINDS.splice(0, KINDS.length, ...KINDS.filter(({ name }) => name.includes(String(values.kind))));
const runs = Number(values.runs);
const began = Date.now();
const place = values.side === 'node' ? new NodePlace() : browserPlace(/** @type {any} */ (values.side));
const rows = await experiment(await readFile(await testModel('parity-q4_0')), {
  place,
  usual: values.usual,
  numbers: Array.from({ length: runs }, (_, i) => Number(values.first) + i),
  seed: Number(values.seed),
  each(n, plan, result) {
    if (!['right', 'coded'].includes(result))
      console.error(
        `${n} ${plan.kind.name} (${plan.from}, ${plan.moment}, ${plan.lasting}, ${plan.digest}): ${result}`,
      );
    if ((n + 1) % 100 === 0) console.error(`${n + 1} runs, ${Math.round((Date.now() - began) / 1000)} s`);
  },
});
for (const file of values.add) {
  for (const [name, { tried, right, coded, broken, waited }] of Object.entries(
    JSON.parse(await readFile(file, 'utf8')),
  )) {
    const row = (rows[name] ??= { tried: 0, right: 0, coded: 0, broken: [] });
    Object.assign(row, {
      tried: row.tried + tried,
      right: row.right + right,
      coded: row.coded + coded,
      waited: longer(row.waited, waited),
    });
    row.broken.push(...broken);
  }
}
if (values.save) await writeFile(values.save, JSON.stringify(rows));
const broken = Object.values(rows).flatMap((row) => row.broken);
const tried = Object.values(rows).reduce((sum, row) => sum + row.tried, 0);
console.log(`${place.name}: ${Object.keys(rows).length} kinds, ${tried} runs, ${broken.length} of them broke a rule`);
if (values.write && values.usual) keep('faults.md', 'waits', waitsOf(rows), 1);
else if (values.write && values.side === 'node')
  await keepTable('docs/reports/faults.md', tableOf(rows, { runs: tried, seed: Number(values.seed) }));
else if (values.write) keep('lost.md', 'laboratory', linesOf(rows, place.name), 2);
process.exitCode = broken.length ? 1 : 0;
