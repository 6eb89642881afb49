/**
 * bench/copyset: times answers that copy from their prompt, and free text, with and without draft tokens, alternately.
 * For each kind of text, prints the tokens per second of both, their ratio, the share of draft tokens that are
 * accepted, and the tokens per step.
 *
 *   node tools/bench/copyset.js [--where chromium|firefox|node] [--kinds rewrite,quote,form,code,free] [--threads 2]
 *                               [--rounds 3] [--variant auto] [--temperature 0] [--model NAME|PATH]
 *                               [--write]
 *
 * No trained model is needed: the engine evaluates random weights of a model's exact shape, but each drawn token is
 * replaced by that of a reference answer (replay.js). Steps take as long as with a trained model. The share of accepted
 * drafts is also the same, because drafts depend only on the tokens of the prompt and the answer. `node` is the newest
 * installed Node. --write: writes the table of docs/reports/speed.md.
 */
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { testModel } from '../../tests/js/models.js';
import { keep } from '../../tests/lab/tables.js';
import { newerNode } from '../build/setup.js';
import { at, cli, parseOptions } from '../support/proc.js';
import { askBrowser, buildPage } from './browser.js';
import { machine } from './machine.js';
import { median } from './table.js';
import { askNode } from './visit.js';

/** @import { Found, Job, Row, Timing } from './drivers/copyset.js' */

const FREE = 'free';

/** @param {string} where @param {Job & { driver: string }} job @returns {Promise<Found>} */
async function measure(where, job) {
  if (where === 'chromium' || where === 'firefox') {
    await buildPage('tools/bench/replay/worker.js');
    return askBrowser(where, job.model, job);
  }
  const NODE_OPTIONS = `--import ${pathToFileURL(at('tools', 'bench', 'replay.js')).href}`;
  return askNode(newerNode() || process.execPath, job, { NODE_OPTIONS });
}

/** Sums the milliseconds of answers with (`on`) or without (`off`) draft tokens: each text's median over the rounds.
 * @param {Row[]} rows @param {'on' | 'off'} side */
const time = (rows, side) => rows.reduce((sum, row) => sum + Number(median(row[side].map(({ ms }) => ms))), 0);

/** Sums one value of the answers with draft tokens: each text's median over the rounds.
 * @param {Row[]} rows @param {(one: Timing) => number} value */
const sum = (rows, value) => rows.reduce((all, { on }) => all + Number(median(on.map(value))), 0);

/** @param {Row[]} rows */
function cells(rows) {
  const tokens = sum(rows, (one) => one.tokens);
  const [drafted, accepted] = [sum(rows, (one) => one.drafted), sum(rows, (one) => one.accepted)];
  const [off, on] = [time(rows, 'off'), time(rows, 'on')];
  return [
    String(rows.length),
    String(tokens),
    ((1000 * tokens) / off).toFixed(1),
    ((1000 * tokens) / on).toFixed(1),
    `${(off / on).toFixed(2)} x`,
    drafted ? `${((100 * accepted) / drafted).toFixed(0)} %` : '-',
    (tokens / (tokens - accepted)).toFixed(2),
  ];
}

await cli(async () => {
  const { values } = parseOptions({
    where: 'chromium',
    kinds: `rewrite,quote,form,code,${FREE}`,
    threads: 2,
    rounds: 3,
    variant: 'auto',
    temperature: 0,
    model: 'oneb-q4_0',
    write: false,
  });
  const { where, threads, temperature } = values;
  const kinds = values.kinds.split(',');
  const model = existsSync(values.model) ? values.model : await testModel(values.model);
  const found = await measure(where, { ...values, driver: 'copyset', model, kinds });
  const { processor, cores } = machine();
  console.log(
    `${processor}, ${cores} cores, ${where}, ${found.variant}, threads: ${threads}, temperature ${temperature}`,
  );
  const groups = kinds.map((kind) => ({ kind, rows: found.rows.filter((row) => row.kind === kind) }));
  const copies = found.rows.filter(({ kind }) => kind !== FREE);
  if (copies.length) groups.push({ kind: 'all that copy', rows: copies });
  console.log('kind | answers | tokens | tokens/s without | with | ratio | accepted | tokens per step');
  const table = groups.map(({ kind, rows }) => `| ${[where, kind, ...cells(rows)].join(' | ')} |`);
  for (const row of table) console.log(row);
  if (values.write) keep('reports/speed.md', 'copyset', table, 2);
});
